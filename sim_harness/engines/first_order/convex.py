"""The convexified law of `first-order`: Newton's method on the gradient of a strictly convex function.

    F(y) = y − Yᵀ (P(p₀ − (w₀ + Y y) / R̃) − p₀) = 0        y = Lᵀ δv
P projects onto the friction cone in the metric R̃. Each round of Newton steps starts from impulses p₀, with w₀ evaluated at p₀,
and gives the p₀ of the next round. The first round finds the solution. Further rounds remove rounding errors, which 1/R
amplifies, and are proximal-point steps where R = 0 < R̃. The line search is exact.
"""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.status import NOT_CERTIFIED, SOLVED
from idyn.types import Array
from sim_harness.engines.engine import NON_FINITE
from sim_harness.engines.first_order.law import (
    NORMAL,
    STIFFEST,
    TANGENT,
    Rules,
    ScaledJacobian,
    Table,
    add_product,
    eliminate,
    law_impulse,
    law_velocity,
    slope,
    violation,
)
from sim_harness.engines.sap.cone import APART
from sim_harness.engines.sparse import sparse_pushed, speeds

ROUNDS = 30
"""Largest number of rounds. Typical: 2, or 3 where R is 0."""

SMALL, ROUNDING, FLAT = 1e-11, 1e-14, 1e-10
"""A round ends when a Newton step is below SMALL of the terms of F plus ROUNDING of all motion. The line search ends when the
slope is below FLAT of its initial value."""


class Round(NamedTuple):
    """Start of a round of Newton steps.

    p: impulses p₀ (N, 3)
    z: z₀ = p₀ − w₀ / R̃ (N, 3)
    R: R̃ along tangents and normal (N, 2)
    """

    p: Array
    z: Array
    R: Array


@compiled
def convexified(Y: ScaledJacobian, table: Table, w: Array, y: Array, rules: Rules) -> tuple[Array, int, int, float]:
    """Return impulses (N, 3), status, Newton steps, and the violation [m/s].

    w: velocity w of the law at p = 0 (N, 3)
    y: initial guess (nv)
    """
    n, steps, error = len(table.mu), 0, np.inf
    p, R = np.zeros((n, 3)), np.zeros((n, 2))
    for i in range(n):
        for e in range(2):
            R[i, e] = max(table.R[i, e], STIFFEST * table.weights[i, e])
    # proximal-point iteration: each round starts from the impulses of the last
    for k in range(ROUNDS):
        w_now = law_velocity(Y, table, w, p)
        before, error = error, violation(p, w_now, table, True)
        if error <= rules.tolerance:
            return p, SOLVED, steps, error
        if not error < np.inf:
            return p, NON_FINITE, steps, np.inf
        if k > 2 and error > 0.9 * before:
            break
        start = Round(p, targets(p, w_now, R, table), R)
        dy, used = newton(Y, table, start, y if k == 0 else np.zeros_like(y), rules)
        steps += used
        p = impulses(table, start, speeds(Y, dy))
    return p, NOT_CERTIFIED, steps, error


@compiled
def targets(p: Array, w: Array, R: Array, table: Table) -> Array:
    """Return z = p − w / R̃ (N, 3), 0 for components that move no body."""
    z = np.zeros_like(p)
    for i in range(len(p)):
        for e in range(3):
            r = R[i, NORMAL if e == 2 else TANGENT]
            if r > 0.0 and (e == 2 or table.mu[i] > 0.0):
                z[i, e] = p[i, e] - w[i, e] / r
    return z


@compiled
def _target(start: Round, u: Array, i: int, z: Array) -> None:
    """z ← z₀ − u / R̃ of item i at speeds u (N, 3)."""
    for e in range(3):
        r = start.R[i, NORMAL if e == 2 else TANGENT]
        z[e] = start.z[i, e] - (u[i, e] / r if r > 0.0 else 0.0)


@compiled
def impulses(table: Table, start: Round, u: Array) -> Array:
    """Return P(z₀ − u / R̃) (N, 3)."""
    p, z = np.empty((len(u), 3)), np.empty(3)
    for i in range(len(u)):
        _target(start, u, i, z)
        law_impulse(z, table.mu[i], table.tie[i], start.R[i], True, p[i])
    return p


