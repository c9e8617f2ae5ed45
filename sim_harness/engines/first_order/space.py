"""Input of the Newton method of `first-order`, and the velocity after the step from its impulses.

Rigid rows are eliminated by projection in y = Lᵀ v, as in `bilateral`. Compliant rows are items of the table. The
factorisation keeps the blocks of M, one per tree, separate and orders the trees for a small bandwidth (`sap.islands`).
"""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.types import Array
from sim_harness.engines.bilateral import RowFactor, factor_rows, no_rows, project, satisfy_rows, solve_row_impulses
from sim_harness.engines.first_order.law import NORMAL, TANGENT, ScaledJacobian, Table
from sim_harness.engines.sap.islands import (
    backward_within,
    cholesky_within,
    forward_within,
    islands_of,
    profile,
    touched,
    trees_of,
)
from sim_harness.engines.sparse import compressed, sparse_pushed
from sim_harness.engines.vectors import add, dot


class Bodies(NamedTuple):
    """Data of a step other than its unknown impulses.

    M: inertia (nv, nv)
    v: velocity before the step (nv)
    drive: dt (f − h) (nv)
    J: three rows for each item of the table (3N, nv)
    G, g: rigid rows (m, nv), (m)
    dt: step [s]
    """

    M: Array
    v: Array
    drive: Array
    J: Array
    G: Array
    g: Array
    dt: float


class Free(NamedTuple):
    """Result of the step without impulses of contacts, limits and compliant rows.

    L: Cholesky factor of M (nv, nv)
    first: first non-zero column of each row of L (nv)
    v_free: velocity after the step with rigid rows only (nv)
    factor: orthonormal factor of the rigid rows
    consistent: false when rigid rows contradict each other
    regular: false when M is not positive definite
    """

    L: Array
    first: Array
    v_free: Array
    factor: RowFactor
    consistent: bool
    regular: bool


@compiled
def free_motion(bodies: Bodies) -> Free:
    """Compute the step without impulses of contacts, limits and compliant rows."""
    nv = len(bodies.v)
    first, L, y = profile(bodies.M), bodies.M.copy(), bodies.drive.copy()
    cholesky_within(L, first)
    for d in range(nv):
        if not 0.0 < L[d, d] < np.inf:
            return Free(L, first, y, no_rows(nv), True, False)
    # y = Lᵀ v_free = L⁻¹ dt (f − h) + Lᵀ v, projected onto G v⁺ = −g/dt
    forward_within(L, first, y)
    y += times_transposed(L, first, bodies.v)
    factor = factor_rows(L, bodies.G)
    consistent = satisfy_rows(factor, bodies.g, bodies.dt, y)
    backward_within(L, first, y)
    return Free(L, first, y, factor, consistent, True)


@compiled
def times_transposed(L: Array, first: Array, v: Array) -> Array:
    """Return Lᵀ v (nv)."""
    y = np.zeros(len(v))
    for r in range(len(v)):
        for d in range(first[r], r + 1):
            y[d] += L[r, d] * v[r]
    return y


@compiled
def scaled_jacobian(bodies: Bodies, free: Free, table: Table) -> tuple[ScaledJacobian, Array, Array]:
    """Return Y, the order of its columns (nv), and w at p = 0 (N, 3). Sets the weights of the table in place."""
    J, n, nv = bodies.J, len(table.mu), len(bodies.v)
    Y, w = J.copy(), np.zeros((n, 3))
    # Y = J L⁻ᵀ, w = J v_free − v̂, weights ‖Y_i‖² + R
    for i in range(n):
        for e in range(3):
            y = Y[3 * i + e]
            w[i, e] = dot(0.0, J[3 * i + e], free.v_free)
            if e < 2 and table.mu[i] == 0.0:
                continue
            forward_within(free.L, free.first, y)
            column = NORMAL if e == 2 else TANGENT
            table.weights[i, column] = max(table.weights[i, column], np.dot(y, y))
            project(free.factor.Q, y)
        w[i, 2] -= table.v_hat[i]
        for e in range(2):
            if table.weights[i, e] > 0.0:
                table.weights[i, e] += table.R[i, e]
    order, first = _order(J, bodies.M, free.factor), np.arange(nv)
    begin, columns, rows = compressed(Y, np.arange(n), order, first)
    return ScaledJacobian(begin, columns, rows, first), order, w


@compiled
def _order(J: Array, M: Array, factor: RowFactor) -> Array:
    """Return the degrees of freedom ordered by island and tree (nv), in their original order when there are rigid rows."""
    if len(factor.Q):
        return np.arange(len(M))
    tree = trees_of(M)
    trees, _ = islands_of(touched(J, tree))
    order, count = np.zeros(len(M), dtype=np.int64), 0
    for t in trees:
        for d in range(np.searchsorted(tree, t), len(tree)):
            if tree[d] != t:
                break
            order[count] = d
            count += 1
    return order


@compiled
def velocity_after(bodies: Bodies, free: Free, Y: ScaledJacobian, order: Array, p: Array) -> tuple[Array, Array, float]:
    """Return v⁺ (nv), impulses λ of the rigid rows (m), and ‖M (v⁺ − v) − Jᵀ p − Gᵀ λ − drive‖∞ [N·s, N·m·s]."""
    nv, y = len(bodies.v), sparse_pushed(Y, p)
    v_plus = np.zeros(nv)
    for d in range(nv):
        v_plus[order[d]] = y[d]
    backward_within(free.L, free.first, v_plus)
    v_plus += free.v_free
    # generalised impulse that the rigid rows must supply: Gᵀ λ = M (v⁺ − v) − Jᵀ p − drive
    rest, change = -bodies.drive, v_plus - bodies.v
    for i in range(len(p)):
        for e in range(3):
            if p[i, e] != 0.0:
                add(rest, -p[i, e], bodies.J[3 * i + e])
    for r in range(nv):
        rest[r] = dot(rest[r], bodies.M[r], change)
    x = rest.copy()
    forward_within(free.L, free.first, x)
    impulses, worst = solve_row_impulses(free.factor, bodies.G, x, rest)
    return v_plus, impulses, worst
