"""Islands: kinematic trees (diagonal blocks of M) that constraints couple, and their sparse factorisation  [SAP §IV-D].

The trees of an island are in reverse Cuthill–McKee order, so that its Cholesky factor has a small bandwidth. The cost of a wide
pile of bodies is about its number of bodies times the width of its front.
"""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.types import Array


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
        order[done:end] = order[done:end][::-1].copy()
        done, islands = end, islands + 1
    return order, island


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
