"""Resolution of tasks by strict levels: lexicographic least squares under linear limits.

Level by level, min ‖A x − b‖² subject to lower ≤ G x ≤ upper and to A_j x = A_j x_j for all levels j before. If no x meets the
limits, they are first relaxed by the smallest sum of squares.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from idyn.solvers.qp import solve_qp
from idyn.types import Array

RANK = 1e-9
"""Singular values of a level up to this share of its largest entry count as zero."""

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


def resolve(levels: Sequence[Equations], bounds: Bounds, size: int) -> Resolution:
    """Return the lexicographic solution for x of this size."""
    x, Z, active = np.zeros(size), np.eye(size), []
    bounds, relaxed = _attainable(levels, bounds, size)
    for A, b in levels:
        scale = float(np.abs(A).max(initial=0.0))
        step, binding = _least_squares(A @ Z, b - A @ x, _shifted(bounds, x, Z), scale)
        active.append(binding)
        x = x + Z @ step
        Z = Z @ factors(A @ Z, scale)[1]
    return Resolution(x, tuple(active), relaxed)


def _attainable(levels: Sequence[Equations], bounds: Bounds, size: int) -> tuple[Bounds, Array]:
    """Return bounds that some x meets: widened by the smallest sum of squares where necessary; and the widened rows."""
    G, lower, upper = bounds
    if not len(G) or _inside(bounds, np.zeros(size)):
        return bounds, np.zeros(0, np.int64)
    A = np.vstack([level.A for level in levels]) if levels else np.zeros((0, size))
    b = np.concatenate([level.b for level in levels]) if levels else np.zeros(0)
    x = factors(A, float(np.abs(A).max(initial=0.0)))[0] @ b
    if _inside(bounds, x):
        return bounds, np.zeros(0, np.int64)
    H = np.eye(size)
    scale = 1.0 / np.maximum(np.linalg.norm(G, axis=1), 1e-12)
    scaled = Bounds(G * scale[:, None], lower * scale, upper * scale)
    solution = solve_qp(H, np.zeros(size), *_finite(scaled))
    if solution.status.ok and _inside(bounds, solution.x):
        return bounds, np.zeros(0, np.int64)
    # min ‖s‖² + ε‖x‖²  subject to  lower ≤ G x + s ≤ upper
    k = len(G)
    H = np.diag(np.concatenate([np.full(size, 1e-8), np.ones(k)]))
    wide = Bounds(np.hstack([scaled.G, np.eye(k)]), scaled.lower, scaled.upper)
    solution = solve_qp(H, np.zeros(size + k), *_finite(wide))
    reached = G @ (solution.x[:size] if solution.status.ok else x)
    missed = np.maximum(lower - reached, reached - upper)
    relaxed = np.flatnonzero(missed > FEASIBLE * _scale(bounds))
    room = 1e-7 * np.maximum(1.0, np.abs(reached))
    return Bounds(G, np.minimum(lower, reached - room), np.maximum(upper, reached + room)), relaxed


def _least_squares(A: Array, b: Array, bounds: Bounds, scale: float) -> tuple[Array, Array]:
    """Return the z that minimises ‖A z − b‖² within the bounds, and the rows of the bounds that prevent a smaller error.

    scale: size of the entries of A before the levels above were held
    """
    none = np.zeros(0, np.int64)
    z = factors(A, scale)[0] @ b
    if not len(bounds.G) or not z.size or _inside(bounds, z):
        return z, none
    size = max(scale, 1e-12)
    H = A.T @ A / size**2 + 1e-9 * np.eye(len(z))
    solution = solve_qp(H, -A.T @ b / size**2, *_finite(bounds))
    if not solution.status.ok or solution.multipliers is None:
        return np.zeros(len(z)), none
    binding = np.flatnonzero(np.abs(solution.multipliers) > 1e-9)
    exact = _on_face(A, b, bounds, binding, solution.multipliers, scale)
    z = exact if exact is not None else solution.x
    gradient = np.linalg.norm(A.T @ (A @ z - b))
    hinders = np.abs(solution.multipliers[binding]) * np.linalg.norm(bounds.G[binding], axis=1) * size**2
    return z, binding[hinders > 1e-6 * gradient] if gradient > 1e-9 * size else none


def _on_face(A: Array, b: Array, bounds: Bounds, binding: Array, multipliers: Array, scale: float) -> Array | None:
    """Return the minimum of ‖A z − b‖² with the binding rows at their bounds, if it is within all bounds."""
    G = bounds.G[binding]
    values = np.where(multipliers[binding] < 0.0, bounds.lower[binding], bounds.upper[binding])
    inverse, N = factors(G, float(np.abs(G).max(initial=0.0)))
    start = inverse @ values
    z: Array = start + N @ (factors(A @ N, scale)[0] @ (b - A @ start))
    return z if _inside(bounds, z) else None


def factors(A: Array, scale: float) -> tuple[Array, Array]:
    """Return A⁺ and an orthonormal basis of the null space of A (columns). scale: size of entries that are not zero"""
    if not A.size or scale == 0.0:
        return np.zeros(A.T.shape), np.eye(A.shape[1])
    U, s, Vt = np.linalg.svd(A)
    rank = int((s > RANK * scale).sum())
    inverse: Array = Vt[:rank].T @ (U[:, :rank].T / s[:rank, None])
    return inverse, Vt[rank:].T


def _shifted(bounds: Bounds, x: Array, Z: Array) -> Bounds:
    """Return the bounds for z with x + Z z."""
    at = bounds.G @ x
    return Bounds(bounds.G @ Z, bounds.lower - at, bounds.upper - at)


def _scale(bounds: Bounds) -> Array:
    finite = [np.where(np.isfinite(each), np.abs(each), 0.0) for each in bounds[1:]]
    return np.maximum(1.0, np.maximum(*finite))


def _inside(bounds: Bounds, z: Array) -> bool:
    at, room = bounds.G @ z, FEASIBLE * _scale(bounds)
    return bool((at >= bounds.lower - room).all() and (at <= bounds.upper + room).all())


def _finite(bounds: Bounds) -> tuple[Array, Array, Array]:
    """Return the bounds with finite numbers, as DAQP expects."""
    return np.ascontiguousarray(bounds.G), np.maximum(bounds.lower, -1e30), np.minimum(bounds.upper, 1e30)
