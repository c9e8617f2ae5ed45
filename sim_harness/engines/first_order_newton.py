"""Impulses that obey the law of `first-order`, by Newton's method on a function that is smooth but for kinks.

    F(y) = y − Yᵀ (P(p₀ − (w₀ + Y y) / R̃) − p₀) = 0        y = Lᵀ δv, so that M is the identity; Y = J L⁻ᵀ
P is the law's own map from what is asked for to impulses. From impulses p₀, at which w₀ is reckoned anew, one round of Newton
steps leads to the next: the first finds them, the others take off what is left by rounding, which 1/R makes much of, and lead
to p where R is 0 and R̃ is not (proximal points).
Whatever the law, F has a zero: impulses take no energy but what v̂ lets them, so far from 0 F points outwards (Brouwer).
With Coulomb's law there may be several, and Newton's method may find none; then the convexified law is solved, whose F is the
slope of a strictly convex function and whose line search is exact, again and again, with w_n raised by the μ ‖w_t‖ that it glides
with [Cadoux, De Saxcé], and from each of its answers Newton's method begins anew.
"""

from typing import NamedTuple

import numpy as np

from idyn.compiled import compiled
from idyn.status import NOT_CERTIFIED, SOLVED, Status
from idyn.types import Array
from sim_harness.engines.first_order_law import NORMAL, TANGENT, Table, press, slope, violation

NON_FINITE = Status.NON_FINITE.value

STIFFEST = 1e-10
"""R̃ is R, or this share of the weights where that is more: a Newton step loses as many digits. Rounds make up for it."""

ROUNDS = 30
"""Usual: 2, one more where R is 0."""

ATTEMPTS = 40
"""How often the convexified law is solved at the most. Usual: never; 2 to 5 where friction jams."""

SHORTEST = 2.0**-12
"""Of a Newton step's shares."""

SMALL, ROUNDING, FLAT = 1e-11, 1e-14, 1e-10
"""A Newton step as a share of what F adds up, and of all motion, that ends a round; slope along a line, as a share of that at its
beginning."""


class Ways(NamedTuple):
    """Y item by item: the columns that item i moves are columns[begin[i]:begin[i+1]], their three rows in `rows` (·, 3);
    first: where each row of I + Yᵀ G Y begins (nv)."""

    begin: Array
    columns: Array
    rows: Array
    first: Array


class Rules(NamedTuple):
    """tolerance: largest violation [m/s] of what counts as solved; motion: ‖Lᵀ v‖, whose rounding nobody gets below [√J];
    convex: whether the law is the convexified one; max_steps: of Newton's method at a time."""

    tolerance: float
    motion: float
    convex: bool
    max_steps: int


class Round(NamedTuple):
    """What a round begins with: impulses p₀ and what they ask for, z₀ = p₀ − w₀ / R̃ (N, 3), and R̃ (N, 2)."""

    p: Array
    z: Array
    R: Array


@compiled
def solve(ways: Ways, table: Table, w: Array, y: Array, rules: Rules) -> tuple[Array, int, int, float]:
    """Impulses (N, 3), status, Newton steps, and their violation [m/s].

    w: of no impulses (N, 3); y: where to begin (nv)
    """
    n, convex, steps = len(table.mu), rules.convex, 0
    p, R = np.zeros((n, 3)), np.zeros((n, 2))
    for i in range(n):
        for e in range(2):
            R[i, e] = max(table.R[i, e], STIFFEST * table.weights[i, e])
    error = np.inf
    for k in range(ROUNDS):
        w_now = answer(ways, table, w, p)
        before, error = error, violation(p, w_now, table, convex)
        if error <= rules.tolerance:
            return p, SOLVED, steps, error
        if not error < np.inf:
            return p, NON_FINITE, steps, np.inf
        if k > 2 and error > 0.9 * before:
            break
        start = Round(p, asked(p, w_now, R, table), R)
        dy, found, used = newton(ways, table, start, y if k == 0 else np.zeros_like(y), convex, rules)
        steps += used
        if not found and not convex:
            dy, found, used = by_attempts(ways, table, start, dy, rules)
            steps += used
        p = pressed(ways, table, start, dy, convex)
        if not found:
            break
    error = violation(p, answer(ways, table, w, p), table, convex)
    return p, SOLVED if error <= rules.tolerance else NOT_CERTIFIED, steps, error


