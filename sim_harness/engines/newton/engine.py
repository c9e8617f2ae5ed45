"""`newton`: rigid or compliant contact with Coulomb's law itself, its cone round, by non-smooth Newton  [Macklin].

    M (v⁺ − v) = Jᵀ p + dt (f − h)       0 ≤ φ⁺ ⟂ p_N ≥ 0        p_T against v_T⁺, ‖p_T‖ = μ p_N where it slides
Normals and friction are found together; no polygon, no lift-off of what slides. Rows with compliance e press with
−(g⁺ + τ_d ġ⁺)/e, contacts with stiffness k likewise (e = 1/k), at the end of the step; without, they are rigid.

Different from the paper, beside what `newton_iteration` and `newton_functions` list:
- Newton's exact steps on the natural map follow the first of the paper's, which leave a fixed share each;
- contacts are linearised where the step begins, as in our other engines, rows alone looked at where it ends (`positions`);
- what is penetrated at the beginning is undone at `recovery` at the most, and open ties at `FASTEST`: at the level of positions
  alone a step would turn a millimetre into a metre per second;
- a compliant contact damps from the step on in which it begins closed: near ones would brake what only comes near.

Modelling error: inelastic; first order in dt. Impulses of redundant rigid contacts are not unique: those answered are near
the most even ones. With μ = ∞ not every step has a solution. Refused although they have one are some 2 of 10 000 steps of a box
that tumbles on the ground, 3 of 900 random piles of three boxes, masses 1000 : 1 and pushed, and some of heaps with a hundred
contacts and more. All factors are dense: n³ of contacts.
"""

from typing import Annotated, Literal

import msgspec
import numpy as np

from controllers.config.loading import Kind, NonNegative
from idyn.status import Status
from sim_harness.engines.contact_space import is_sound, no_solution
from sim_harness.engines.engine import ForwardProblem, ForwardSolution
from sim_harness.engines.newton.functions import FISCHER_BURMEISTER
from sim_harness.engines.newton.iteration import Rules
from sim_harness.engines.newton.linear import DENSE
from sim_harness.engines.newton.passes import Way, free_motion, settle
from sim_harness.engines.newton.rows import EFFECTIVE_MASS
from sim_harness.engines.newton.stack import stack_of

MOST_ITERATIONS = 10000
"""Of Newton's steps and, where those fail, of sweeps over the contacts."""

REGULARISATION = 1e-6
"""ε, share of each row's diagonal that is added to it."""


class Newton(Kind, frozen=True, tag="newton"):
    """Settings of the engine.

    tolerance: largest distance from Coulomb's law of a step that counts as solved, of the fastest row's speed or 0.1 m/s (in
        short steps 100 m/s² dt); usual with exact steps: rounding
    positions: what holds at the end of the step itself, where worlds can say what is there, and not as linearised at its
        beginning: "rows"; "end": contacts as well, whose points then go with their bodies: not for what rolls, nor for piles
        that tumble by 0.1 rad a step, which then gain energy; "start": neither
    geometric_stiffness: forces that turn with particles are taken into the steps: for strips and ropes that are stretched far
    recovery: largest speed at which a penetration of rigid contacts is undone [m/s], see the engine `lcp`
    """

    tolerance: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 1e-6
    recovery: NonNegative = 0.05
    positions: Literal["rows", "end", "start"] = "rows"
    geometric_stiffness: bool = False

    @property
    def rows_at(self) -> float:
        return 0.0 if self.positions == "start" else 1.0

    @property
    def contacts_at(self) -> float:
        return 1.0 if self.positions == "end" else 0.0

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        a = problem
        free, regular = free_motion(a.M, a.v, a.dt * (a.force - a.h))
        if not (regular and is_sound(a)):
            return no_solution(a)
        stack = stack_of(a, self.recovery, self.positions == "end")
        found = settle(stack, free, self.rules, self.way)
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
    def way(self) -> Way:
        return Way(
            preconditioner=EFFECTIVE_MASS,
            limit=MOST_ITERATIONS,
            elsewhere=self.positions != "start",
            stiffens=self.geometric_stiffness,
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
