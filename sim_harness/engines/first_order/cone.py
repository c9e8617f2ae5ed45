"""Coulomb's law of `first-order`: Newton's method on the natural map of the impulses, with sweeps of projected Gauss–Seidel.

    p = P(p − w / D)        w = w₀ + (Y Yᵀ + R) p        D: weights
P is that of the law, contact by contact. Its regions at p − w/D make a linear system, in which every one that presses has
w_n = 0, sticks with w_t = 0 or slides with ‖p_t‖ = μ p_n along what is asked for; it is solved in y = Yᵀ p, of size nv, by
(I + Yᵀ G Y) dy = Yᵀ r with dp = r − G Y dy. Where R is less than a share of D it is that share in G, and steps repeat.
Where a step does not come nearer, sweeps are taken instead, twice as many each time; every second time from where it led to, so
that sweeps that go round in a circle leave it.

There always is a solution: what impulses do to the bodies is bounded by what v̂ lets them, so p − (the map) points outwards far
from 0 (Brouwer); there may be several. Where this finds none, the convexified law is solved, again and again, with w_n raised
by the μ ‖w_t‖ that it glides with [De Saxcé, Cadoux], and all begins anew from each of its answers.
"""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.status import NOT_CERTIFIED, SOLVED, Status
from idyn.types import Array
from sim_harness.engines.first_order.convex import convexified
from sim_harness.engines.first_order.law import NORMAL, STEEPEST, TANGENT, Table, press, violation
from sim_harness.engines.first_order.methods import STIFFEST, Rules, Ways, add_product, answer, eliminate
from sim_harness.engines.sparse import pushed, speeds

NON_FINITE = Status.NON_FINITE.value

ATTEMPTS = 10
"""How often the convexified law is solved at the most. Usual: never."""

SWEEPS, MOST_SWEEPS = 8, 500
"""Before the first step and after the first that does not come nearer; of all together."""

NEARER = 0.9
"""A step is taken that leaves less than this share of the violation."""

STEEP = 0.999
"""Largest share of its disc's curvature that what slides is turned by."""


@compiled
def solve(ways: Ways, table: Table, w: Array, y: Array, rules: Rules) -> tuple[Array, int, int, float]:
    """Impulses (N, 3), status, Newton steps, and their violation [m/s]; where no solution is found, those of the convexified
    law, under which bodies glide, or, failing that, what comes nearest.

    w: of no impulses (N, 3); y: where the convexified law is to begin (nv)
    """
    if len(table.mu) > len(ways.first) and not table.mu.any():  # both laws are one, and many contacts are its way's strength
        return convexified(ways, table, w, y, rules)
    p, error, steps = by_newton(ways, table, w, np.zeros((len(table.mu), 3)), rules)
    if error <= rules.tolerance:
        return p, SOLVED, steps, error
    if not error < np.inf:
        return p, NON_FINITE, steps, error
    best, least, raised = p, error, w.copy()
    for attempt in range(ATTEMPTS):
        guess, code, used, _ = convexified(ways, table, raised, y, rules)
        if attempt == 0 and code == SOLVED:
            best, least = guess, 0.0
        p, error, more = by_newton(ways, table, w, guess, rules)
        steps += used + more
        if error <= rules.tolerance:
            return p, SOLVED, steps, error
        if error < least:
            best, least = p, error
        u = answer(ways, table, w, guess)
        for i in range(len(u)):
            if table.mu[i] > 0.0:
                raised[i, 2] = w[i, 2] + min(table.mu[i], STEEPEST) * np.sqrt(u[i, 0] ** 2 + u[i, 1] ** 2)
    return best, NOT_CERTIFIED, steps, violation(best, answer(ways, table, w, best), table, False)


@compiled
def by_newton(ways: Ways, table: Table, w: Array, p: Array, rules: Rules) -> tuple[Array, float, int]:
    """From p (N, 3): the best impulses, their violation [m/s], steps; w: of no impulses (N, 3)."""
    sweeps, done, best = SWEEPS, SWEEPS, p
    p = p.copy()
    sweep(ways, table, w, p, SWEEPS)
    w_now = answer(ways, table, w, p)
    error = violation(p, w_now, table, False)
    least = np.inf
    # Newton's steps where they come nearer, otherwise sweeps, twice as many each time
    for step in range(rules.max_steps + 1):
        if error < least:
            best, least = p.copy(), error
        if not rules.tolerance < error < np.inf or step == rules.max_steps:
            return best, least, step
        there = newton_step(ways, table, p, w_now)
        w_there = answer(ways, table, w, there)
        error_there = violation(there, w_there, table, False)
        if error_there < NEARER * error:
            p, w_now, error = there, w_there, error_there
            continue
        if done > MOST_SWEEPS:
            return best, least, step
        if step % 2 == 1:
            p = there
        sweep(ways, table, w, p, sweeps)
        w_now = answer(ways, table, w, p)
        error = violation(p, w_now, table, False)
        done, sweeps = done + sweeps, 2 * sweeps
    return best, least, rules.max_steps


