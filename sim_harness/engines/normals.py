"""Impulses along the normals alone, once all else is eliminated: an LCP whose matrix is a Gram matrix  [D15 §V].

    0 ≤ z ⟂ w = Y Yᵀ z + r ≥ 0          Y (n, nv)
Three ways to the same w, which [D15 Tables I–III] compare; z differs where contacts are redundant.
"""

from typing import Literal

import numpy as np

from idyn.jit.compiled import compiled
from idyn.solvers.lemke import lemke, natural_residual
from idyn.solvers.pivoting import dual_active_set, ppm
from idyn.solvers.qp import solve_qp
from idyn.status import NOT_CERTIFIED, SOLVED, STATUSES, Status
from idyn.types import Array
from sim_harness.engines.vectors import SHIFTS, gram

Solver = Literal["ppm", "qp", "lemke"]
"""ppm: the modified Principal Pivoting Method [D15 Alg. 1], nv × nv systems only, the monotone rule where it cycles; qp: an
active-set method for quadratic programs (DAQP); lemke: Lemke's method."""

GOOD = 1e-8
"""Largest |min(z, w)| of Lemke's answer, as a share of max |r|, for which no other shift is tried."""

MOST_PIVOTS = 1000
"""Of one LCP."""

SATISFIED = 1e-12
"""w above minus this times max |r| is not negative."""


ROUNDING = 1e-12
"""Share of the largest impulse below which that of an inactive bound of a QP is."""

NON_FINITE = Status.NON_FINITE.value


def normal_impulses(Y: Array, r: Array, lengths2: Array, solver: Solver) -> tuple[Array, Status, int]:
    """z (n), status, pivots or iterations. lengths2: of the rows before anything was eliminated from them, squared (n)."""
    if solver == "qp":
        return by_qp(Y, r, lengths2)
    z, status, pivots = by_pivots(Y, r, lengths2, solver == "lemke")
    return z, STATUSES[status], pivots


@compiled
def by_pivots(Y: Array, r: Array, lengths2: Array, by_lemke: bool) -> tuple[Array, int, int]:
    """As `normal_impulses`."""
    n, least, largest, finite = len(r), 0.0, 0.0, True
    for i in range(n):
        least, largest = min(least, r[i]), max(largest, abs(r[i]))
        finite = finite and np.isfinite(r[i])
    if not finite:
        return np.zeros(n), NON_FINITE, 0
    if least >= 0.0:
        return np.zeros(n), SOLVED, 0
    if by_lemke:
        return _lemke(Y, r)
    z, status, pivots, _ = ppm(Y, r, lengths2, np.zeros(n, dtype=np.bool_), SATISFIED * largest, MOST_PIVOTS)
    if status != SOLVED:
        z, status, more, _ = dual_active_set(Y, r, lengths2, SATISFIED * largest, MOST_PIVOTS)
        pivots += more
    return z, status, pivots


@compiled
def _lemke(Y: Array, r: Array) -> tuple[Array, int, int]:
    n, A = len(r), gram(Y)
    best, least, status, pivots, mean, largest = np.zeros(n), np.inf, SOLVED, 0, np.trace(A) / n, np.abs(r).max()
    for shift in SHIFTS:
        shifted = A.copy()
        for i in range(n):
            shifted[i, i] += shift * mean
        z, status, used, _ = lemke(shifted, r, MOST_PIVOTS, np.ones(n))
        pivots += used
        error = natural_residual(A, r, z)
        if error < least:
            best, least = z, error
        if least <= GOOD * largest:
            return best, SOLVED, pivots
    return best, NOT_CERTIFIED if status == SOLVED else status, pivots


def by_qp(Y: Array, r: Array, lengths2: Array) -> tuple[Array, Status, int]:
    """In units of mass and speed of order one, as its tolerances are absolute; an impulse below `ROUNDING` counts as zero."""
    if not np.isfinite(r).all():
        return np.zeros(len(r)), Status.NON_FINITE, 0
    if not len(r) or r.min() >= 0.0:
        return np.zeros(len(r)), Status.SOLVED, 0
    mass, speed = len(r) / lengths2.sum(), float(np.abs(r).max())
    answer = solve_qp(mass * (Y @ Y.T), r / speed, np.eye(len(r)), np.zeros(len(r)))
    x = np.where(answer.x > ROUNDING * answer.x.max(), answer.x, 0.0)
    return mass * speed * x, answer.status, answer.iterations
