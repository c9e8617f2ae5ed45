"""Sparse Jacobians: three rows per contact, with the non-zero columns only."""

from typing import Protocol

import numpy as np

from idyn.jit.compiled import compiled
from idyn.types import Array


class Sparse(Protocol):
    """A sparse matrix (3k, n) with three rows per item.

    begin: item i has the entries begin[i] to begin[i + 1] (k + 1)
    columns: column of each entry
    rows: the item's three values in that column (·, 3)
    first: for each column, the smallest column that has an entry in one of the same items (n)
    """

    @property
    def begin(self) -> Array: ...

    @property
    def columns(self) -> Array: ...

    @property
    def rows(self) -> Array: ...

    @property
    def first(self) -> Array: ...


@compiled
def compressed(J: Array, members: Array, dofs: Array, first: Array) -> tuple[Array, Array, Array]:
    """Return begin, columns and rows of a `Sparse` matrix.

    members: indices of the items of J (k)
    dofs: columns of J in their new order (n)
    first: for each column, the smallest column that has an entry in one of the same items; updated in place (n)
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
    return begin, columns[:x], rows[:x]


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
