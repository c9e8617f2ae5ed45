"""`viscous`: rigid contact with viscous friction alone, an LCP in the normals  [D15 §IV–V].

    f_T = −μ_v (S, T) v        at contacts that touch: that would close within the step if nothing pressed
velocity      0 ≤ p_N ⟂ N v⁺ + c ≥ 0            friction of v⁺; c gap speed φ/dt, at least −recovery
acceleration  0 ≤ f_N ⟂ N v̇ + Ṅ v ≥ 0           friction of v, the state before the step
The velocity level is for stepping: it takes impacts and any μ_v, since what acts at the end of the step damps at any dt. The
acceleration level is the model as D15 §IV states it, whose forces are those of the state alone, for comparing with solutions
of the differential equations; there an inelastic impact without friction comes first wherever a touching contact closes.

Different from the textbook: in (14)–(15) and (29) the viscous terms at the second tangent have signs that differ from each
other and from those at the first; here both oppose the motion. (39), (40) and (42) turn the sign of f* as (29) has it and leave
out J̇ v and Ṅ v: it is g = (f*, J̇ v), h = Ṅ v and e = Ṅ v − (N, 0) A⁻¹ g. Constraint rows are met at the velocity level in
both, so drift of closures does not depend on it.

Modelling error: friction does not know how hard a contact presses; a robot stands on such ground only where it cannot slide
apart. At the acceleration level explicit friction is unstable from dt μ_v J M⁻¹ Jᵀ ≈ 2 on, and a contact is noticed when it
has closed, so bodies sink in by up to dt N v at impacts and come out again at `recovery`.
"""

from typing import Literal

import msgspec
import numpy as np

from controllers.config.loading import Kind, NonNegative
from idyn.errors import InputError
from idyn.jit.compiled import compiled
from idyn.status import Status
from idyn.types import Array
from sim_harness.engines.contact_space import Space, contact_space, no_solution, solution
from sim_harness.engines.engine import ForwardProblem, ForwardSolution
from sim_harness.engines.normals import Solver, normal_impulses
from sim_harness.engines.vectors import add, dot, pushed

TOLERANCE = 1e-8
"""Largest violation of a step that counts as solved, relative to the fastest contact [m/s]. Usual: 1e-15."""

RESTS = 1e-9
"""Up to this speed a touching contact neither closes nor parts [m/s]."""


class Viscous(Kind, frozen=True, tag="viscous"):
    """Settings of the engine.

    coefficient: μ_v of each contact [N·s/m], ≥ 0; the default is the paper's
    level: velocity or acceleration
    recovery: largest speed at which a penetration is undone [m/s], ≥ 0; see the engine `lcp`
    solver: of the LCP: ppm, qp or lemke; they agree in all motions
    """

    coefficient: NonNegative = 0.1
    level: Literal["velocity", "acceleration"] = "velocity"
    recovery: NonNegative = 0.05
    solver: Solver = "ppm"

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        """Raises InputError for the acceleration level of a world that does not know Ṅ v."""
        space = contact_space(problem)
        if not space.regular:
            return no_solution(problem)
        gap_speed = space.problem.gaps / problem.dt
        touching = gap_speed + space.b[2::3] <= 0.0
        if self.level == "velocity":
            return self._velocity(problem, touching, np.maximum(gap_speed, -self.recovery))
        if problem.bias is None:
            raise InputError("bias", "the engine 'viscous' at the acceleration level needs Ṅ v of the contacts, got none")
        turning = np.zeros(len(gap_speed))  # a stop's row is constant
        turning[: len(problem.mu)] = problem.bias()
        return self._acceleration(problem, touching, np.maximum(gap_speed, -self.recovery), turning)

    def _velocity(self, problem: ForwardProblem, touching: Array, c: Array) -> ForwardSolution:
        """A damper B on v⁺: M (v⁺ − v) = … − dt B v⁺ is (M + dt B)(v⁺ − v) = … − dt B v."""
        a = problem
        M, force = damped(a.M, a.force, a.v, a.J, touching, self.coefficient, a.dt)
        space = contact_space(msgspec.structs.replace(a, M=M, force=force))
        answer = self._press(space, space.b[2::3] + c)
        return msgspec.structs.replace(answer, p=with_drag(answer.p, a.J, answer.v_plus, touching, a.dt * self.coefficient))

    def _acceleration(self, problem: ForwardProblem, touching: Array, c: Array, turning: Array) -> ForwardSolution:
        a, never = problem, np.full(len(c), np.inf)
        space = contact_space(msgspec.structs.replace(a, force=a.h))
        impact = self._press(space, np.where(touching, space.b[2::3] + np.minimum(c, 0.0), never))
        _, force = damped(a.M, a.force, a.v, a.J, touching, self.coefficient, a.dt)
        space = contact_space(msgspec.structs.replace(a, v=impact.v_plus, force=force))
        speeds = space.problem.J[2::3] @ impact.v_plus
        rests = touching & (speeds <= np.maximum(-c, 0.0) + RESTS)
        step = self._press(space, np.where(rests, space.b[2::3] - speeds + a.dt * turning, never))
        return msgspec.structs.replace(
            step,
            p=with_drag(impact.p + step.p, a.J, a.v, touching, a.dt * self.coefficient),
            rows=None if step.rows is None else impact.rows + step.rows,
            status=step.status if impact.status.ok else impact.status,
            iterations=impact.iterations + step.iterations,
            dynamics=impact.dynamics + step.dynamics,
            contact=max(impact.contact, step.contact),
        )

    def _press(self, space: Space, r: Array) -> ForwardSolution:
        """The step with normal impulses z such that 0 ≤ z ⟂ Y Yᵀ z + r ≥ 0; contacts with r = ∞ are left out."""
        on = np.flatnonzero(r < np.inf)
        Y, few = np.ascontiguousarray(space.Y[2::3][on]), r[on]
        z, status, pivots = normal_impulses(Y, few, space.lengths2[2::3][on], self.solver)
        p, error = spread(Y, few, z, on, len(r))
        if status.ok and not error <= TOLERANCE * max(1.0, np.abs(few).max(initial=0.0)):
            status = Status.NOT_CERTIFIED
        return solution(space, p, status, pivots, error)


@compiled
def damped(
    M: Array, force: Array, v: Array, J: Array, touching: Array, coefficient: float, dt: float
) -> tuple[Array, Array]:  # fmt: skip
    """M + dt B (nv, nv) and force − B v (nv) with B = μ_v (Sᵀ S + Tᵀ T) over contacts that touch."""
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


@compiled
def with_drag(p: Array, J: Array, v: Array, touching: Array, pull: float) -> Array:
    """p (n, 3) with −pull (S, T) v where contacts touch; pull: dt μ_v [N·s²/m]"""
    out = p.copy()
    for i in range(len(p)):
        for e in range(2):
            out[i, e] = 0.0
            if touching[i]:
                for d in range(len(v)):
                    out[i, e] -= pull * J[3 * i + e, d] * v[d]
    return out


@compiled
def spread(Y: Array, r: Array, z: Array, on: Array, n: int) -> tuple[Array, float]:
    """z of the contacts `on` among all impulses (3n), and the largest |min(z, w)|."""
    p, x, worst = np.zeros(3 * n), pushed(Y, z), 0.0
    for k in range(len(on)):
        p[3 * on[k] + 2] = z[k]
        worst = max(worst, abs(min(z[k], dot(r[k], Y[k], x))))
    return p, worst
