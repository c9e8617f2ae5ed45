"""Resolution of tasks by strict levels: lexicographic least squares under linear limits.

Level by level, min ‖A x − b‖² subject to lower ≤ G x ≤ upper and to A_j x = A_j x_j for all levels j before. If no x meets the
limits, they are first relaxed by the smallest sum of squares.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import MATRIX, REAL, VECTOR
from idyn.jit.entry import Output, entry_point
from idyn.solvers.qp import solve_qp
from idyn.solvers.rows import solve_and_span
from idyn.types import Array

FEASIBLE = 1e-9
"""Violation of a limit that counts as zero, relative to the larger of 1 and the limit."""


class Equations(NamedTuple):
    """One level: A x ≈ b, with rows multiplied by the square roots of their weights."""

    A: Array
    b: Array


class Bounds(NamedTuple):
    """lower ≤ G x ≤ upper; ±inf: none."""

    G: Array
    lower: Array
    upper: Array


class Resolution(NamedTuple):
    """x: the solution; active: for each level, the rows of G whose limit prevents a smaller error of this level; relaxed: rows
    of G that no x can meet together"""

    x: Array
    active: tuple[Array, ...]
    relaxed: Array


NO_ROWS = np.zeros(0, np.int64)


def resolve(levels: Sequence[Equations], bounds: Bounds, size: int) -> Resolution:
    """Return the lexicographic solution for x of this size."""
    x, Z, active = np.zeros(size), np.eye(size), []
    bounds, relaxed = _attainable(bounds, size)
    room = FEASIBLE * _scale(bounds)
    for A, b in levels:
        if not Z.shape[1]:
            active.append(NO_ROWS)
            continue
        scale, reduced = float(np.abs(A).max(initial=0.0)), A @ Z
        step, basis = solved(reduced, b - A @ x, scale)
        binding = NO_ROWS
        at = bounds.G @ x
        moved = at + bounds.G @ (Z @ step)
        if (moved < bounds.lower - room).any() or (moved > bounds.upper + room).any():
            shifted = Bounds(bounds.G @ Z, bounds.lower - at, bounds.upper - at)
            step, binding = _limited(reduced, b - A @ x, shifted, scale, room)
        active.append(binding)
        x, Z = x + Z @ step, Z @ basis
    return Resolution(x, tuple(active), relaxed)


def _attainable(bounds: Bounds, size: int) -> tuple[Bounds, Array]:
    """Return bounds that some x meets: widened by the smallest sum of squares where necessary; and the widened rows."""
    G, lower, upper = bounds
    room = FEASIBLE * _scale(bounds)
    if not len(G) or _inside(bounds, np.zeros(size), room):
        return bounds, NO_ROWS
    scale = 1.0 / np.maximum(np.sqrt((G * G).sum(axis=1)), 1e-12)
    scaled = Bounds(G * scale[:, None], lower * scale, upper * scale)
    solution = solve_qp(np.eye(size), np.zeros(size), *_finite(scaled))
    if solution.status.ok and _inside(bounds, solution.x, room):
        return bounds, NO_ROWS
    # min ‖s‖² + ε‖x‖²  subject to  lower ≤ G x + s ≤ upper
    k = len(G)
    H = np.diag(np.concatenate([np.full(size, 1e-8), np.ones(k)]))
    wide = Bounds(np.hstack([scaled.G, np.eye(k)]), scaled.lower, scaled.upper)
    solution = solve_qp(H, np.zeros(size + k), *_finite(wide))
    reached = G @ (solution.x[:size] if solution.status.ok else np.zeros(size))
    missed = np.maximum(lower - reached, reached - upper)
    slack = 1e-7 * np.maximum(1.0, np.abs(reached))
    return Bounds(G, np.minimum(lower, reached - slack), np.maximum(upper, reached + slack)), np.flatnonzero(missed > room)


def _limited(A: Array, b: Array, bounds: Bounds, scale: float, room: Array) -> tuple[Array, Array]:
    """Return the z that minimises ‖A z − b‖² within the bounds, and the rows of the bounds that prevent a smaller error.

    scale: size of the entries of A before the levels above were held; room: violation of each bound that counts as zero
    """
    size = max(scale, 1e-12)
    H = A.T @ A / size**2 + 1e-9 * np.eye(A.shape[1])
    solution = solve_qp(H, -A.T @ b / size**2, *_finite(bounds))
    if not solution.status.ok or solution.multipliers is None:
        return np.zeros(A.shape[1]), NO_ROWS
    binding = np.flatnonzero(np.abs(solution.multipliers) > 1e-9)
    z = _on_face(A, b, bounds, binding, solution.multipliers, scale)
    if not _inside(bounds, z, room):
        z = solution.x
    gradient = np.linalg.norm(A.T @ (A @ z - b))
    rows = bounds.G[binding]
    hinders = np.abs(solution.multipliers[binding]) * np.sqrt((rows * rows).sum(axis=1)) * size**2
    return z, binding[hinders > 1e-6 * gradient] if gradient > 1e-9 * size else NO_ROWS


def _on_face(A: Array, b: Array, bounds: Bounds, binding: Array, multipliers: Array, scale: float) -> Array:
    """Return the minimum of ‖A z − b‖² with the binding rows at their bounds."""
    G = bounds.G[binding]
    values = np.where(multipliers[binding] < 0.0, bounds.lower[binding], bounds.upper[binding])
    start, N = solved(G, values, float(np.abs(G).max(initial=0.0)))
    z: Array = start + N @ solved(A @ N, b - A @ start, scale)[0]
    return z


def solved(A: Array, b: Array, scale: float) -> tuple[Array, Array]:
    """Return the least-squares solution of A z = b of least norm, and an orthonormal basis of the null space of A (columns).

    scale: size of entries of A that are not zero
    """
    columns = A.shape[1]
    if not A.size or scale == 0.0:
        return np.zeros(columns), np.eye(columns)
    z, basis = np.empty(columns), np.empty((columns, columns))
    rank = _solve()((np.array(A.T, order="C"), np.array(b)), (z, basis), scale)
    return z, basis[:, : columns - rank]


@cache
def _solve() -> Callable[..., int]:
    return entry_point(solve_and_span, Output(MATRIX, VECTOR), Output(VECTOR, MATRIX), REAL)


def _scale(bounds: Bounds) -> Array:
    lower, upper = (np.where(np.isfinite(each), np.abs(each), 0.0) for each in bounds[1:])
    return np.maximum(np.maximum(lower, upper), 1.0)


def _inside(bounds: Bounds, z: Array, room: Array) -> bool:
    at = bounds.G @ z
    return bool((at >= bounds.lower - room).all() and (at <= bounds.upper + room).all())


def _finite(bounds: Bounds) -> tuple[Array, Array, Array]:
    """Return the bounds with finite numbers, as DAQP expects."""
    return np.ascontiguousarray(bounds.G), np.maximum(bounds.lower, -1e30), np.minimum(bounds.upper, 1e30)
