"""The step seen from the contacts: J v⁺ = D p + b with D = J M⁻¹ Jᵀ over all degrees of freedom."""

import numpy as np

from idyn.compiled import compiled
from idyn.solvers.linalg import backward, cholesky, forward
from idyn.types import Array


@compiled
def contact_space(
    M: Array, h: Array, v: Array, J: Array, force: Array, dt: float
) -> tuple[Array, Array, Array, Array, bool]:
    """L, v_free, D, b, regular: M = L Lᵀ (nv, nv), v_free = v + M⁻¹ dt (f − h) (nv), D (3n, 3n), b = J v_free (3n).

    `regular` is False when M is not positive definite; the rest is then meaningless.
    """
    m, nv = J.shape
    D, b = np.zeros((m, m)), np.zeros(m)
    v_free = dt * (force - h)
    L, regular = cholesky(M)
    if not regular:
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
def velocity_after(
    M: Array, h: Array, v: Array, J: Array, force: Array, dt: float, L: Array, v_free: Array, p: Array
) -> tuple[Array, float]:
    """v⁺ = v_free + M⁻¹ Jᵀ p for impulses p (3n), and its residual ‖M(v⁺ − v) − Jᵀp − dt(f − h)‖∞."""
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
        s = -push[r] - dt * (force[r] - h[r])
        for d in range(nv):
            s += M[r, d] * (v_plus[d] - v[d])
        residual = max(residual, abs(s))
    return v_plus, residual
