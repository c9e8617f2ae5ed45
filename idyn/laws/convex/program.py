"""Matrices of the convex program of stage I; facets of a polygonal friction cone."""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.laws.convex.rays import Program, units
from idyn.laws.law import is_free
from idyn.types import Array


@compiled
def assemble(program: Program, regularisation: float) -> tuple[Array, Array, Array, Array, float, float]:
    """Return (H, f, A, lower, unit, ε): the stage-I program in units of order one, the unit of impulse [N·s], and ε [1/kg].

    Rows of A: non-penetration (n); then for each contact k facets if its friction is limited, and p_N ≥ 0 if its friction is
    unlimited or zero (with limited μ > 0 the facets imply p_N ≥ 0).
    """
    Y, b, energy, mu, unlimited, directions = program
    n, k, m = len(mu), len(directions), Y.shape[1]
    d, speed = units(Y, b, energy)
    # H = D/d
    H = np.empty((3 * n, 3 * n))
    for i in range(3 * n):
        for j in range(i + 1):
            s = 0.0
            for c in range(m):
                s += Y[i, c] * Y[j, c]
            H[i, j] = s / d
            H[j, i] = s / d
    # rows of A
    count = n
    for i in range(n):
        free = is_free(mu[i], unlimited)
        count += (1 if free or mu[i] == 0.0 else 0) + (0 if free else k)
    A, lower = np.zeros((count, 3 * n)), np.zeros(count)
    # D_N p + b_N ≥ 0, p in its cone
    row = n
    for i in range(n):
        for j in range(3 * n):
            A[i, j] = H[3 * i + 2, j]
        lower[i] = -b[3 * i + 2] / speed
        free = is_free(mu[i], unlimited)
        if free or mu[i] == 0.0:
            A[row, 3 * i + 2] = 1.0
            row += 1
        if not free:
            row = facets(A, row, 3 * i, mu[i], directions)
    # + ε 1
    for i in range(3 * n):
        H[i, i] += regularisation
    return H, energy / speed, A, lower, speed / d, regularisation * d


@compiled
def facets(A: Array, row: int, column: int, mu: float, directions: Array) -> int:
    """Write the k rows `μ p_N·(apothem) − m_j · p_T ≥ 0` of one contact's friction cone. Return the index of the next row.

    m_j is the outward normal of the edge between corners j and j + 1 of the polygon.
    """
    k = len(directions)
    for j in range(k):
        a, c = directions[j], directions[(j + 1) % k]
        normal_s, normal_t = c[1] - a[1], a[0] - c[0]
        A[row, column] = -normal_s
        A[row, column + 1] = -normal_t
        A[row, column + 2] = mu * (normal_s * a[0] + normal_t * a[1])
        row += 1
    return row


@compiled
def turn(directions: Array, friction: Array, turned: Array) -> None:
    """Fill `turned` (k, 2) with the polygon, rotated such that a corner points along the unit vector `friction` (2); zero: not
    rotated. A polygon inscribed in a round cone then contains the impulses of the law."""
    a, c = friction
    if a == 0.0 and c == 0.0:
        a = 1.0
    for j in range(len(directions)):
        turned[j, 0] = a * directions[j, 0] - c * directions[j, 1]
        turned[j, 1] = c * directions[j, 0] + a * directions[j, 1]
