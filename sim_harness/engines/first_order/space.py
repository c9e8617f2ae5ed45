"""The step of `first-order` from contacts and rows: what its Newton method is given, and where its impulses lead.

Rigid rows are projected out in y = Lᵀ v, as `bilateral` does it for other engines; all that yields is in the table. M's blocks,
one for each tree, stay apart, and trees are put in an order in which what links them stays near the diagonal (`sap_islands`).
"""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.types import Array
from sim_harness.engines.bilateral import Held, answer_of_rows, held_rows, meet_rows, no_rows, project
from sim_harness.engines.first_order.law import NORMAL, TANGENT, Table
from sim_harness.engines.first_order.methods import Ways
from sim_harness.engines.sap.islands import (
    backward_within,
    cholesky_within,
    forward_within,
    islands_of,
    profile,
    touched,
    trees_of,
)
from sim_harness.engines.sparse import compressed, pushed
from sim_harness.engines.vectors import add, dot


class Bodies(NamedTuple):
    """The step before any impulse: drive, dt (f − h) (nv); J, three rows for each item (3N, nv); G, g, the rigid rows (m)."""

    M: Array
    v: Array
    drive: Array
    J: Array
    G: Array
    g: Array
    dt: float


class Free(NamedTuple):
    """Where it leads without impulses of the table: L within `first`, v_free (nv), the rigid rows, and whether they agree."""

    L: Array
    first: Array
    v_free: Array
    held: Held
    agree: bool
    regular: bool


@compiled
def free_motion(bodies: Bodies) -> Free:
    nv = len(bodies.v)
    first, L, y = profile(bodies.M), bodies.M.copy(), bodies.drive.copy()
    cholesky_within(L, first)
    for d in range(nv):
        if not 0.0 < L[d, d] < np.inf:
            return Free(L, first, y, no_rows(nv), True, False)
    # y = Lᵀ v_free = L⁻¹ dt (f − h) + Lᵀ v, then what the rigid rows leave of it
    forward_within(L, first, y)
    y += times_transposed(L, first, bodies.v)
    held = held_rows(L, bodies.G)
    agree = meet_rows(held, bodies.g, bodies.dt, y)
    backward_within(L, first, y)
    return Free(L, first, y, held, agree, True)


@compiled
def times_transposed(L: Array, first: Array, v: Array) -> Array:
    """Lᵀ v (nv)"""
    y = np.zeros(len(v))
    for r in range(len(v)):
        for d in range(first[r], r + 1):
            y[d] += L[r, d] * v[r]
    return y


@compiled
def contact_ways(bodies: Bodies, free: Free, table: Table) -> tuple[Ways, Array, Array]:
    """Y, the order of its columns (nv), and w without impulses (N, 3). Adds to the table's weights what the bodies give way."""
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
            project(free.held.Q, y)
        w[i, 2] -= table.v_hat[i]
        for e in range(2):
            if table.weights[i, e] > 0.0:
                table.weights[i, e] += table.R[i, e]
    order, first = _order(J, bodies.M, free.held), np.arange(nv)
    begin, columns, rows = compressed(Y, np.arange(n), order, first)
    return Ways(begin, columns, rows, first), order, w


@compiled
def _order(J: Array, M: Array, held: Held) -> Array:
    """Degrees of freedom as islands and, within them, trees follow one another (nv); as they are where rigid rows tie all."""
    if len(held.Q):
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
def velocity_after(bodies: Bodies, free: Free, ways: Ways, order: Array, p: Array) -> tuple[Array, Array, float]:
    """v⁺ (nv), impulses of the rigid rows (m), and ‖M (v⁺ − v) − Jᵀ p − Gᵀ λ − drive‖∞ [N·s, N·m·s]."""
    nv, y = len(bodies.v), pushed(ways, p)
    v_plus = np.zeros(nv)
    for d in range(nv):
        v_plus[order[d]] = y[d]
    backward_within(free.L, free.first, v_plus)
    v_plus += free.v_free
    # what the rigid rows have to answer for: M (v⁺ − v) − Jᵀ p − drive
    rest, change = -bodies.drive, v_plus - bodies.v
    for i in range(len(p)):
        for e in range(3):
            if p[i, e] != 0.0:
                add(rest, -p[i, e], bodies.J[3 * i + e])
    for r in range(nv):
        rest[r] = dot(rest[r], bodies.M[r], change)
    x = rest.copy()
    forward_within(free.L, free.first, x)
    impulses, worst = answer_of_rows(free.held, bodies.G, x, rest)
    return v_plus, impulses, worst
