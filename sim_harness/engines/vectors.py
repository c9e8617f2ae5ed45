"""Vector sums for compiled functions with a fixed order of summation, so results are bitwise equal on every machine."""

import numpy as np

from idyn.jit.compiled import compiled
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


@compiled
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
