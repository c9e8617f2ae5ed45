"""`viscous`: rigid contact with viscous friction only, an LCP in the normals  [D15 §IV–V].

    f_T = −μ_v (S, T) v        at touching contacts: contacts that would close within the step without contact impulses
    0 ≤ p_N ⟂ N v⁺ + c ≥ 0        friction of v⁺; c gap speed φ/dt, at least −recovery
Friction is implicit, so it is stable for all μ_v and dt, and impacts are handled. D15 §IV models accelerations and forces, with
friction of the velocity before the step.

Differences from the paper:
- In (14)–(15) and (29) the viscous terms of the second tangent have signs that differ from each other and from those of the
  first tangent. Here both oppose the motion.

Modelling error: friction does not depend on the normal force, so a robot stands only where it cannot slide apart.
"""

import msgspec
import numpy as np

from controllers.config.loading import Kind, NonNegative
from idyn.library.kernels import entry
from idyn.library.records import Flags, Matrix, Vector
from idyn.status import Status
from idyn.types import Array
from sim_harness.engines.contact_space import Solver, contact_space, no_solution, normal_impulses, solution
from sim_harness.engines.engine import ForwardProblem, ForwardSolution
from sim_harness.engines.linalg import add, dot, pushed

TOLERANCE = 1e-8  # largest violation of a solved step, relative to the speed of the fastest contact [m/s]. Typical: 1e-15


class Viscous(Kind, frozen=True, tag="viscous"):
    """Rigid contacts with viscous friction."""

    coefficient: NonNegative = 0.1  # μ_v of each contact [N·s/m], ≥ 0; the default is the paper's value
    recovery: NonNegative = 0.05  # largest speed at which a penetration is reduced [m/s], ≥ 0; see the engine `lcp`
    solver: Solver = "ppm"  # LCP solver ppm, qp or lemke; all give the same motion

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        """Solve with an implicit damper B: M (v⁺ − v) = … − dt B v⁺ becomes (M + dt B)(v⁺ − v) = … − dt B v."""
        a, space = problem, contact_space(problem)
        if not space.regular:
            return no_solution(a)
        gap_speed = space.problem.gaps / a.dt
        touching = gap_speed + space.b[2::3] <= 0.0
        M, force = damped(a.M, a.force, a.v, a.J, touching, self.coefficient, a.dt)
        space = contact_space(msgspec.structs.replace(a, M=M, force=force))
        # normal impulses 0 ≤ z ⟂ Y Yᵀ z + r ≥ 0
        Y, lengths2 = (np.ascontiguousarray(each[2::3]) for each in (space.Y, space.lengths2))
        r = space.b[2::3] + np.maximum(gap_speed, -self.recovery)
        z, status, pivots = normal_impulses(Y, r, lengths2, self.solver)
        p, error = spread(Y, r, z)
        if status.ok and not error <= TOLERANCE * max(1.0, np.abs(r).max(initial=0.0)):
            status = Status.NOT_CERTIFIED
        answer = solution(space, p, status, pivots, error)
        return msgspec.structs.replace(answer, p=with_drag(answer.p, a.J, answer.v_plus, touching, a.dt * self.coefficient))


@entry(Matrix, Vector, Vector, Matrix, Flags, float, float)
def damped(
    M: Array, force: Array, v: Array, J: Array, touching: Array, coefficient: float, dt: float
) -> tuple[Array, Array]:  # fmt: skip
    """Return M + dt B (nv, nv) and force − B v (nv) with B = μ_v (Sᵀ S + Tᵀ T) summed over touching contacts."""
    inertia, drive = M.copy(), force.copy()
    for i in range(len(J)):
        if i % 3 == 2 or not touching[i // 3]:
            continue
        speed = dot(0.0, J[i], v)
        for d in range(len(v)):
            pull = coefficient * J[i, d]
            drive[d] -= pull * speed
            if pull != 0.0:
                add(inertia[d], dt * pull, J[i])
    return inertia, drive


@entry(Matrix, Matrix, Vector, Flags, float)
def with_drag(p: Array, J: Array, v: Array, touching: Array, pull: float) -> Array:
    """Return p (n, 3) with the friction impulses −pull (S, T) v of touching contacts; pull: dt μ_v [N·s²/m]."""
    out = p.copy()
    for i in range(len(p)):
        for e in range(2):
            out[i, e] = 0.0
            if touching[i]:
                for d in range(len(v)):
                    out[i, e] -= pull * J[3 * i + e, d] * v[d]
    return out


@entry(Matrix, Vector, Vector)
def spread(Y: Array, r: Array, z: Array) -> tuple[Array, float]:
    """Return impulses (3n) from the normal ones z (n), and the largest |min(z, w)|."""
    p, x, worst = np.zeros(3 * len(z)), pushed(Y, z), 0.0
    for k in range(len(z)):
        p[3 * k + 2] = z[k]
        worst = max(worst, abs(min(z[k], dot(r[k], Y[k], x))))
    return p, worst
