"""`newton`: rigid or compliant contact with Coulomb's law and round friction cones, by a non-smooth Newton method  [Macklin].

    M (v⁺ − v) = Jᵀ p + dt (f − h)       0 ≤ φ⁺ ⟂ p_N ≥ 0        p_T against v_T⁺, ‖p_T‖ = μ p_N where it slides
Normal and friction impulses are solved together, without friction polygons and without artificial opening of sliding contacts.
The force of a row with compliance e is −(g⁺ + τ_d ġ⁺)/e at the end of the step. A contact with stiffness k has the force of a
row with e = 1/k. All other rows and contacts are rigid.

Differences from the paper, in addition to those listed in `iteration` and `functions`:
- Exact Newton steps on the natural map follow the first steps of the paper's iteration, which converges only linearly.
- Rows first yield a little, so that rounding errors of gaps do not decide how redundant contacts share a load (`iteration`).
- Contacts are linearised at the beginning of the step, as in the other engines. Only constraint rows are evaluated at its end
  (setting `positions`).
- `recovery` limits the speed at which an initial penetration is reduced, `FASTEST` that of ties (bilateral rows). A
  formulation in positions alone would remove an error of 1 mm at 1 m/s in a step of 1 ms.
- The damping of a compliant contact acts only in steps that begin with the contact closed. Otherwise it would slow down bodies
  that only approach.

Modelling error: inelastic unless `restitution` is set; first order in dt. Impulses of redundant rigid contacts are not unique;
the solution is close to the one of least Σ w p². With μ = ∞ some steps have no solution. The engine fails although a solution
exists in about 2 of 10 000 steps of a box that tumbles on the ground, in 3 of 900 random pushed piles of three boxes with
masses 1000 : 1, and in some heaps with a hundred contacts and more. All factorisations are dense: cost n³ in the number of
contacts.
"""

from typing import Annotated, Literal

import msgspec
import numpy as np

from controllers.config.loading import Kind, NonNegative
from idyn.status import Status
from sim_harness.engines.contact_space import is_sound, no_solution
from sim_harness.engines.engine import ForwardProblem, ForwardSolution
from sim_harness.engines.impacts import Restitution
from sim_harness.engines.newton.exact import FISCHER_BURMEISTER
from sim_harness.engines.newton.iteration import Rules
from sim_harness.engines.newton.linear import DENSE
from sim_harness.engines.newton.passes import PassSettings, free_motion, solve_passes
from sim_harness.engines.newton.stack import EFFECTIVE_MASS, stack_of

MOST_ITERATIONS = 10000
"""Largest number of Newton steps plus sweeps over the contacts."""

REGULARISATION = 1e-6
"""ε, share of each row's diagonal that is added to the diagonal."""


class Newton(Kind, frozen=True, tag="newton"):
    """Rigid contacts or springs with Coulomb's round cone, by a non-smooth Newton method.

    tolerance: largest violation of Coulomb's law in a solved step, relative to the largest row velocity, at least 0.1 m/s
        (or 100 m/s² · dt in short steps); typical: rounding error
    recovery: largest speed at which a penetration of rigid contacts is reduced [m/s], see the engine `lcp`
    restitution: of rigid contacts, ratio of the speeds after and before an impact, see `sim_harness.engines.impacts`
    positions: which constraints are evaluated at the end of the step instead of linearised at its beginning: "rows", "end"
        (rows and contacts) or "start" (neither). With "end" contact points move with their bodies. Rolling bodies, and piles
        that tumble by 0.1 rad per step, then gain energy. The world must provide `ForwardProblem.system`
    geometric_stiffness: whether Newton steps include the change of force directions with motion, for strips and ropes under
        large strain
    """

    tolerance: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 1e-6
    recovery: NonNegative = 0.05
    restitution: Restitution = 0.0
    positions: Literal["rows", "end", "start"] = "rows"
    geometric_stiffness: bool = False

    @property
    def rows_at(self) -> float:
        """See `CompliantEngine`."""
        return 0.0 if self.positions == "start" else 1.0

    @property
    def contacts_at(self) -> float:
        """See `CompliantEngine`."""
        return 1.0 if self.positions == "end" else 0.0

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        a = problem
        free, regular = free_motion(a.M, a.v, a.dt * (a.force - a.h))
        if not (regular and is_sound(a)):
            return no_solution(a)
        stack = stack_of(a, self.recovery, self.positions == "end", self.restitution)
        found = solve_passes(stack, free, self.rules, self.pass_settings)
        dynamics = float(np.abs(a.M @ (found.v - a.v) - found.J.T @ found.p - a.dt * (a.force - a.h)).max(initial=0.0))
        finite = np.isfinite(dynamics) and np.isfinite(found.error)
        return ForwardSolution(
            v_plus=found.v,
            p=found.p[len(stack.order) :].reshape(-1, 3),
            status=Status.NON_FINITE if not finite else Status.SOLVED if found.met else Status.NOT_CERTIFIED,
            iterations=found.iterations,
            dynamics=dynamics if finite else np.inf,
            contact=found.error if finite else np.inf,
            rows=stack.of_rows(found.p),
        )

    @property
    def pass_settings(self) -> PassSettings:
        return PassSettings(
            preconditioner=EFFECTIVE_MASS,
            limit=MOST_ITERATIONS,
            relinearise=self.positions != "start",
            geometric_stiffness=self.geometric_stiffness,
        )

    @property
    def rules(self) -> Rules:
        return Rules(
            function=FISCHER_BURMEISTER,
            weighted=False,
            solver=DENSE,
            linear_iterations=0,
            damping=1.0,
            regularisation=REGULARISATION,
            exact=True,
            tolerance=self.tolerance,
        )
