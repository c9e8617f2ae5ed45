"""Rank selection: a maximal independent set of contact rows, by orthogonalisation with pivoting  [ZD §4, Alg. 1]."""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.jit.stack import stack_array
from idyn.types import Array


@compiled
def _orthogonalise(U: Array, k: int, u: Array, along: Array) -> float:
    """Make u orthogonal to the first k rows of U, in place, and add its components to `along`. Return its squared length."""
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
    """Select independent rows of `bilateral` ones (3n, bool): of `preferred` contacts (n, bool), then others, longest first.

    Each has a part orthogonal to the rows before it that is longer than the share `rank` of its length. Return their number k;
    fill, in the first k rows, indices X (m), orthonormal basis U (m, m) and lower triangle R (m, m) with Y_X = R U."""
    rows, m = Y.shape
    # rest: orthogonal parts of the rows; start, new: squared lengths of the rows and of their orthogonal parts
    rest, start, new = stack_array((rows, m)), stack_array(rows), stack_array(rows)
    along = stack_array((rows, m))  # components of the rows along the basis
    k, first = 0, True
    # squared lengths
    for i in range(rows):
        square = 0.0
        for c in range(m):
            rest[i, c], along[i, c] = Y[i, c], 0.0
            square += Y[i, c] * Y[i, c]
        start[i] = new[i] = square if bilateral[i] else 0.0  # 0: not a candidate
    while k < m:
        # next row: the one with the longest orthogonal part; preferred contacts first
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
        # orthogonalise again if the remaining part is short, hence dominated by rounding errors
        u = rest[row]
        length2 = 0.0
        for c in range(m):
            length2 += u[c] * u[c]
        if length2 < 0.01 * start[row]:
            length2 = _orthogonalise(U, k, u, along[row])
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
        # subtract the new direction from all other candidates
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
