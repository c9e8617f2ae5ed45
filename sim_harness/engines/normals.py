"""Impulses along the normals alone, once all else is eliminated: an LCP whose matrix is a Gram matrix  [D15 §V].

    0 ≤ z ⟂ w = Y Yᵀ z + r ≥ 0          Y (n, nv)
Three ways to the same w, which [D15 Tables I–III] compare; z differs where contacts are redundant.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np

from idyn.solvers.lemke import lemke
from idyn.solvers.pivoting import dual_active_set, ppm
from idyn.solvers.qp import solve_qp
from idyn.status import STATUSES, Status
from idyn.types import Array

Solver = Literal["ppm", "qp", "lemke"]
"""ppm: the modified Principal Pivoting Method [D15 Alg. 1], nv × nv systems only, the monotone rule where it cycles; qp: an
active-set method for quadratic programs (DAQP); lemke: Lemke's method."""

SHIFTS = (0.0, 1e-12, 1e-10, 1e-8)
"""Shares of the mean diagonal that are added to the matrix for Lemke's method, one after the other, until it gets through."""

SATISFIED = 1e-12
"""w above minus this times max |r| is not negative."""


def normal_impulses(Y: Array, r: Array, lengths2: Array, solver: Solver, max_pivots: int) -> tuple[Array, Status, int]:
    """z (n), status, pivots or iterations. lengths2: of the rows before anything was eliminated from them, squared (n)."""
    if not len(r) or r.min() >= 0.0:
        return np.zeros(len(r)), Status.SOLVED, 0
    if not np.isfinite(r).all():
        return np.zeros(len(r)), Status.NON_FINITE, 0
    return _SOLVERS[solver](Y, r, lengths2, max_pivots)


def _ppm(Y: Array, r: Array, lengths2: Array, max_pivots: int) -> tuple[Array, Status, int]:
    tolerance = SATISFIED * float(np.abs(r).max())
    z, status, pivots, _ = ppm(Y, r, lengths2, np.zeros(len(r), dtype=np.bool_), tolerance, max_pivots)
    if not STATUSES[status].ok:
        z, status, more, _ = dual_active_set(Y, r, lengths2, tolerance, max_pivots)
        pivots += more
    return z, STATUSES[status], pivots


def _qp(Y: Array, r: Array, lengths2: Array, max_pivots: int) -> tuple[Array, Status, int]:
    """In units of mass and speed of order one, as its tolerances are absolute."""
    mass, speed = len(r) / lengths2.sum(), float(np.abs(r).max())
    answer = solve_qp(mass * (Y @ Y.T), r / speed, np.eye(len(r)), np.zeros(len(r)))
    return mass * speed * np.maximum(answer.x, 0.0), answer.status, answer.iterations


def _lemke(Y: Array, r: Array, lengths2: Array, max_pivots: int) -> tuple[Array, Status, int]:
    A, pivots = Y @ Y.T, 0
    for shift in SHIFTS:
        shifted = A + shift * np.trace(A) / len(r) * np.eye(len(r))
        z, status, used, _ = lemke(shifted, r, max_pivots, np.ones(len(r)))
        pivots += used
        if STATUSES[status].ok:
            break
    return z, STATUSES[status], pivots


_SOLVERS: dict[str, Callable[[Array, Array, Array, int], tuple[Array, Status, int]]] = {"ppm": _ppm, "qp": _qp, "lemke": _lemke}
