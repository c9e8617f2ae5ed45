"""Kernels of one chain of k hinges: linear equations with its Jacobian, and the posture of a chain of more than three.

J = [ J_1 … J_k ], with J_j in row j of an array (k, 3).

A chain of more than three hinges takes the posture nearest to that of the stance θ₀,

    min ½ |θ − θ₀|²  subject to  f(θ) = x:      θ − θ₀ = Jᵀ λ
It depends on the foot alone: a foot that returns finds the same posture. With H_ij = ∂²f/∂θ_i ∂θ_j = w_i × J_j (i ≤ j) and
K = 1 − λ·H, Newton's method and the time derivatives have the same matrix:

    K δθ − Jᵀ λ⁺ = θ₀ − θ,                    J δθ = x − f
    K θ̇ − Jᵀ λ̇ = 0,                           J θ̇ = ẋ
    K θ̈ − Jᵀ λ̈ = 2 J̇ᵀ λ̇ + (λ·Ḣ) θ̇,           J θ̈ = ẍ − J̇ θ̇
"""

import numpy as np

from idyn.library.kernels import compiled, stack_array
from idyn.solvers.linalg import axpy, copy, fill, fill_rows, lu_solve
from idyn.types import Array

SINGULAR = 1e-4  # smallest |det J| over the product of the lever arms. It bounds the joint speeds near a stretched leg
SLACK = 1e-10  # J δθ = x − f holds up to this much of the change of λ [m²]. It bounds the joint speeds near a stretched leg


@compiled
def rotate(w: Array, r: Array | tuple[float, ...], c: float, s: float, x: Array) -> None:
    """Rotate the point x about the axis through r along the unit vector w, by an angle with cosine c and sine s, in place."""
    # Rodrigues: x ← r + c d + s (w × d) + (1 − c) (w · d) w,  d = x − r
    d0, d1, d2 = x[0] - r[0], x[1] - r[1], x[2] - r[2]
    along = (1.0 - c) * (w[0] * d0 + w[1] * d1 + w[2] * d2)
    x[0] = r[0] + c * d0 + s * (w[1] * d2 - w[2] * d1) + along * w[0]
    x[1] = r[1] + c * d1 + s * (w[2] * d0 - w[0] * d2) + along * w[1]
    x[2] = r[2] + c * d2 + s * (w[0] * d1 - w[1] * d0) + along * w[2]


@compiled
def cross(a: Array, b0: float, b1: float, b2: float, out: Array) -> None:
    """Fill `out` with a × b."""
    out[0], out[1], out[2] = a[1] * b2 - a[2] * b1, a[2] * b0 - a[0] * b2, a[0] * b1 - a[1] * b0


@compiled
def leave_out(J: Array, e: Array) -> float:
    """Fill J_3 = n for a leg of two hinges, subtract n nᵀ e from e and return |nᵀ e|."""
    n = J[2]
    cross(J[0], J[1, 0], J[1, 1], J[1, 2], n)
    length = max(np.sqrt(n[0] ** 2 + n[1] ** 2 + n[2] ** 2), 1e-12)
    along = (n[0] * e[0] + n[1] * e[1] + n[2] * e[2]) / length
    for c in range(3):
        n[c] /= length
        e[c] -= along * n[c]
    return abs(along)


@compiled
def solve3(J: Array, e: Array, d: Array) -> None:
    """Solve Σ_j J_j d_j = e by Cramer's rule, with |det J| bounded below. Column J_j is stored in row j of J."""
    scale = 1.0
    for j in range(3):
        scale *= np.sqrt(J[j, 0] ** 2 + J[j, 1] ** 2 + J[j, 2] ** 2) + 1e-12
    det = _triple(J[0], J[1], J[2])
    floor = SINGULAR * scale
    if abs(det) < floor:
        det = floor if det >= 0.0 else -floor
    for j in range(3):
        d[j] = _triple(e, J[(j + 1) % 3], J[(j + 2) % 3]) / det


@compiled
def _triple(a: Array, b: Array, c: Array) -> float:
    """Return a · (b × c)."""
    return a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2]) + a[2] * (b[0] * c[1] - b[1] * c[0])


