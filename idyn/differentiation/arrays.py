"""The arrays of one differentiation, and their linear algebra, with inner loops over contiguous rows."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from idyn.library.kernels import compiled, stack_array
from idyn.library.records import Indices, Vector
from idyn.solvers.linalg import axpy, backward, copy, fill, fill_rows, forward, scale
from idyn.solvers.rows import order_rows
from idyn.types import Array

NONE, FORCES, TORQUES = range(3)  # objectives of the selection
CODES = 4  # place of the code of the first contact in `Expansion.marks`
V_HAT, PULL, HELD_Y, ACCELERATION, STIRRED, VELOCITY = range(6)  # rows of `Expansion.motions`
P, CHANGE, HOLDING = range(3)  # rows of `Expansion.impulses`

EXPANSION = Vector, Indices  # types of the arrays of an `Expansion`

DIMENSION, OBJECTIVE, RANK, DRIFTS = range(4)
"""First entries of `Expansion.marks`; then the codes of the contacts, then the order of the held rows."""


class Expansion(NamedTuple):
    """Operators of one differentiation: views of one array."""

    # V_HAT: v̂; PULL: ∂(gradient)/∂q = −∂(J y)/∂q for this y; HELD_Y: velocity of the projection; ACCELERATION: (v⁺ − v)/dt;
    # STIRRED: that plus y/dt, M_uu y_u = J_uᵀ (p − p⁻), y_a = 0; VELOCITY: v (6, nv)
    motions: Array
    base: Array  # M_u (nu, nv)
    joints: Array  # M_a (na, nv)
    J: Array  # see `Dynamics` (3n, nv)
    axes: Array  # see `Dynamics` (nv, 6)
    frames: Array  # those of `motions.Places`, then radius, point of slip (`idyn.terms.drift`), 1 if it touches (n, 14)
    inertia: Array  # M_uu⁻¹ (nu, nu)
    push: Array  # M_uu⁻¹ J_uᵀ (nu, 3n)
    Y: Array  # (3n, nu)
    law: Array  # dp by db, of the law and the selection; below it dv_u⁺ by db at fixed dv_u⁰ (3n + nu, 3n)
    chosen: Array  # A C⁻ᵀ with Aᵀ K A = C Cᵀ, its first columns (3n, 3n)
    lever: Array  # (A C⁻ᵀ)ᵀ J_a (3n, na)
    factor: Array  # of the projection of the demand, see `idyn.differentiation.motions` (3n, 3n)
    held: Array  # of the projection (3n, nv)
    # change of p by μ at fixed coordinates, then that of the gradient of the selection by μ in the normal (n, 4)
    friction: Array
    impulses: Array  # P: p; CHANGE: p − p⁻; HOLDING: multipliers of the projection (3, 3n)
    # dimension of the choice, objective, rank of the projection, drift of contacts (0: none; 1; 2: only what the mechanism can
    # follow), codes of the contacts (n), held rows (3n), bodies (2n)
    marks: Array
    ends: Array  # see `Places` (n, 2)


@lru_cache
def extent(n: int, nu: int, na: int) -> tuple[int, int]:
    """Return the lengths of the arrays of an `Expansion` for n contacts."""
    rows, nv = 3 * n, nu + na
    words = 6 * nv + nv * nv + 2 * rows * nv + 6 * nv + 18 * n + nu * nu + 3 * nu * rows
    return words + 3 * rows * rows + rows * na + 3 * rows, CODES + n + rows + 2 * n


@compiled
def _next(values: Array, begin: int, rows: int, columns: int) -> tuple[Array, int]:
    """Return a matrix that begins at a place of an array, and the place after it."""
    return values[begin : begin + rows * columns].reshape((rows, columns)), begin + rows * columns


@compiled
def carve(values: Array, marks: Array, n: int, sizes: tuple[int, int]) -> Expansion:
    """Return the views of an `Expansion`; see `extent`."""
    nu, na = sizes
    rows, nv = 3 * n, nu + na
    motions, at = _next(values, 0, 6, nv)
    base, at = _next(values, at, nu, nv)
    joints, at = _next(values, at, na, nv)
    J, at = _next(values, at, rows, nv)
    axes, at = _next(values, at, nv, 6)
    frames, at = _next(values, at, n, 14)
    inertia, at = _next(values, at, nu, nu)
    push, at = _next(values, at, nu, rows)
    Y, at = _next(values, at, rows, nu)
    law, at = _next(values, at, rows + nu, rows)
    chosen, at = _next(values, at, rows, rows)
    lever, at = _next(values, at, rows, na)
    factor, at = _next(values, at, rows, rows)
    held, at = _next(values, at, rows, nv)
    friction, at = _next(values, at, n, 4)
    impulses, at = _next(values, at, 3, rows)
    return Expansion(
        motions, base, joints, J, axes, frames, inertia, push, Y, law, chosen, lever, factor, held, friction, impulses, marks,
        marks[CODES + n + rows :].reshape((n, 2)),
    )  # fmt: skip


DEPENDENT = 1e-12  # a row is dependent if the square of its remaining part is at most this share of the largest square


@compiled
def gather(A: Array, rows: Array, X: Array) -> None:
    """Fill X with some rows of A."""
    for i in range(len(rows)):
        copy(A[rows[i]], X[i])


@compiled
def inverse(L: Array, X: Array) -> None:
    """Fill X with (L Lᵀ)⁻¹."""
    for i in range(len(L)):
        x = X[i]
        fill(x, 0.0)
        x[i] = 1.0
        forward(L, x)
        backward(L, x)


@compiled
def split(A: Array, order: Array, Q: Array) -> int:
    """Factor a matrix by orthogonal columns Q: row order[j] of it is Σ_k A[k, j] Q[:, k], with k ≤ j and k < rank. Return the
    rank; the other columns of Q span the null space.

    A: the matrix, transposed (columns, rows), overwritten; order: (rows); Q: (columns, columns)
    """
    columns = len(A)
    H, s = stack_array((columns, columns)), stack_array(columns)
    rank = order_rows(A, order, H)
    fill_rows(Q, 0.0)
    for k in range(columns):
        Q[k, k] = 1.0
    for k in range(rank - 1, -1, -1):
        h = H[k]
        fill(s, 0.0)
        for j in range(k, columns):
            axpy(2.0 * h[j], Q[j], s)
        for j in range(k, columns):
            axpy(-h[j], s, Q[j])
    return rank


@compiled
def pivoted_cholesky(S: Array, order: Array) -> int:
    """Replace the lower triangle of a positive semidefinite S by the Cholesky factor L of its independent rows: row i of L
    belongs to row order[i] of S. Return the rank. The upper triangle is overwritten."""
    rows, largest, column = len(S), 0.0, stack_array(len(S))
    for i in range(rows):
        order[i] = i
    for j in range(rows):
        best = j
        for i in range(j + 1, rows):
            if S[i, i] > S[best, best]:
                best = i
        largest = max(largest, S[best, best])
        if not S[best, best] > DEPENDENT * largest:
            return j
        if best != j:
            _exchange(S, j, best)
            order[j], order[best] = order[best], order[j]
        root = np.sqrt(S[j, j])
        S[j, j] = root
        for i in range(j + 1):
            column[i] = 0.0
        for i in range(j + 1, rows):
            S[i, j] /= root
            column[i] = S[i, j]
        for i in range(j + 1, rows):
            axpy(-column[i], column, S[i])
    return rows


@compiled
def _exchange(S: Array, j: int, best: int) -> None:
    """Exchange rows and columns j < best of a symmetric matrix, of which the lower triangle is stored; rows of the factor left
    of column j too."""
    rows = len(S)
    for k in range(j):
        S[j, k], S[best, k] = S[best, k], S[j, k]
    S[j, j], S[best, best] = S[best, best], S[j, j]
    for k in range(j + 1, best):
        S[k, j], S[best, k] = S[best, k], S[k, j]
    for k in range(best + 1, rows):
        S[k, j], S[k, best] = S[k, best], S[k, j]


@compiled
def forward_columns(L: Array, rank: int, X: Array) -> None:
    """Replace the first `rank` rows of X by L⁻¹ X."""
    for i in range(rank):
        for k in range(i):
            axpy(-L[i, k], X[k], X[i])
        scale(1.0 / L[i, i], X[i])
