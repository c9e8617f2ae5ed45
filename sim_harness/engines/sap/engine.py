"""`sap`: compliant contact with Coulomb friction as one unconstrained convex problem per step in v  [SAP].

    min ½ ‖v − v*‖²_A + ½ ‖P_F(y(v))‖²_R          y = R⁻¹ (v̂ − J v)
    R_n = max(β² w / 4π², 1 / (dt k (dt + τ_d)))        R_t = σ w        v̂_n = −φ / (dt + τ_d)
A sticking contact presses with f_N = −k (φ⁺ + τ_d N v⁺) and never pulls. A sliding contact uses its full friction.
Constraint rows are solved together with the contacts: a stop is a contact without friction, a bilateral row (closure, weld,
coupler) a contact that can also pull. Rows without compliance are near-rigid, rows with compliance have exactly that stiffness.
Islands of bodies without a common constraint are minimised separately.

Modelling error: a contact that should stick creeps at R_t f_T dt. A sliding contact gets the normal force of a gap smaller by
(dt + τ_d) μ ‖v_T‖, so it glides above the ground. No contact is stiffer than 4π² / (β² w dt (dt + τ_d)), the first term of R_n.
μ is limited to MU_CAP, also μ = ∞: a sliding contact opens at μ times its slip speed, so larger friction would hold down
feet that lift.
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
"""Friction coefficient used for infinite friction."""


class Sap(Kind, frozen=True, tag="sap"):
    """Springs, dampers and round friction cones as one convex problem per step. Stiffness and dissipation apply to
    contacts whose bodies have no stiffness of their own.

    stiffness: k [N/m], > 0, inf for as rigid as the step allows; at the default the paper's robot sinks in by 0.1 mm
    dissipation: τ_d [s], ≥ 0; the damping ratio is τ_d/2 times the natural frequency of the contact
    beta: β, period of the stiffest contact in steps
    sigma: σ, smaller values reduce the creep of sticking contacts
    scheme: integration scheme; "symplectic" and "explicit" evaluate forces at the beginning of the step, "implicit" and
        "midpoint" (second order) solve for them by Newton's method
    candidates: "touching" uses contacts with φ ≤ 0, which bounce like a spring and damper. "near" uses all reported contacts:
        forces are continuous, sliding and resting contacts do not chatter, and landings are damped more, but feet that swing
        low over ground with high friction may be caught
    tolerance: ε_r, largest momentum error of a solved step, relative to the momentum
    max_iterations: largest number of Newton iterations
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
        """Return J of contacts and rows, three rows each (3k, nv), their parameters, and which contacts are used (n)."""
        a = problem
        chosen = np.ones(len(a.mu), dtype=bool) if self.candidates == "near" else a.gaps <= 0.0
        every = np.ones(0 if a.rows is None else len(a.rows.g), dtype=bool)
        J, mu, k, tau, gaps = items_of(a, chosen, every, self.stiffness, self.dissipation)
        mu, n = np.minimum(mu, MU_CAP), len(mu) - len(every)
        if a.rows is not None:
            mu[n:] = np.where(a.rows.stops, 0.0, np.inf)
            tau[n:][~a.rows.yields] = self.beta * a.dt / np.pi  # critical damping of a spring of period β dt
        return J, Materials(mu, k, tau, gaps, n, a.dt, self.beta, self.sigma), chosen
