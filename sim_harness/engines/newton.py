"""`newton`: rigid or compliant contact with Coulomb's law and round friction cones, by a non-smooth Newton method  [Macklin].

    M (v⁺ − v) = Jᵀ p + dt (f − h)       0 ≤ φ⁺ ⟂ p_N ≥ 0        p_T against v_T⁺, ‖p_T‖ = μ p_N where it slides
The force of a row with compliance e is −(g⁺ + τ_d ġ⁺)/e at the end of the step; a contact with stiffness k is a row with
e = 1/k. Passes [Macklin Alg. 1]: linearise constraint rows, iterate until convergence, linearise again at the new
configuration. Rows are satisfied at position level at the end of the step, so there is no drift and no stabilisation.

Differences from the paper, in addition to those listed in `newton_iteration`:
- Exact Newton steps on the natural map follow the first steps of the paper's iteration, which converges only linearly.
- Rows first yield a little, so that rounding errors of gaps do not decide how redundant contacts share a load.
- Contacts are linearised at the beginning of the step, as in the other engines.
- `recovery` limits the speed at which an initial penetration is reduced, `FASTEST` that of ties (bilateral rows).
- The damping of a compliant contact acts only in steps that begin with the contact closed.

Modelling error: inelastic unless `restitution` is set; first order in dt. Impulses of redundant rigid contacts are close to the
ones of least Σ w p². The engine fails although a solution exists in about 2 of 10 000 steps of a box that tumbles, in 3 of 900
random pushed piles of three boxes with masses 1000 : 1, and in some heaps with a hundred contacts. Cost n³ in the contacts.
"""

from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np

from controllers.config.loading import Kind, NonNegative
from idyn.library.kernels import entry
from idyn.library.records import Matrix, Vector
from idyn.solvers.linalg import backward
from idyn.status import Status
from idyn.types import Array, Record
from sim_harness.engines.contact_space import is_sound, no_solution, unconstrained
from sim_harness.engines.engine import ForceTimes, ForwardProblem, ForwardSolution, Restitution
from sim_harness.engines.newton_exact import motion
from sim_harness.engines.newton_iteration import solve_evenly
from sim_harness.engines.newton_rows import Constraints, Stack, constraints, stack_of

PASSES = 60  # largest number of passes. Typical: 2 or 3; strips under large strain need more

AGREED = 1e-6
"""Passes have converged when the velocity changes by less than this share of its largest entry. The remaining error is of
second order in dt v."""


class Free(NamedTuple):
    """Motion without impulses: L with M = L Lᵀ (nv, nv), and z = Lᵀ v (nv)."""

    L: Array
    z: Array


class Outcome(Record, frozen=True):
    """Result of a step."""

    v: Array  # velocity after the step (nv)
    p: Array  # impulses of the stack (m)
    J: Array  # Jacobian along which the impulses act (m, nv)
    error: float  # violation of the law [m/s]
    met: bool  # whether the violation is within the tolerance and the passes have converged
    iterations: int  # sum over all passes


def solve_passes(stack: Stack, free: Free, tolerance: float, relinearise: bool) -> Outcome:
    """Solve the step; with `relinearise`, linearise again until the velocity agrees between passes."""
    a, total = stack.problem, 0
    relinearise = relinearise and a.system is not None and len(stack.order) > 0
    before = a.v
    plan, J = stack.plan(before if relinearise else None)
    p, z = np.zeros(len(J)), np.zeros(len(free.z))
    for _ in range(PASSES if relinearise else 1):
        used = J
        c = constraints(plan, J, free.L, free.z)
        root = solve_evenly(c, tolerance, p, z)
        total += root.iterations
        v, p = velocity_after(c, free.L, root.p), root.p
        enough = root.error <= tolerance * c.scale
        met = enough and (not relinearise or np.abs(v - before).max() <= AGREED * max(c.scale, np.abs(v).max()))
        if met or not (relinearise and enough and np.isfinite(root.error)):
            break
        before = v
        plan, J = stack.plan(before)
        z = free.L.T @ before
    return Outcome(v=v, p=root.p, J=used, error=root.error, met=met, iterations=total)


@entry(Matrix, Vector, Vector)
def free_motion(M: Array, v: Array, drive: Array) -> tuple[Free, bool]:
    """Return the motion without impulses, and whether M is positive definite; drive: dt (f − h) (nv)."""
    L, z, regular = unconstrained(M, v, drive)
    return Free(L, z), regular


@entry(Constraints, Matrix, Vector)
def velocity_after(c: Constraints, L: Array, p: Array) -> Array:
    """Return v⁺ = L⁻ᵀ (z_free + Yᵀ p) (nv)."""
    v = motion(c, p)
    backward(L, v)
    return v


class Newton(Kind, frozen=True, tag="newton"):
    """Rigid contacts or springs with Coulomb's round cone, by a non-smooth Newton method."""

    # largest violation of Coulomb's law in a solved step, relative to the largest row velocity, at least 0.1 m/s (or 100 m/s² ·
    # dt in short steps); typical: rounding error
    tolerance: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 1e-6
    # largest speed at which a penetration of rigid contacts is reduced [m/s], see the engine `lcp`
    recovery: NonNegative = 0.05
    # of rigid contacts, ratio of the speeds after and before an impact, see `sim_harness.engines.engine`
    restitution: Restitution = 0.0
    # which constraints are evaluated at the end of the step instead of linearised at its beginning: "rows", for which the world
    # must provide `ForwardProblem.system`, or none ("start")
    positions: Literal["rows", "start"] = "rows"

    @property
    def force_times(self) -> ForceTimes:
        return ForceTimes(rows=0.0 if self.positions == "start" else 1.0)

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        a = problem
        free, regular = free_motion(a.M, a.v, a.dt * (a.force - a.h))
        if not (regular and is_sound(a)):
            return no_solution(a)
        stack = stack_of(a, self.recovery, self.restitution)
        found = solve_passes(stack, free, self.tolerance, self.positions != "start")
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