@compiled
def sweep(ways: Ways, table: Table, w: Array, p: Array, times: int) -> None:
    """p ← after so many sweeps over all contacts: the normal first, then its tangents within their disc."""
    y, z = pushed(ways, p), np.empty(3)
    for _ in range(times):
        for i in range(len(p)):
            normal, tangent = table.weights[i, NORMAL], table.weights[i, TANGENT]
            if normal == 0.0:
                continue
            before = p[i, 2]  # p_n ← max(0, p_n − w_n / D)
            z[2] = before - (w[i, 2] + _speed(ways, y, i, 2) + table.R[i, NORMAL] * before) / normal
            p[i, 2] = z[2] if table.tie[i] else max(z[2], 0.0)
            _add(ways, y, i, 2, p[i, 2] - before)
            if tangent == 0.0:
                continue
            s, t = p[i, 0], p[i, 1]  # p_t ← P(p_t − w_t / D)
            z[0] = s - (w[i, 0] + _speed(ways, y, i, 0) + table.R[i, TANGENT] * s) / tangent
            z[1] = t - (w[i, 1] + _speed(ways, y, i, 1) + table.R[i, TANGENT] * t) / tangent
            z[2] = p[i, 2]
            press(z, table.mu[i], False, table.R[i], False, p[i])
            _add(ways, y, i, 0, p[i, 0] - s)
            _add(ways, y, i, 1, p[i, 1] - t)


@compiled
def _speed(ways: Ways, y: Array, i: int, e: int) -> float:
    u = 0.0
    for x in range(ways.begin[i], ways.begin[i + 1]):
        u += ways.rows[x, e] * y[ways.columns[x]]
    return u


@compiled
def _add(ways: Ways, y: Array, i: int, e: int, change: float) -> None:
    if change != 0.0:
        for x in range(ways.begin[i], ways.begin[i + 1]):
            y[ways.columns[x]] += ways.rows[x, e] * change


@compiled
def newton_step(ways: Ways, table: Table, p: Array, w: Array) -> Array:
    """The impulses (N, 3) at which the regions of p − w/D have what they ask for, each put to its law."""
    n, nv = len(p), len(ways.first)
    G, r = np.zeros((n, 3, 3)), np.zeros((n, 3))
    for i in range(n):
        if table.weights[i, NORMAL] > 0.0:
            linearised(p[i], w[i], table, i, G[i], r[i])
    lower, upper = np.zeros((nv, nv)), np.zeros((nv, nv))  # the latter transposed
    for d in range(nv):
        lower[d, d] = upper[d, d] = 1.0
    for i in range(n):
        add_product(ways, i, G[i], table.mu[i] == 0.0 or table.tie[i], lower, upper)
    dy = pushed(ways, r)
    eliminate(lower, upper, ways.first, dy)
    u, z, there = speeds(ways, dy), np.empty(3), np.empty((n, 3))
    for i in range(n):
        for e in range(3):
            z[e] = p[i, e] + r[i, e] - (G[i, e, 0] * u[i, 0] + G[i, e, 1] * u[i, 1] + G[i, e, 2] * u[i, 2])
        press(z, table.mu[i], table.tie[i], table.R[i], False, there[i])
    return there


@compiled
def linearised(p: Array, w: Array, table: Table, i: int, G: Array, r: Array) -> None:
    """dp = r − G du for one contact, in the region of p − w/D: G (3, 3), r (3)."""
    D_t, D_n, mu = table.weights[i, TANGENT], table.weights[i, NORMAL], table.mu[i]
    R_t, R_n = max(table.R[i, TANGENT], STIFFEST * D_t), max(table.R[i, NORMAL], STIFFEST * D_n)
    z_n = p[2] - w[2] / D_n
    if not table.tie[i] and not z_n > 0.0:
        r[0], r[1], r[2] = -p[0], -p[1], -p[2]
        return
    r[2], G[2, 2] = -w[2] / R_n, 1.0 / R_n  # presses: w_n = 0
    if mu == 0.0 or table.tie[i]:
        return
    z_s, z_t = p[0] - w[0] / D_t, p[1] - w[1] / D_t
    radius = np.sqrt(z_s * z_s + z_t * z_t)
    if mu == np.inf or radius <= mu * z_n:  # sticks: w_t = 0
        r[0], r[1] = -w[0] / R_t, -w[1] / R_t
        G[0, 0] = G[1, 1] = 1.0 / R_t
        return
    # slides: ‖p_t‖ = μ p_n along z_t, which turns with it
    a, b, turn = z_s / radius, z_t / radius, min(mu * z_n / radius, STEEP)
    slack = mu * (p[2] + r[2]) - (a * p[0] + b * p[1])
    share = 1.0 - turn * (1.0 - R_t / D_t)
    across = (a * p[1] - b * p[0]) / share
    r[0], r[1] = slack * a + across * b, slack * b - across * a
    bend = turn / (D_t * share)
    G[0, 0], G[1, 1] = bend * b * b, bend * a * a
    G[0, 1] = G[1, 0] = -bend * a * b
    G[0, 2], G[1, 2] = mu * a / R_n, mu * b / R_n