@compiled
def subtract_bias(placed: tuple[Array, Array, Array, Array], speeds: Array, a: Array, work: Array) -> None:
    """Subtract J̇ θ̇ = Σ_j θ̇_j [ ẇ_j × (x − r_j) + w_j × (ẋ − ṙ_j) ] from a. The hinges before j move axis j.

    placed: (w, r, x, J)
    work: buffer (4, 3)
    """
    (w, r, x, J), turning, moving, part, foot = placed, work[0], work[1], work[2], work[3]
    # ẋ = J θ̇
    fill(foot, 0.0)
    for j in range(len(speeds)):
        axpy(speeds[j], J[j], foot)
    for j in range(len(speeds)):
        # ω of the body that carries axis j, and ṙ_j
        fill(turning, 0.0)
        fill(moving, 0.0)
        for i in range(j):
            cross(w[i], r[j, 0] - r[i, 0], r[j, 1] - r[i, 1], r[j, 2] - r[i, 2], part)
            for c in range(3):
                moving[c] += speeds[i] * part[c]
                turning[c] += speeds[i] * w[i, c]
        cross(turning, w[j, 0], w[j, 1], w[j, 2], part)
        copy(part, turning)  # ẇ_j
        # a −= θ̇_j [ ẇ_j × (x − r_j) + w_j × (ẋ − ṙ_j) ]
        cross(turning, x[0] - r[j, 0], x[1] - r[j, 1], x[2] - r[j, 2], part)
        axpy(-speeds[j], part, a)
        cross(w[j], foot[0] - moving[0], foot[1] - moving[1], foot[2] - moving[2], part)
        axpy(-speeds[j], part, a)


@compiled
def posture_matrix(w: Array, J: Array, pull: Array, A: Array) -> None:
    """Fill A (k + 3, k + 3) with [K, Jᵀ; J, −slack], the matrix of (δθ, −λ). pull: λ (3)"""
    k = len(J)
    fill_rows(A, 0.0)
    for j in range(k):
        A[j, j] = 1.0
        for i in range(j + 1):
            curved = _triple(pull, w[i], J[j])
            A[i, j] -= curved
            A[j, i] = A[i, j]
        for c in range(3):
            A[j, k + c] = A[k + c, j] = J[j, c]
    for c in range(3):
        A[k + c, k + c] = -SLACK


@compiled
def posture_rates(LU: Array, order: Array, b: Array) -> Array:
    """Return the solution (θ̇, −λ̇) of [K, Jᵀ; J, 0] y = b (k + 3), from the factors of `posture_matrix`. b is changed."""
    y, k = lu_solve(LU, order, b), len(b) - 3
    for c in range(3):  # b as it is with the slack
        b[k + c] -= SLACK * y[k + c]
    found: Array = lu_solve(LU, order, b)
    return found


@compiled
def posture_bias(w: Array, J: Array, speeds: Array, pulls: tuple[Array, Array], out: Array) -> None:
    """Fill `out` (k) with 2 J̇ᵀ λ̇ + (λ·Ḣ) θ̇. speeds: θ̇ (k); pulls: λ, λ̇ (3)"""
    k, (pull, rate) = len(J), pulls
    dw, dJ, turning, part = stack_array((k, 3)), stack_array((k, 3)), stack_array(3), stack_array(3)
    # ẇ_j = Σ_{i<j} θ̇_i w_i × w_j,  J̇_j = Σ_i θ̇_i H_ij
    fill(turning, 0.0)
    fill_rows(dJ, 0.0)
    for j in range(k):
        cross(turning, w[j, 0], w[j, 1], w[j, 2], dw[j])
        for i in range(k):
            first, last = min(i, j), max(i, j)
            cross(w[first], J[last, 0], J[last, 1], J[last, 2], part)
            axpy(speeds[i], part, dJ[j])
        axpy(speeds[j], w[j], turning)
    # (λ·Ḣ)_ij = λ · (ẇ_i × J_j + w_i × J̇_j)
    for i in range(k):
        out[i] = 2.0 * (dJ[i, 0] * rate[0] + dJ[i, 1] * rate[1] + dJ[i, 2] * rate[2])
        for j in range(k):
            first, last = min(i, j), max(i, j)
            out[i] += speeds[j] * _triple(pull, dw[first], J[last])
            out[i] += speeds[j] * _triple(pull, w[first], dJ[last])
