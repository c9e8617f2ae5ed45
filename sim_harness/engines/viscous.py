"""`viscous`: rigid contact with viscous friction only, an LCP in the normals  [D15 §IV–V].

    f_T = −μ_v (S, T) v        at touching contacts: contacts that would close within the step without contact impulses
velocity      0 ≤ p_N ⟂ N v⁺ + c ≥ 0            friction of v⁺; c gap speed φ/dt, at least −recovery
acceleration  0 ≤ f_N ⟂ N v̇ + Ṅ v ≥ 0           friction of v, the state before the step
The velocity level is for simulation: it handles impacts and, since friction is implicit, is stable for all μ_v and dt. The
acceleration level is the model of D15 §IV, whose forces depend on the state only. It is for comparison with solutions of the
differential equations. At this level an inelastic frictionless impact precedes the step when a touching contact closes.

Differences from the paper:
- In (14)–(15) and (29) the viscous terms of the second tangent have signs that differ from each other and from those of the
  first tangent. Here both oppose the motion.
- (39), (40) and (42) invert the sign of f* of (29) and omit J̇ v and Ṅ v. Correct: g = (f*, J̇ v), h = Ṅ v and
  e = Ṅ v − (N, 0) A⁻¹ g.
- Constraint rows are satisfied at the velocity level in both variants, so drift of closures is the same.

Modelling error: friction does not depend on the normal force, so a robot stands only where it cannot slide apart. At the
acceleration level explicit friction is unstable above dt μ_v J M⁻¹ Jᵀ ≈ 2. A contact is detected after it has closed, so bodies
penetrate by up to dt N v at impacts and leave the penetration at the speed `recovery`.
"""

from typing import Literal

import msgspec
import numpy as np

from controllers.config.loading import Kind, NonNegative
from idyn.errors import InputError
from idyn.library.kernels import entry
from idyn.library.kinds import FLAGS, INDICES, MATRIX, REAL, VECTOR, WHOLE
from idyn.status import Status
from idyn.types import Array
from sim_harness.engines.contact_space import Solver, Space, contact_space, no_solution, normal_impulses, solution
from sim_harness.engines.engine import ForwardProblem, ForwardSolution
from sim_harness.engines.linalg import add, dot, pushed

TOLERANCE = 1e-8  # largest violation of a solved step, relative to the speed of the fastest contact [m/s]. Typical: 1e-15
RESTS = 1e-9  # below this normal speed a touching contact neither closes nor opens [m/s]


class Viscous(Kind, frozen=True, tag="viscous"):
    """Rigid contacts with viscous friction."""

    coefficient: NonNegative = 0.1  # μ_v of each contact [N·s/m], ≥ 0; the default is the paper's value
    level: Literal["velocity", "acceleration"] = "velocity"  # velocity or acceleration
    recovery: NonNegative = 0.05  # largest speed at which a penetration is reduced [m/s], ≥ 0; see the engine `lcp`
    solver: Solver = "ppm"  # LCP solver ppm, qp or lemke; all give the same motion

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        """Return the velocity after the step. Raises InputError at the acceleration level when the problem has no `bias`."""
        space = contact_space(problem)
        if not space.regular:
            return no_solution(problem)
        gap_speed = space.problem.gaps / problem.dt
        touching = gap_speed + space.b[2::3] <= 0.0
        if self.level == "velocity":
            return self._velocity(problem, touching, np.maximum(gap_speed, -self.recovery))
        if problem.bias is None:
            raise InputError("bias", "expected Ṅ v of the contacts, which 'viscous' needs at the acceleration level, got None")
        bias = np.zeros(len(gap_speed))  # the Jacobian row of a stop is constant
        bias[: len(problem.mu)] = problem.bias()
        return self._acceleration(problem, touching, np.maximum(gap_speed, -self.recovery), bias)

    def _velocity(self, problem: ForwardProblem, touching: Array, c: Array) -> ForwardSolution:
        """Solve with an implicit damper B: M (v⁺ − v) = … − dt B v⁺ becomes (M + dt B)(v⁺ − v) = … − dt B v."""
        a = problem
        M, force = damped(a.M, a.force, a.v, a.J, touching, self.coefficient, a.dt)
        space = contact_space(msgspec.structs.replace(a, M=M, force=force))
        answer = self._solve_normals(space, space.b[2::3] + c)
        return msgspec.structs.replace(answer, p=with_drag(answer.p, a.J, answer.v_plus, touching, a.dt * self.coefficient))

    def _acceleration(self, problem: ForwardProblem, touching: Array, c: Array, bias: Array) -> ForwardSolution:
        """Solve a frictionless impact, then 0 ≤ f_N ⟂ N v̇ + Ṅ v ≥ 0 of the contacts at rest; bias: Ṅ v (N)."""
        a, excluded = problem, np.full(len(c), np.inf)
        # impact: no forces, only impulses
        space = contact_space(msgspec.structs.replace(a, force=a.h))
        impact = self._solve_normals(space, np.where(touching, space.b[2::3] + np.minimum(c, 0.0), excluded))
        # continuous motion from the velocity after the impact
        _, force = damped(a.M, a.force, a.v, a.J, touching, self.coefficient, a.dt)
        space = contact_space(msgspec.structs.replace(a, v=impact.v_plus, force=force))
        speeds = space.problem.J[2::3] @ impact.v_plus
        rests = touching & (speeds <= np.maximum(-c, 0.0) + RESTS)
        step = self._solve_normals(space, np.where(rests, space.b[2::3] - speeds + a.dt * bias, excluded))
        return msgspec.structs.replace(
            step,
            p=with_drag(impact.p + step.p, a.J, a.v, touching, a.dt * self.coefficient),
            rows=None if step.rows is None else impact.rows + step.rows,
            status=step.status if impact.status.ok else impact.status,
            iterations=impact.iterations + step.iterations,
            dynamics=impact.dynamics + step.dynamics,
            contact=max(impact.contact, step.contact),
        )

    def _solve_normals(self, space: Space, r: Array) -> ForwardSolution:
        """Return the step with normal impulses 0 ≤ z ⟂ Y Yᵀ z + r ≥ 0; contacts with r = ∞ are excluded."""
        on = np.flatnonzero(r < np.inf)
        Y, few = np.ascontiguousarray(space.Y[2::3][on]), r[on]
        z, status, pivots = normal_impulses(Y, few, space.lengths2[2::3][on], self.solver)
        p, error = spread(Y, few, z, on, len(r))
        if status.ok and not error <= TOLERANCE * max(1.0, np.abs(few).max(initial=0.0)):
            status = Status.NOT_CERTIFIED
        return solution(space, p, status, pivots, error)


@entry(MATRIX, VECTOR, VECTOR, MATRIX, FLAGS, REAL, REAL)
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


@entry(MATRIX, MATRIX, VECTOR, FLAGS, REAL)
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


@entry(MATRIX, VECTOR, VECTOR, INDICES, WHOLE)
def spread(Y: Array, r: Array, z: Array, on: Array, n: int) -> tuple[Array, float]:
    """Return impulses of all n contacts (3n) from z of the contacts with indices `on`, and the largest |min(z, w)|."""
    p, x, worst = np.zeros(3 * n), pushed(Y, z), 0.0
    for k in range(len(on)):
        p[3 * on[k] + 2] = z[k]
        worst = max(worst, abs(min(z[k], dot(r[k], Y[k], x))))
    return p, worst
