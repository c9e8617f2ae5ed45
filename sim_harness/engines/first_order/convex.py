"""The convexified law of `first-order`: Newton's method on the slope of a strictly convex function.

    F(y) = y − Yᵀ (P(p₀ − (w₀ + Y y) / R̃) − p₀) = 0        y = Lᵀ δv
P is the law's map from what is asked for to impulses, the nearest point of the cone in the metric R̃. From impulses p₀, at which
w₀ is reckoned anew, one round of Newton steps leads to the next: the first finds them, the others take off what is left by
rounding, which 1/R makes much of, and lead to p where R is 0 and R̃ is not (proximal points). The line search is exact.
"""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.status import NOT_CERTIFIED, SOLVED, Status
from idyn.types import Array
from sim_harness.engines.first_order.law import NORMAL, TANGENT, Table, press, slope, violation
from sim_harness.engines.first_order.methods import STIFFEST, Rules, Ways, add_product, answer, eliminate
from sim_harness.engines.sap.cone import APART
from sim_harness.engines.sparse import pushed, speeds

NON_FINITE = Status.NON_FINITE.value

ROUNDS = 30
"""Usual: 2, one more where R is 0."""

SMALL, ROUNDING, FLAT = 1e-11, 1e-14, 1e-10
"""A Newton step that ends a round, as a share of what F adds up, and of all motion; slope along a line, as a share of that
at its beginning."""


class Round(NamedTuple):
    """What a round begins with: impulses p₀ and what they ask for, z₀ = p₀ − w₀ / R̃ (N, 3), and R̃ (N, 2)."""

    p: Array
    z: Array
    R: Array


@compiled
def convexified(ways: Ways, table: Table, w: Array, y: Array, rules: Rules) -> tuple[Array, int, int, float]:
    """Impulses (N, 3), status, Newton steps, and their violation [m/s].

    w: of no impulses (N, 3); y: where to begin (nv)
    """
    n, steps, error = len(table.mu), 0, np.inf
    p, R = np.zeros((n, 3)), np.zeros((n, 2))
    for i in range(n):
        for e in range(2):
            R[i, e] = max(table.R[i, e], STIFFEST * table.weights[i, e])
    # proximal points: each round from the impulses of the last
    for k in range(ROUNDS):
        w_now = answer(ways, table, w, p)
        before, error = error, violation(p, w_now, table, True)
        if error <= rules.tolerance:
            return p, SOLVED, steps, error
        if not error < np.inf:
            return p, NON_FINITE, steps, np.inf
        if k > 2 and error > 0.9 * before:
            break
        start = Round(p, asked(p, w_now, R, table), R)
        dy, used = newton(ways, table, start, y if k == 0 else np.zeros_like(y), rules)
        steps += used
        p = impulses(table, start, speeds(ways, dy))
    return p, NOT_CERTIFIED, steps, error


@compiled
def asked(p: Array, w: Array, R: Array, table: Table) -> Array:
    """p − w / R̃ (N, 3); nothing where nothing moves."""
    z = np.zeros_like(p)
    for i in range(len(p)):
        for e in range(3):
            r = R[i, NORMAL if e == 2 else TANGENT]
            if r > 0.0 and (e == 2 or table.mu[i] > 0.0):
                z[i, e] = p[i, e] - w[i, e] / r
    return z


@compiled
def _asked_at(start: Round, u: Array, i: int, z: Array) -> None:
    """z ← z₀ − u / R̃ of item i at speeds u (N, 3)."""
    for e in range(3):
        r = start.R[i, NORMAL if e == 2 else TANGENT]
        z[e] = start.z[i, e] - (u[i, e] / r if r > 0.0 else 0.0)


@compiled
def impulses(table: Table, start: Round, u: Array) -> Array:
    """P(z₀ − u / R̃) (N, 3)"""
    p, z = np.empty((len(u), 3)), np.empty(3)
    for i in range(len(u)):
        _asked_at(start, u, i, z)
        press(z, table.mu[i], table.tie[i], start.R[i], True, p[i])
    return p


@compiled
def rest(ways: Ways, table: Table, start: Round, y: Array) -> tuple[Array, Array]:
    """F(y) (nv) and Y y (N, 3)"""
    u = speeds(ways, y)
    return y - pushed(ways, impulses(table, start, u) - start.p), u


@compiled
def newton(ways: Ways, table: Table, start: Round, y: Array, rules: Rules) -> tuple[Array, int]:
    """From y (nv): the zero of F, or where the allowance ends; steps."""
    for step in range(rules.max_steps):
        F, u = rest(ways, table, start, y)
        way = newton_way(ways, table, start, u, F)
        little = SMALL * (np.sqrt(np.dot(y, y)) + np.sqrt(np.dot(F - y, F - y))) + ROUNDING * rules.motion
        if not np.sqrt(np.dot(way, way)) > little:
            return y + way, step + 1
        share = exact_share(table, start, u, speeds(ways, way), np.dot(y, way), np.dot(way, way))
        if share == 0.0:
            return y, step + 1
        y = y + share * way
    return y, rules.max_steps


@compiled
def exact_share(table: Table, start: Round, u: Array, along: Array, first: float, second: float) -> float:
    """Where along a line, at speeds u + α along (N, 3), the convexified law's cost is least: its slope is
    first + α second − along · (P − p₀), which grows; by bisection and regula falsi (Illinois)."""
    low, high, share = 0.0, np.inf, 1.0
    at_low = _slope_along(table, start, u, along, 0.0, first)
    at_high, flat = 0.0, FLAT * abs(at_low)
    if not at_low < 0.0:
        return 0.0
    # double the share until the slope is > 0, then regula falsi with the stale end halved (Illinois)
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
    change = impulses(table, start, u) - start.p
    return first + more - np.sum(along * change)


@compiled
def newton_way(ways: Ways, table: Table, start: Round, u: Array, F: Array) -> Array:
    """−(I + Yᵀ G Y)⁻¹ F (nv), by factors within the matrix's profile; no pivots, as its diagonal is."""
    nv = len(F)
    lower, upper = np.zeros((nv, nv)), np.zeros((nv, nv))  # the latter transposed
    for d in range(nv):
        lower[d, d] = upper[d, d] = 1.0
    z, G = np.empty(3), np.empty((3, 3))
    for i in range(len(table.mu)):
        if start.R[i, NORMAL] == 0.0:
            continue
        _asked_at(start, u, i, z)
        if slope(z, table.mu[i], table.tie[i], start.R[i], G) == APART:
            continue
        add_product(ways, i, G, table.mu[i] == 0.0 or table.tie[i], lower, upper)
    way = -F
    eliminate(lower, upper, ways.first, way)
    return way
