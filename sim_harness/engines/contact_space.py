"""The step seen from the contacts: J v⁺ = D p + b with D = J M⁻¹ Jᵀ over all degrees of freedom."""

import numpy as np

from idyn.compiled import compiled
from idyn.solvers.linalg import backward, cholesky, forward
from idyn.status import Status
from idyn.types import Array
from sim_harness.engines.engine import ForwardProblem, ForwardSolution


@compiled
def contact_space(M: Array, h: Array, v: Array, J: Array, force: Array, dt: float) -> tuple[Array, Array, Array, Array, bool]:
    """L, v_free, D, b, regular: M = L Lᵀ (nv, nv), v_free = v + M⁻¹ dt (f − h) (nv), D (3n, 3n), b = J v_free (3n).

    `regular` is False when M is not positive definite; the rest is then meaningless.
    """
    m, nv = J.shape
    D, b = np.zeros((m, m)), np.zeros(m)
    v_free = dt * (force - h)
    L = M.copy()
    cholesky(L)
    for d in range(nv):
        if not 0.0 < L[d, d] < np.inf:
            return L, v_free, D, b, False
    forward(L, v_free)
    backward(L, v_free)
    v_free += v
    Y = J.copy()  # rows of (L⁻¹ Jᵀ)ᵀ
    for i in range(m):
        forward(L, Y[i])
        for d in range(nv):
            b[i] += J[i, d] * v_free[d]
        for j in range(i + 1):
            s = 0.0
            for d in range(nv):
                s += Y[i, d] * Y[j, d]
            D[i, j] = D[j, i] = s
    return L, v_free, D, b, True


@compiled
def velocity_after(M: Array, v: Array, J: Array, drive: Array, L: Array, v_free: Array, p: Array) -> tuple[Array, float]:
    """v⁺ = v_free + M⁻¹ Jᵀ p for impulses p (3n), and ‖M(v⁺ − v) − Jᵀp − drive‖∞, inf when v⁺ is not finite. drive: dt (f − h),
    what all other forces do in a step [N·s, N·m·s] (nv)"""
    m, nv = J.shape
    push = np.zeros(nv)
    for i in range(m):
        for d in range(nv):
            push[d] += J[i, d] * p[i]
    v_plus = push.copy()
    forward(L, v_plus)
    backward(L, v_plus)
    v_plus += v_free
    residual = 0.0
    for r in range(nv):
        s = -push[r] - drive[r]
        for d in range(nv):
            s += M[r, d] * (v_plus[d] - v[d])
        residual = max(residual, abs(s))
    return v_plus, residual if np.isfinite(np.sum(v_plus)) else np.inf


def solution(
    problem: ForwardProblem, space: tuple[Array, Array], p: Array, status: Status, iterations: int, contact: float
) -> ForwardSolution:
    """The engine's answer from its impulses p (3n); space: L and v_free of `contact_space`."""
    a = problem
    v_plus, dynamics = velocity_after(a.M, a.v, a.J, a.dt * (a.force - a.h), *space, p)
    return ForwardSolution(
        v_plus=v_plus,
        p=p.reshape(-1, 3),
        status=status if np.isfinite(dynamics) else Status.NON_FINITE,
        iterations=iterations,
        dynamics=dynamics,
        contact=contact,
    )


def no_solution(problem: ForwardProblem) -> ForwardSolution:
    """For an inertia that is not positive definite: the velocity stays."""
    return ForwardSolution(
        v_plus=problem.v,
        p=np.zeros((len(problem.mu), 3)),
        status=Status.SINGULAR,
        iterations=0,
        dynamics=np.inf,
        contact=np.inf,
    )