@compiled
def answer(ways: Ways, table: Table, w: Array, p: Array) -> Array:
    """w + (Y Yᵀ + R) p (N, 3)"""
    u = speeds(ways, pushed(ways, p))
    for i in range(len(p)):
        for e in range(3):
            u[i, e] += w[i, e] + table.R[i, NORMAL if e == 2 else TANGENT] * p[i, e]
    return u


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
def speeds(ways: Ways, y: Array) -> Array:
    """Y y (N, 3)"""
    u = np.zeros((len(ways.begin) - 1, 3))
    for i in range(len(u)):
        for x in range(ways.begin[i], ways.begin[i + 1]):
            for e in range(3):
                u[i, e] += ways.rows[x, e] * y[ways.columns[x]]
    return u


@compiled
def pushed(ways: Ways, p: Array) -> Array:
    """Yᵀ p (nv)"""
    y = np.zeros(len(ways.first))
    for i in range(len(p)):
        if p[i, 0] != 0.0 or p[i, 1] != 0.0 or p[i, 2] != 0.0:
            for x in range(ways.begin[i], ways.begin[i + 1]):
                for e in range(3):
                    y[ways.columns[x]] += ways.rows[x, e] * p[i, e]
    return y


@compiled
def _asked_at(start: Round, u: Array, i: int, z: Array) -> None:
    """z ← z₀ − u / R̃ of item i at speeds u (N, 3)."""
    for e in range(3):
        r = start.R[i, NORMAL if e == 2 else TANGENT]
        z[e] = start.z[i, e] - (u[i, e] / r if r > 0.0 else 0.0)


@compiled
def impulses(table: Table, start: Round, u: Array, convex: bool) -> Array:
    """P(z₀ − u / R̃) (N, 3)"""
    p, z = np.empty((len(u), 3)), np.empty(3)
    for i in range(len(u)):
        _asked_at(start, u, i, z)
        press(z, table.mu[i], table.tie[i], start.R[i], convex, p[i])
    return p


@compiled
def pressed(ways: Ways, table: Table, start: Round, y: Array, convex: bool) -> Array:
    """The impulses at y (N, 3)."""
    return impulses(table, start, speeds(ways, y), convex)


@compiled
def rest(ways: Ways, table: Table, start: Round, y: Array, convex: bool) -> tuple[Array, Array]:
    """F(y) (nv) and Y y (N, 3)"""
    u = speeds(ways, y)
    return y - pushed(ways, impulses(table, start, u, convex) - start.p), u


@compiled
def newton(ways: Ways, table: Table, start: Round, y: Array, convex: bool, rules: Rules) -> tuple[Array, bool, int]:
    """From y (nv): a zero of F, or the last that came nearer; whether it is one; steps."""
    F, u = rest(ways, table, start, y, convex)
    size = np.sqrt(np.dot(F, F))
    for step in range(rules.max_steps):
        if not size < np.inf:
            return y, False, step
        way = newton_way(ways, table, start, u, F, convex)
        length = np.sqrt(np.dot(way, way))
        little = SMALL * (np.sqrt(np.dot(y, y)) + np.sqrt(np.dot(F - y, F - y))) + ROUNDING * rules.motion
        if length <= little:
            return y + way, True, step + 1
        along = speeds(ways, way)
        share = exact_share(table, start, u, along, np.dot(y, way), np.dot(way, way)) if convex else 1.0
        while True:
            there = y + share * way
            F_there, u_there = rest(ways, table, start, there, convex)
            size_there = np.sqrt(np.dot(F_there, F_there))
            if convex or size_there < (1.0 - 1e-4 * share) * size:
                break
            share *= 0.5
            if share < SHORTEST:
                return y, length <= 1e3 * little, step
        if convex and share == 0.0:
            return y, True, step
        y, F, u, size = there, F_there, u_there, size_there
    return y, False, rules.max_steps


@compiled
def exact_share(table: Table, start: Round, u: Array, along: Array, first: float, second: float) -> float:
    """Where along a line, at speeds u + α along (N, 3), the convexified law's cost is least: its slope is
    first + α second − along · (P − p₀), which grows; by bisection and regula falsi (Illinois)."""
    low, high, share = 0.0, np.inf, 1.0
    at_low = _slope_along(table, start, u, along, 0.0, first)
    at_high, flat = 0.0, FLAT * abs(at_low)
    if not at_low < 0.0:
        return 0.0
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
    change = impulses(table, start, u, True) - start.p
    return first + more - np.sum(along * change)


