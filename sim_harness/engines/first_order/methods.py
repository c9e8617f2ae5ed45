"""Scaled Jacobian of `first-order` in the coordinates y = Lᵀ v, where the inertia is the identity, and linear systems in y."""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.types import Array
from sim_harness.engines.first_order.law import NORMAL, TANGENT, Table
from sim_harness.engines.sparse import pushed, speeds

STIFFEST = 1e-10
"""Lower bound of R in linear systems, as a share of the weights. A bound of 10⁻ᵏ costs a Newton step k digits, and where R = 0
several steps are needed. Every round evaluates w anew, which corrects both errors."""


class ScaledJacobian(NamedTuple):
    """Y = J L⁻ᵀ as a `Sparse` matrix; first: first non-zero column of each row of I + Yᵀ G Y (nv)."""

    begin: Array
    columns: Array
    rows: Array
    first: Array


class Rules(NamedTuple):
    """Termination of Newton's method.

    tolerance: largest violation of a solution [m/s]
    motion: ‖Lᵀ v‖, its rounding error bounds the attainable accuracy [√J]
    max_steps: largest number of Newton steps per call
    """

    tolerance: float
    motion: float
    max_steps: int


@compiled
def law_velocity(Y: ScaledJacobian, table: Table, w: Array, p: Array) -> Array:
    """Return w + (Y Yᵀ + R) p (N, 3)."""
    u = speeds(Y, pushed(Y, p))
    for i in range(len(p)):
        for e in range(3):
            u[i, e] += w[i, e] + table.R[i, NORMAL if e == 2 else TANGENT] * p[i, e]
    return u


@compiled
def add_product(Y: ScaledJacobian, i: int, G: Array, plain: bool, lower: Array, upper: Array) -> None:
    """Add Yᵢᵀ G Yᵢ to the matrix with lower triangle `lower` and upper triangle `upper`ᵀ; plain: only G₂₂ is non-zero."""
    left, right = np.empty(3), np.empty(3)
    for x in range(Y.begin[i], Y.begin[i + 1]):
        row, a = Y.columns[x], Y.rows[x]
        for e in range(3):
            left[e] = a[0] * G[0, e] + a[1] * G[1, e] + a[2] * G[2, e]
            right[e] = G[e, 0] * a[0] + G[e, 1] * a[1] + G[e, 2] * a[2]
        for k in range(Y.begin[i], x + 1):
            column, c = Y.columns[k], Y.rows[k]
            if plain:
                both = left[2] * c[2]
                lower[row, column] += both
                upper[row, column] += both
            else:
                lower[row, column] += left[0] * c[0] + left[1] * c[1] + left[2] * c[2]
                upper[row, column] += right[0] * c[0] + right[1] * c[1] + right[2] * c[2]


@compiled
def eliminate(lower: Array, upper: Array, first: Array, x: Array) -> None:
    """x ← A⁻¹ x in place; A has the lower triangle `lower` and the upper triangle `upper`ᵀ, overwritten by its factors."""
    n = len(x)
    # A = L U row by row with unit diagonal of L, and x ← L⁻¹ x
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
