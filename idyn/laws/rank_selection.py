"""Rank selection: a maximal independent set of the contacts' rows, by orthogonalisation with pivoting  [ZD §4, Alg. 1]."""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.jit.memory import local
from idyn.types import Array


@compiled
def _against(U: Array, k: int, u: Array, along: Array) -> float:
    """Make u orthogonal to the first k rows of U, in place, and add its components to `along`; its squared length then."""
    length2 = 0.0
    for j in range(k):
        s = 0.0
        for c in range(len(u)):
            s += U[j, c] * u[c]
        along[j] += s
        for c in range(len(u)):
            u[c] -= s * U[j, c]
    for c in range(len(u)):
        length2 += u[c] * u[c]
    return length2


@compiled
def select_rows(Y: Array, bilateral: Array, preferred: Array, rank: float, X: Array, U: Array, R: Array) -> int:
    """Maximal independent set of the `bilateral` rows (3n, bool): those of `preferred` contacts (n, bool), then the others,
    the most independent first.

    A row is independent when more than the share `rank` of its length is new. Returns their number k, and fills the row indices
    X, an orthonormal basis U of their span and the lower triangle R with Y_X = R U, as far as k rows of them go (m, each).
    """
    rows, m = Y.shape
    rest, start, new = local((rows, m)), local(rows), local(rows)  # squared lengths at first, and of what is still new
    along = local((rows, m))  # components of the rows along the basis
    k, first = 0, True
    # squared lengths
    for i in range(rows):
        square = 0.0
        for c in range(m):
            rest[i, c], along[i, c] = Y[i, c], 0.0
            square += Y[i, c] * Y[i, c]
        start[i] = new[i] = square if bilateral[i] else 0.0  # who is out of the running has 0 new
    while k < m:
        # next: the row of which most is new; preferred contacts first
        row, most = -1, 0.0
        for i in range(rows):
            if preferred[i // 3] == first and new[i] > max(most, rank * rank * start[i]):
                row, most = i, new[i]
        if row < 0 and first:
            first = False
            continue
        if row < 0:
            break
        new[row] = 0.0
        # once more orthogonal where what is left of it is full of rounding errors
        u = rest[row]
        length2 = 0.0
        for c in range(m):
            length2 += u[c] * u[c]
        if length2 < 0.01 * start[row]:
            length2 = _against(U, k, u, along[row])
            if not length2 > rank * rank * start[row]:
                continue
        # U_k = u/‖u‖, Y_row = R_k U
        length = np.sqrt(length2)
        for c in range(m):
            U[k, c] = u[c] / length
        for j in range(k):
            R[k, j] = along[row, j]
        R[k, k] = length
        X[k] = row
        k += 1
        # out of all other rows
        for i in range(rows):
            if new[i] > 0.0:
                s = 0.0
                for c in range(m):
                    s += U[k - 1, c] * rest[i, c]
                along[i, k - 1] = s
                new[i] = 0.0
                for c in range(m):
                    rest[i, c] -= s * U[k - 1, c]
                    new[i] += rest[i, c] * rest[i, c]
    return k