@compiled
def newton_way(ways: Ways, table: Table, start: Round, u: Array, F: Array, convex: bool) -> Array:
    """−(I + Yᵀ G Y)⁻¹ F (nv), by factors within the matrix's profile; no pivots, as its diagonal is."""
    nv = len(F)
    lower, upper = np.zeros((nv, nv)), np.zeros((nv, nv))  # the latter transposed
    for d in range(nv):
        lower[d, d] = upper[d, d] = 1.0
    z, G, left, right = np.empty(3), np.empty((3, 3)), np.empty(3), np.empty(3)
    for i in range(len(table.mu)):
        if start.R[i, NORMAL] == 0.0:
            continue
        _asked_at(start, u, i, z)
        if slope(z, table.mu[i], table.tie[i], start.R[i], convex, G) == 0:
            continue
        plain = table.mu[i] == 0.0 or table.tie[i]
        for x in range(ways.begin[i], ways.begin[i + 1]):
            row, a = ways.columns[x], ways.rows[x]
            for e in range(3):
                left[e] = a[0] * G[0, e] + a[1] * G[1, e] + a[2] * G[2, e]
                right[e] = G[e, 0] * a[0] + G[e, 1] * a[1] + G[e, 2] * a[2]
            for k in range(ways.begin[i], x + 1):
                column, c = ways.columns[k], ways.rows[k]
                if plain:
                    both = left[2] * c[2]
                    lower[row, column] += both
                    upper[row, column] += both
                else:
                    lower[row, column] += left[0] * c[0] + left[1] * c[1] + left[2] * c[2]
                    upper[row, column] += right[0] * c[0] + right[1] * c[1] + right[2] * c[2]
    way = -F
    eliminate(lower, upper, ways.first, way)
    return way


@compiled
def eliminate(lower: Array, upper: Array, first: Array, x: Array) -> None:
    """x ← A⁻¹ x with A = lower triangle of `lower` and, transposed, of `upper`, which become its factors; in place."""
    n = len(x)
    for i in range(n):
        for j in range(first[i], i):
            s, t = lower[i, j], upper[i, j]
            for k in range(max(first[i], first[j]), j):
                s -= lower[i, k] * upper[j, k]
                t -= lower[j, k] * upper[i, k]
            lower[i, j], upper[i, j] = s / upper[j, j], t
            x[i] -= lower[i, j] * x[j]
        s = upper[i, i]
        for k in range(first[i], i):
            s -= lower[i, k] * upper[i, k]
        upper[i, i] = s
    for i in range(n - 1, -1, -1):
        x[i] /= upper[i, i]
        for k in range(first[i], i):
            x[k] -= upper[i, k] * x[i]


@compiled
def by_attempts(ways: Ways, table: Table, start: Round, y: Array, rules: Rules) -> tuple[Array, bool, int]:
    """As `newton`, for Coulomb's law, by way of the convexified one; not found: at its own answer, where bodies glide."""
    steps, glide = 0, np.zeros(len(table.mu))
    safe = y
    for attempt in range(ATTEMPTS):
        raised = start.z.copy()
        for i in range(len(glide)):
            if start.R[i, NORMAL] > 0.0:
                raised[i, 2] -= glide[i] / start.R[i, NORMAL]
        y, _, used = newton(ways, table, Round(start.p, raised, start.R), y, True, rules)
        steps += used
        if attempt == 0:
            safe = y
        found_y, found, used = newton(ways, table, start, y, False, rules)
        steps += used
        if found:
            return found_y, True, steps
        u = speeds(ways, y)
        p = impulses(table, Round(start.p, raised, start.R), u, True)
        for i in range(len(glide)):
            R, mu = start.R[i, TANGENT], table.mu[i]
            if R > 0.0 and 0.0 < mu < np.inf and not table.tie[i]:
                s, t = R * (p[i, 0] - start.z[i, 0]) + u[i, 0], R * (p[i, 1] - start.z[i, 1]) + u[i, 1]
                glide[i] = mu * np.sqrt(s * s + t * t)
    return safe, False, steps
