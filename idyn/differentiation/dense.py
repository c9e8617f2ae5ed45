"""Dense linear algebra of derivatives, with inner loops over contiguous rows."""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.jit.stack import stack_array
from idyn.solvers.linalg import backward, forward
from idyn.solvers.rows import reduce_rows
from idyn.solvers.vectors import copy, fill, fill_rows
from idyn.types import Array

DEPENDENT = 1e-12
"""A row is dependent if the square of its remaining part is at most this share of the largest square."""


@compiled
def axpy(s: float, x: Array, y: Array) -> None:
    """Add s x to y."""
    for c in range(len(y)):
        y[c] += s * x[c]


@compiled
def scale(s: float, x: Array) -> None:
    """Multiply x by s."""
    for c in range(len(x)):
        x[c] *= s


@compiled
def multiply(A: Array, X: Array, sign: float, Y: Array) -> None:
    """Add sign A X to Y."""
    for i in range(len(Y)):
        y = Y[i]
        for k in range(len(X)):
            s = sign * A[i, k]
            if s != 0.0:
                axpy(s, X[k], y)


@compiled
def multiply_transposed(A: Array, X: Array, sign: float, Y: Array) -> None:
    """Add sign Aᵀ X to Y."""
    for k in range(len(X)):
        x = X[k]
        for i in range(len(Y)):
            s = sign * A[k, i]
            if s != 0.0:
                axpy(s, x, Y[i])


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
    columns, rows = A.shape
    H, place, s = stack_array((columns, columns)), stack_array(rows), stack_array(columns)
    for j in range(rows):
        place[j] = j
    rank = reduce_rows(A, place, (0, rows), H, 0, 0.0)
    for j in range(rows):
        order[j] = int(place[j])
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
