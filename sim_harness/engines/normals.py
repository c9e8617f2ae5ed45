"""LCP in the normal impulses after all other variables are eliminated; its matrix is a Gram matrix  [D15 §V].

    0 ≤ z ⟂ w = Y Yᵀ z + r ≥ 0          Y (n, nv)
Three solvers give the same w, compared in [D15 Tables I–III]; z differs when contacts are redundant.
"""

from typing import Literal

import numpy as np

from idyn.jit.compiled import compiled
from idyn.solvers.lemke import lemke, natural_residual
from idyn.solvers.pivoting import dual_active_set, ppm
from idyn.solvers.qp import solve_qp
from idyn.status import NOT_CERTIFIED, SOLVED, STATUSES, Status
from idyn.types import Array
from sim_harness.engines.engine import NON_FINITE
from sim_harness.engines.vectors import SHIFTS, gram

Solver = Literal["ppm", "qp", "lemke"]
"""ppm: modified principal pivoting method [D15 Alg. 1] with systems of size ≤ nv, monotone pivoting rule when it cycles;
qp: active-set method for quadratic programs (DAQP); lemke: Lemke's method."""

GOOD = 1e-8
"""Lemke's solution is accepted without a further shift when |min(z, w)| is below this share of max |r|."""

MOST_PIVOTS = 1000
"""Largest number of pivots per LCP."""

SATISFIED = 1e-12
"""w counts as non-negative when it is above −SATISFIED · max |r|."""


ROUNDING = 1e-12
"""Impulses of a QP below this share of the largest one belong to inactive bounds and are set to zero."""


def normal_impulses(Y: Array, r: Array, lengths2: Array, solver: Solver) -> tuple[Array, Status, int]:
    """Return z (n), status, pivots or iterations; lengths2: squared lengths of the rows of Y before any elimination (n)."""
    if solver == "qp":
        return by_qp(Y, r, lengths2)
    z, status, pivots = by_pivots(Y, r, lengths2, solver == "lemke")
    return z, STATUSES[status], pivots


@compiled
def by_pivots(Y: Array, r: Array, lengths2: Array, by_lemke: bool) -> tuple[Array, int, int]:
    """Solve the LCP by ppm or Lemke's method; return z (n), the number of the status, and pivots."""
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
    """Solve by Lemke's method with increasing shifts of the diagonal of Y Yᵀ; return the best z (n), status and pivots."""
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
    """Solve the LCP as a QP by DAQP; return z (n), status and iterations.

    The QP is scaled to order one, because DAQP's tolerances are absolute.
    """
    if not np.isfinite(r).all():
        return np.zeros(len(r)), Status.NON_FINITE, 0
    if not len(r) or r.min() >= 0.0:
        return np.zeros(len(r)), Status.SOLVED, 0
    mass, speed = len(r) / lengths2.sum(), float(np.abs(r).max())
    answer = solve_qp(mass * (Y @ Y.T), r / speed, np.eye(len(r)), np.zeros(len(r)))
    x = np.where(answer.x > ROUNDING * answer.x.max(), answer.x, 0.0)
    return mass * speed * x, answer.status, answer.iterations
