"""How contacts of `first-order` move the bodies, in y = Lᵀ v, in which M is the identity, and linear systems there."""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.types import Array
from sim_harness.engines.first_order.law import NORMAL, TANGENT, Table
from sim_harness.engines.sparse import pushed, speeds

STIFFEST = 1e-10
"""In linear systems R is R, or this share of the weights where that is more: a Newton step loses as many digits, and where R is
0 comes to its end in several. Rounds, each from w as it is, make up for both."""


class Ways(NamedTuple):
    """Y = J L⁻ᵀ, a `Sparse`; first: where each row of I + Yᵀ G Y begins (nv)."""

    begin: Array
    columns: Array
    rows: Array
    first: Array


class Rules(NamedTuple):
    """tolerance: largest violation [m/s] of what counts as solved; motion: ‖Lᵀ v‖, whose rounding is the floor of errors [√J];
    max_steps: of Newton's method at a time."""

    tolerance: float
    motion: float
    max_steps: int


@compiled
def answer(ways: Ways, table: Table, w: Array, p: Array) -> Array:
    """w + (Y Yᵀ + R) p (N, 3)"""
    u = speeds(ways, pushed(ways, p))
    for i in range(len(p)):
        for e in range(3):
            u[i, e] += w[i, e] + table.R[i, NORMAL if e == 2 else TANGENT] * p[i, e]
    return u


@compiled
def add_product(ways: Ways, i: int, G: Array, plain: bool, lower: Array, upper: Array) -> None:
    """Add Yᵢᵀ G Yᵢ to a matrix, of which `upper` has the transpose of the other triangle; plain: only G₂₂ is not 0."""
    left, right = np.empty(3), np.empty(3)
    for x in range(ways.begin[i], ways.begin[i + 1]):
        row, a = ways.columns[x], ways.rows[x]
        for e in range(3):
            left[e] = a[0] * G[0, e] + a[1] * G[1, e] + a[2] * G[2, e]
            right[e] = G[e, 0] * a[0] + G[e, 1] * a[1] + G[e, 2] * a[2]
        for k in range(ways.begin[i], x + 1):
            column, c = ways.columns[k], ways.rows[k]
            if plain:
                both = left[2] * c[2]
                lower[row, column] += both
                upper[row, column] += both
            else:
                lower[row, column] += left[0] * c[0] + left[1] * c[1] + left[2] * c[2]
                upper[row, column] += right[0] * c[0] + right[1] * c[1] + right[2] * c[2]


@compiled
def eliminate(lower: Array, upper: Array, first: Array, x: Array) -> None:
    """x ← A⁻¹ x with A = lower triangle of `lower` and, transposed, of `upper`, which become its factors; in place."""
    n = len(x)
    # A = L U row by row with L's diagonal 1, and x ← L⁻¹ x
    for i in range(n):
        for j in range(first[i], i):
            s, t = lower[i, j], upper[i, j]
            for k in range(max(first[i], first[j]), j):
                s -= lower[i, k] * upper[j, k]
                t -= lower[j, k] * upper[i, k]
            lower[i, j], upper[i, j] = s / upper[j, j], t
            x[i] -= lower[i, j] * x[j]
        s = upper[i, i]
        for k in range(first[i], i):
            s -= lower[i, k] * upper[i, k]
        upper[i, i] = s
    # x ← U⁻¹ x
    for i in range(n - 1, -1, -1):
        x[i] /= upper[i, i]
        for k in range(first[i], i):
            x[k] -= upper[i, k] * x[i]