@compiled
def residual(Y: ScaledJacobian, table: Table, start: Round, y: Array) -> tuple[Array, Array]:
    """Return F(y) (nv) and Y y (N, 3)."""
    u = speeds(Y, y)
    return y - sparse_pushed(Y, impulses(table, start, u) - start.p), u


@compiled
def newton(Y: ScaledJacobian, table: Table, start: Round, y: Array, rules: Rules) -> tuple[Array, int]:
    """Return the zero of F from the initial guess y (nv), or the last iterate after `max_steps`, and the steps."""
    for step in range(rules.max_steps):
        F, u = residual(Y, table, start, y)
        dy = newton_direction(Y, table, start, u, F)
        little = SMALL * (np.sqrt(np.dot(y, y)) + np.sqrt(np.dot(F - y, F - y))) + ROUNDING * rules.motion
        if not np.sqrt(np.dot(dy, dy)) > little:
            return y + dy, step + 1
        share = exact_share(table, start, u, speeds(Y, dy), np.dot(y, dy), np.dot(dy, dy))
        if share == 0.0:
            return y, step + 1
        y = y + share * dy
    return y, rules.max_steps


@compiled
def exact_share(table: Table, start: Round, u: Array, along: Array, first: float, second: float) -> float:
    """Return the α ≥ 0 that minimises the cost of the convexified law on a line with speeds u + α along (N, 3).

    The slope first + α second − along · (P − p₀) increases with α. Its zero is bracketed by doubling, then found by regula
    falsi (Illinois variant) and bisection.

    first, second: first derivative at α = 0 and second derivative of the quadratic part ½ ‖y + α dy‖²
    """
    low, high, share = 0.0, np.inf, 1.0
    at_low = _slope_along(table, start, u, along, 0.0, first)
    at_high, flat = 0.0, FLAT * abs(at_low)
    if not at_low < 0.0:
        return 0.0
    # double α until the slope is > 0, then regula falsi with the slope of the unchanged end halved (Illinois)
    for _ in range(100):
        here = _slope_along(table, start, u + share * along, along, share * second, first)
        if abs(here) <= flat:
            break
        if here < 0.0:
            low, at_low, at_high = share, here, 0.5 * at_high
        else:
            at_low = at_low if high == np.inf else 0.5 * at_low
            high, at_high = share, here
        share = 2.0 * share if high == np.inf else low + (high - low) * at_low / (at_low - at_high)
        if high < np.inf and not low < share < high:
            share = 0.5 * (low + high)
        if high - low <= 1e-15 * high:
            break
    return share


@compiled
def _slope_along(table: Table, start: Round, u: Array, along: Array, more: float, first: float) -> float:
    """Return the slope of the cost along a line of `exact_share`, at its point with speeds u (N, 3).

    along: derivative of the speeds along the line (N, 3)
    more: increase of the slope of the quadratic part from α = 0 to this point
    first: slope of the quadratic part at α = 0
    """
    change = impulses(table, start, u) - start.p
    return first + more - np.sum(along * change)


@compiled
def newton_direction(Y: ScaledJacobian, table: Table, start: Round, u: Array, F: Array) -> Array:
    """Return −(I + Yᵀ G Y)⁻¹ F (nv) by profile factorisation; the matrix is positive definite, so no pivoting is needed."""
    nv = len(F)
    lower, upper = np.zeros((nv, nv)), np.zeros((nv, nv))  # upper triangle stored transposed
    for d in range(nv):
        lower[d, d] = upper[d, d] = 1.0
    z, G = np.empty(3), np.empty((3, 3))
    for i in range(len(table.mu)):
        if start.R[i, NORMAL] == 0.0:
            continue
        _target(start, u, i, z)
        if slope(z, table.mu[i], table.tie[i], start.R[i], G) == APART:
            continue
        add_product(Y, i, G, table.mu[i] == 0.0 or table.tie[i], lower, upper)
    dy = -F
    eliminate(lower, upper, Y.first, dy)
    return dy
