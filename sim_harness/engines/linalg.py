"""Sums with a fixed order, so that results are bitwise equal on every machine; sparse Jacobians; islands and their factors.

Islands are kinematic trees (diagonal blocks of M) that constraints couple  [SAP §IV-D]. The trees of an island are in reverse
Cuthill–McKee order, so that its Cholesky factor has a small bandwidth. The cost of a wide pile of bodies is about its number
of bodies times the width of its front.
"""

from typing import NamedTuple

import numpy as np

from idyn.library.kernels import compiled, entry
from idyn.library.records import Indices, Matrix
from idyn.types import Array

SHIFTS = (0.0, 1e-12, 1e-10, 1e-8)
"""Diagonal shifts as shares of the mean diagonal of Y Yᵀ, tried in this order until a problem is solved."""


@compiled
def dot(start: float, x: Array, y: Array) -> float:
    """Return start + x · y."""
    s = start
    for d in range(len(x)):
        s += x[d] * y[d]
    return s


@compiled
def add(x: Array, share: float, y: Array) -> None:
    """x ← x + share y, in place."""
    for d in range(len(x)):
        x[d] += share * y[d]


@compiled
def largest(x: Array) -> float:
    """Return max |x|, 0 for an empty x, inf for a non-finite x."""
    worst = 0.0
    for s in x:
        worst = max(worst, abs(s)) if np.isfinite(s) else np.inf
    return worst


@compiled
def pushed(Y: Array, p: Array) -> Array:
    """Return Yᵀ p (nv) for rows Y (m, nv) and impulses p (m)."""
    z = np.zeros(Y.shape[1])
    add_pushed(Y, p, z)
    return z


@compiled
def add_pushed(Y: Array, p: Array, z: Array) -> None:
    """z ← z + Yᵀ p, in place."""
    for i in range(len(p)):
        if p[i] != 0.0:
            add(z, p[i], Y[i])


@entry(Matrix)
def gram(Y: Array) -> Array:
    """Return Y Yᵀ (m, m)."""
    m = len(Y)
    D = np.zeros((m, m))
    for i in range(m):
        for j in range(i + 1):
            D[i, j] = D[j, i] = dot(0.0, Y[i], Y[j])
    return D


@compiled
def transposed_times(L: Array, v: Array, y: Array) -> None:
    """y ← y + Lᵀ v for a lower triangular L, in place."""
    for d in range(len(v)):
        for r in range(d, len(v)):
            y[d] += L[r, d] * v[r]


class Sparse(NamedTuple):
    """A sparse matrix (3k, n) with three rows per item."""

    begin: Indices  # item i has the entries begin[i] to begin[i + 1] (k + 1)
    columns: Indices  # column of each entry
    rows: Matrix  # the item's three values in that column (·, 3)
    first: Indices  # for each column, the smallest column that has an entry in one of the same items (n)


@compiled
def compressed(J: Array, members: Array, dofs: Array, first: Array) -> Sparse:
    """Return rows of J as a sparse matrix.

    members: indices of the items of J (k)
    dofs: columns of J in their new order (n)
    first: of `Sparse`, updated in place; at the beginning at most the column itself (n)
    """
    n, k, x = len(dofs), len(members), 0
    begin, columns, rows = np.zeros(k + 1, dtype=np.int64), np.zeros(k * n, dtype=np.int64), np.zeros((k * n, 3))
    for i in range(k):
        r = 3 * members[i]
        for d in range(n):
            s, t, u = J[r, dofs[d]], J[r + 1, dofs[d]], J[r + 2, dofs[d]]
            if s != 0.0 or t != 0.0 or u != 0.0:
                columns[x], rows[x, 0], rows[x, 1], rows[x, 2] = d, s, t, u
                first[d] = min(first[d], columns[begin[i]])
                x += 1
        begin[i + 1] = x
    return Sparse(begin, columns[:x], rows[:x], first)


@compiled
def speeds(J: Sparse, v: Array) -> Array:
    """Return J v (k, 3)."""
    u = np.zeros((len(J.begin) - 1, 3))
    for i in range(len(u)):
        for x in range(J.begin[i], J.begin[i + 1]):
            for e in range(3):
                u[i, e] += J.rows[x, e] * v[J.columns[x]]
    return u


@compiled
def sparse_pushed(J: Sparse, p: Array) -> Array:
    """Return Jᵀ p (n)."""
    y = np.zeros(len(J.first))
    for i in range(len(p)):
        if p[i, 0] != 0.0 or p[i, 1] != 0.0 or p[i, 2] != 0.0:
            for x in range(J.begin[i], J.begin[i + 1]):
                for e in range(3):
                    y[J.columns[x]] += J.rows[x, e] * p[i, e]
    return y


