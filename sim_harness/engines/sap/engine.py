"""`sap`: compliant contact with Coulomb friction as one unconstrained convex problem per step in v  [SAP].

    min ½ ‖v − v*‖²_A + ½ ‖P_F(y(v))‖²_R          y = R⁻¹ (v̂ − J v)
    R_n = max(β² w / 4π², 1 / (dt k (dt + τ_d)))        R_t = σ w        v̂_n = −φ / (dt + τ_d)
A contact presses with f_N = −k (φ⁺ + τ_d N v⁺) where it sticks, never pulls, and slides against the whole of its friction.
Rows are solved with the contacts: a stop is a contact without friction, a tie (closure, weld, coupler) one that also pulls,
both near rigid where they have no compliance of their own, and with one as stiff as that. Islands of bodies that nothing links
are minimised one by one.

Modelling error: one that ought to stick creeps at R_t f_T dt; one that slides is pressed as if it were nearer by
(dt + τ_d) μ ‖v_T‖, so it glides above the ground; no contact is stiffer than 4π² / (β² w dt (dt + τ_d)), R_n's first term.
μ above MU_CAP, so also μ = ∞, is taken for MU_CAP: what slides has to rise at μ times its speed, so much friction would hold
feet down that are on their way up.
"""

from typing import Annotated, ClassVar, Literal

import msgspec
import numpy as np

from controllers.config.loading import Kind, NonNegative, Positive
from idyn.status import STATUSES, Status
from idyn.types import Array
from sim_harness.engines.contact_space import is_sound, no_solution
from sim_harness.engines.engine import Accuracy, ForwardProblem, ForwardSolution
from sim_harness.engines.items import items_of
from sim_harness.engines.sap.assembly import Materials, contact_step
from sim_harness.engines.sap.motion import SCHEMES, free_motion
from sim_harness.engines.sap.newton import Rules

MU_CAP = 10.0
"""Stand-in for infinite friction."""


class Sap(Kind, frozen=True, tag="sap"):
    """Settings of the engine; stiffness and dissipation of contacts that the world has none for.

    stiffness: k [N/m], > 0, inf for as rigid as the step allows; the default lets the paper's robot sink in by 0.1 mm
    dissipation: τ_d [s], ≥ 0; half of it times the contact's own frequency is the share of critical damping
    beta: period of the stiffest contact, in steps; sigma: σ, how little a sticking contact creeps
    scheme: of integration. "symplectic" and "explicit" take forces at the beginning of the step, "implicit" and "midpoint" (of
        second order) find them by Newton's method
    candidates: "touching" takes contacts with φ ≤ 0, so what bounces does so as a spring and damper would; "near" all that are
        reported: forces without jumps, gliding and rest without chatter, landings that are damped more; feet that swing low
        over ground of much friction are caught by it
    tolerance: ε_r, largest momentum error of a step that counts as solved, of the momentum
    max_iterations: allowance of Newton's method
    """

    stiffness: Positive = 1e5
    dissipation: NonNegative = 5e-3
    beta: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = 1.0
    sigma: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = 1e-3
    scheme: Literal["symplectic", "explicit", "implicit", "midpoint"] = "symplectic"
    candidates: Literal["touching", "near"] = "touching"
    tolerance: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 1e-8
    max_iterations: Annotated[int, msgspec.Meta(ge=1)] = 100

    rows_at: ClassVar[float] = 0.0
    contacts_at: ClassVar[float] = 0.0

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        free = free_motion(problem, self.scheme)
        if free is None or not is_sound(problem):
            return no_solution(problem)
        motion, found = free
        J, materials, chosen = self.constraints(problem)
        rules = Rules(self.tolerance, self.max_iterations)
        v, gamma, code, steps, (dynamics, contact, momentum, slackness) = contact_step(motion, J, materials, rules)
        p, n, drift = np.zeros((len(chosen), 3)), materials.contacts, SCHEMES[self.scheme].drift(v, problem.v)
        p[chosen] = gamma[:n]
        status = STATUSES[code] if found or code else Status.NOT_CERTIFIED
        return ForwardSolution(
            v_plus=v,
            p=p,
            status=status if np.isfinite(dynamics) else Status.NON_FINITE,
            iterations=steps,
            dynamics=dynamics,
            contact=contact,
            rows=None if problem.rows is None else gamma[n:, 2],
            drift=None if drift is v else drift,
            accuracy=Accuracy(momentum=momentum, slackness=slackness),
        )

    def constraints(self, problem: ForwardProblem) -> tuple[Array, Materials, Array]:
        """J of contacts and rows, three rows each (3k, nv); what they are made of; which contacts were taken (n)."""
        a = problem
        chosen = np.ones(len(a.mu), dtype=bool) if self.candidates == "near" else a.gaps <= 0.0
        every = np.ones(0 if a.rows is None else len(a.rows.g), dtype=bool)
        J, mu, k, tau, gaps = items_of(a, chosen, every, self.stiffness, self.dissipation)
        mu, n = np.minimum(mu, MU_CAP), len(mu) - len(every)
        if a.rows is not None:
            mu[n:] = np.where(a.rows.stops, 0.0, np.inf)
            tau[n:][~a.rows.yields] = self.beta * a.dt / np.pi  # critical damping of a spring of period β dt
        return J, Materials(mu, k, tau, gaps, n, a.dt, self.beta, self.sigma), chosen