@compiled
def trees_of(M: Array) -> Array:
    """Return the index of the tree of each degree of freedom (nv); a tree is a contiguous diagonal block of M."""
    n = M.shape[0]
    tree = np.zeros(n, dtype=np.int64)
    count, reach = 0, 0
    for i in range(n):
        for j in range(n - 1, reach, -1):
            if M[i, j] != 0.0:
                reach = j
                break
        tree[i] = count
        if reach <= i:
            count += 1
            reach = i + 1
    return tree


@compiled
def touched(J: Array, tree: Array) -> Array:
    """Return which trees each constraint, three rows of J, acts on (k, trees)."""
    k, n = J.shape[0] // 3, J.shape[1]
    touches = np.zeros((k, (tree[n - 1] + 1) if n else 0), dtype=np.bool_)
    for i in range(3 * k):
        for d in range(n):
            if J[i, d] != 0.0:
                touches[i // 3, tree[d]] = True
    return touches


@compiled
def islands_of(touches: Array) -> tuple[Array, Array]:
    """Return the trees, island by island and in the order of the factor (trees), and the island of each tree (trees)."""
    k, count = touches.shape
    linked = np.zeros((count, count), dtype=np.bool_)
    for i in range(k):
        for a in range(count):
            if touches[i, a]:
                for b in range(count):
                    if touches[i, b]:
                        linked[a, b] = True
    order, island = np.zeros(count, dtype=np.int64), np.full(count, -1)
    done, islands = 0, 0
    for root in range(count):
        if island[root] >= 0:
            continue
        far = order[_spread(linked, root, order, island, done, islands) - 1]
        for i in range(count):
            if island[i] == islands:
                island[i] = -1
        end = _spread(linked, far, order, island, done, islands)  # start from the most distant tree: narrower fronts
        for i in range((end - done) // 2):  # reverse
            order[done + i], order[end - 1 - i] = order[end - 1 - i], order[done + i]
        done, islands = end, islands + 1
    return order, island


@compiled
def dofs_of(trees: Array, tree: Array) -> Array:
    """Return the degrees of freedom of trees, in the order of `trees`; tree: from `trees_of` (nv)."""
    dofs, count = np.zeros(len(tree), dtype=np.int64), 0
    for t in trees:
        for d in range(np.searchsorted(tree, t), len(tree)):
            if tree[d] != t:
                break
            dofs[count] = d
            count += 1
    return dofs[:count].copy()


@compiled
def _spread(linked: Array, root: int, order: Array, island: Array, begin: int, number: int) -> int:
    """Search breadth-first from `root`: write the trees found to order[begin:end], set their island, and return end."""
    order[begin], island[root] = root, number
    end, at = begin + 1, begin
    while at < end:
        for b in range(linked.shape[0]):
            if linked[order[at], b] and island[b] < 0:
                order[end], island[b] = b, number
                end += 1
        at += 1
    return end


@compiled
def cholesky_within(A: Array, first: Array) -> None:
    """A ← L with L Lᵀ = A in the lower triangle, whose row i is 0 before column first[i]; NaN unless A ≻ 0."""
    for i in range(A.shape[0]):
        for j in range(first[i], i + 1):
            s = A[i, j]
            for k in range(max(first[i], first[j]), j):
                s -= A[i, k] * A[j, k]
            A[i, j] = np.sqrt(s) if i == j else s / A[j, j]


@compiled
def forward_within(L: Array, first: Array, x: Array) -> None:
    """x ← L⁻¹ x, in place; row i of L is 0 before column first[i]."""
    for i in range(len(x)):
        s = x[i]
        for k in range(first[i], i):
            s -= L[i, k] * x[k]
        x[i] = s / L[i, i]


@compiled
def backward_within(L: Array, first: Array, x: Array) -> None:
    """x ← L⁻ᵀ x, in place; row i of L is 0 before column first[i]."""
    for i in range(len(x) - 1, -1, -1):
        x[i] /= L[i, i]
        for k in range(first[i], i):
            x[k] -= L[i, k] * x[i]


@compiled
def profile(A: Array) -> Array:
    """Return the first non-zero column of each row of A, at most the diagonal (n)."""
    n = A.shape[0]
    first = np.arange(n)
    for i in range(n):
        for j in range(i):
            if A[i, j] != 0.0:
                first[i] = j
                break
    return first
