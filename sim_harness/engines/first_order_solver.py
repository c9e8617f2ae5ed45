"""Coulomb's law of `first-order`: Newton's method on the natural map of the impulses, with sweeps of projected Gauss–Seidel.

    p = P(p − w / D)        w = w₀ + (Y Yᵀ + R) p        D: weights, the diagonal of Y Yᵀ + R
P is the projection of the contact law, contact by contact. Its regions at p − w/D define a linear system, solved in y = Yᵀ p:
(I + Yᵀ G Y) dy = Yᵀ r with dp = r − G Y dy. If a step does not reduce the violation, sweeps follow, twice as many each time,
every second time from the rejected step, which breaks cycles. If Newton's method fails, the convexified law is solved
repeatedly with w_n raised by μ ‖w_t‖ [De Saxcé, Cadoux], so that bodies do not glide: new starts of Newton's method.

The convexified law: Newton's method on the gradient of a strictly convex function, with an exact line search.
    F(y) = y − Yᵀ (P(p₀ − (w₀ + Y y) / R̃) − p₀) = 0        y = Lᵀ δv
P projects onto the friction cone in the metric R̃. Each round starts from impulses p₀, with w₀ evaluated at p₀. The first finds
the solution; further ones remove rounding errors, which 1/R amplifies, and are proximal-point steps where R = 0 < R̃.
"""

from typing import NamedTuple

import numpy as np

from idyn.library.kernels import compiled, entry
from idyn.library.records import Matrix, Vector
from idyn.status import NOT_CERTIFIED, SOLVED
from idyn.types import Array
from sim_harness.engines.engine import NON_FINITE
from sim_harness.engines.first_order_law import (
    NORMAL,
    STEEPEST,
    STIFFEST,
    TANGENT,
    Rules,
    Table,
    add_product,
    eliminate,
    law_impulse,
    law_velocity,
    slope,
    violation,
)
from sim_harness.engines.linalg import Sparse, dot, sparse_pushed, speeds
from sim_harness.engines.sap_newton import APART

ROUNDS = 30  # largest number of rounds. Typical: 2, or 3 where R is 0

SMALL, ROUNDING, FLAT = 1e-11, 1e-14, 1e-10
"""A round ends when a Newton step is below SMALL of the terms of F plus ROUNDING of all motion. The line search ends when the
slope is below FLAT of its initial value."""


class Round(NamedTuple):
    """Start of a round of Newton steps."""

    p: Array  # impulses p₀ (N, 3)
    z: Array  # z₀ = p₀ − w₀ / R̃ (N, 3)
    R: Array  # R̃ along tangents and normal (N, 2)


@entry(Sparse, Table, Matrix, Vector, Rules)
def convexified(Y: Sparse, table: Table, w: Array, y: Array, rules: Rules) -> tuple[Array, int, int, float]:
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
def residual(Y: Sparse, table: Table, start: Round, y: Array) -> tuple[Array, Array]:
    """Return F(y) (nv) and Y y (N, 3)."""
    u = speeds(Y, y)
    return y - sparse_pushed(Y, impulses(table, start, u) - start.p), u


@compiled
def newton(Y: Sparse, table: Table, start: Round, y: Array, rules: Rules) -> tuple[Array, int]:
    """Return the zero of F from the initial guess y (nv), or the last iterate after `max_steps`, and the steps."""
    for step in range(rules.max_steps):
        F, u = residual(Y, table, start, y)
        dy = newton_direction(Y, table, start, u, F)
        push, change2 = F - y, dot(0.0, dy, dy)
        little = SMALL * (np.sqrt(dot(0.0, y, y)) + np.sqrt(dot(0.0, push, push))) + ROUNDING * rules.motion
        if not np.sqrt(change2) > little:
            return y + dy, step + 1
        share = exact_share(table, start, u, speeds(Y, dy), dot(0.0, y, dy), change2)
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
def newton_direction(Y: Sparse, table: Table, start: Round, u: Array, F: Array) -> Array:
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


ATTEMPTS = 10  # largest number of solves of the convexified law. Typical: 0

SWEEPS, MOST_SWEEPS = 8, 500
"""Number of sweeps before the first Newton step and after the first rejected one; largest total number."""

NEARER = 0.9  # A Newton step is accepted when it reduces the violation below this share
STEEP = 0.999  # upper limit of μ p_n / ‖z_t‖ in the derivative of sliding, which would be singular at 1


@entry(Sparse, Table, Matrix, Vector, Rules)
def solve(Y: Sparse, table: Table, w: Array, y: Array, rules: Rules) -> tuple[Array, int, int, float]:
    """Return impulses (N, 3), status, Newton steps, and the violation [m/s].

    When no solution of Coulomb's law is found, the impulses are a solution of the convexified law, under which sliding bodies
    glide above the ground. When that law fails as well, they are the iterate with the smallest violation.

    w: velocity w of the law at p = 0 (N, 3)
    y: initial guess for the convexified law (nv)
    """
    # without friction both laws are equal, and the convex method is faster for many contacts
    if len(table.mu) > len(Y.first) and not table.mu.any():
        return convexified(Y, table, w, y, rules)
    p, error, steps = by_newton(Y, table, w, np.zeros((len(table.mu), 3)), rules)
    if error <= rules.tolerance:
        return p, SOLVED, steps, error
    if not error < np.inf:
        return p, NON_FINITE, steps, error
    best, least, raised = p, error, w.copy()
    for attempt in range(ATTEMPTS):
        guess, code, used, _ = convexified(Y, table, raised, y, rules)
        if attempt == 0 and code == SOLVED:
            best, least = guess, 0.0
        p, error, more = by_newton(Y, table, w, guess, rules)
        steps += used + more
        if error <= rules.tolerance:
            return p, SOLVED, steps, error
        if error < least:
            best, least = p, error
        u = law_velocity(Y, table, w, guess)
        for i in range(len(u)):  # w_n + μ ‖w_t‖ [De Saxcé]
            if table.mu[i] > 0.0:
                raised[i, 2] = w[i, 2] + min(table.mu[i], STEEPEST) * np.sqrt(u[i, 0] ** 2 + u[i, 1] ** 2)
    return best, NOT_CERTIFIED, steps, violation(best, law_velocity(Y, table, w, best), table, False)


@compiled
def by_newton(Y: Sparse, table: Table, w: Array, p: Array, rules: Rules) -> tuple[Array, float, int]:
    """Return the best impulses found (N, 3), their violation [m/s], and the Newton steps.

    w: velocity w of the law at p = 0 (N, 3)
    p: initial guess (N, 3)
    """
    sweeps, done, best = SWEEPS, SWEEPS, p
    p = p.copy()
    sweep(Y, table, w, p, SWEEPS)
    w_now = law_velocity(Y, table, w, p)
    error = violation(p, w_now, table, False)
    least = np.inf
    # Newton steps that reduce the violation, otherwise sweeps, twice as many each time
    for step in range(rules.max_steps + 1):
        if error < least:
            best, least = p.copy(), error
        if not rules.tolerance < error < np.inf or step == rules.max_steps:
            return best, least, step
        there = newton_step(Y, table, p, w_now)
        w_there = law_velocity(Y, table, w, there)
        error_there = violation(there, w_there, table, False)
        if error_there < NEARER * error:
            p, w_now, error = there, w_there, error_there
            continue
        if done > MOST_SWEEPS:
            return best, least, step
        if step % 2 == 1:
            p = there
        sweep(Y, table, w, p, sweeps)
        w_now = law_velocity(Y, table, w, p)
        error = violation(p, w_now, table, False)
        done, sweeps = done + sweeps, 2 * sweeps
    return best, least, rules.max_steps


@compiled
def sweep(Y: Sparse, table: Table, w: Array, p: Array, times: int) -> None:
    """Update p in place by projected Gauss–Seidel sweeps; in each contact first the normal, then the tangents in their disc."""
    y, z = sparse_pushed(Y, p), np.empty(3)
    for _ in range(times):
        for i in range(len(p)):
            normal, tangent = table.weights[i, NORMAL], table.weights[i, TANGENT]
            if normal == 0.0:
                continue
            before = p[i, 2]  # p_n ← max(0, p_n − w_n / D)
            z[2] = before - (w[i, 2] + _speed(Y, y, i, 2) + table.R[i, NORMAL] * before) / normal
            p[i, 2] = z[2] if table.tie[i] else max(z[2], 0.0)
            _add(Y, y, i, 2, p[i, 2] - before)
            if tangent == 0.0:
                continue
            s, t = p[i, 0], p[i, 1]  # p_t ← P(p_t − w_t / D)
            z[0] = s - (w[i, 0] + _speed(Y, y, i, 0) + table.R[i, TANGENT] * s) / tangent
            z[1] = t - (w[i, 1] + _speed(Y, y, i, 1) + table.R[i, TANGENT] * t) / tangent
            z[2] = p[i, 2]
            law_impulse(z, table.mu[i], False, table.R[i], False, p[i])
            _add(Y, y, i, 0, p[i, 0] - s)
            _add(Y, y, i, 1, p[i, 1] - t)


@compiled
def _speed(Y: Sparse, y: Array, i: int, e: int) -> float:
    """Return the component e of the speeds Y y of item i, a contact, stop or tie."""
    u = 0.0
    for x in range(Y.begin[i], Y.begin[i + 1]):
        u += Y.rows[x, e] * y[Y.columns[x]]
    return u


@compiled
def _add(Y: Sparse, y: Array, i: int, e: int, change: float) -> None:
    """y ← y + Yᵀ Δp for the change of p_e of item i."""
    if change != 0.0:
        for x in range(Y.begin[i], Y.begin[i + 1]):
            y[Y.columns[x]] += Y.rows[x, e] * change


@compiled
def newton_step(Y: Sparse, table: Table, p: Array, w: Array) -> Array:
    """Return the impulses (N, 3) that solve the linear system of the regions at p − w/D, projected onto the contact law."""
    n, nv = len(p), len(Y.first)
    G, r = np.zeros((n, 3, 3)), np.zeros((n, 3))
    for i in range(n):
        if table.weights[i, NORMAL] > 0.0:
            linearised(p[i], w[i], table, i, G[i], r[i])
    # (I + Yᵀ G Y) dy = Yᵀ r, then dp = r − G Y dy
    lower, upper = np.zeros((nv, nv)), np.zeros((nv, nv))  # upper triangle stored transposed
    for d in range(nv):
        lower[d, d] = upper[d, d] = 1.0
    for i in range(n):
        add_product(Y, i, G[i], table.mu[i] == 0.0 or table.tie[i], lower, upper)
    dy = sparse_pushed(Y, r)
    eliminate(lower, upper, Y.first, dy)
    u, z, there = speeds(Y, dy), np.empty(3), np.empty((n, 3))
    for i in range(n):
        for e in range(3):
            z[e] = p[i, e] + r[i, e] - (G[i, e, 0] * u[i, 0] + G[i, e, 1] * u[i, 1] + G[i, e, 2] * u[i, 2])
        law_impulse(z, table.mu[i], table.tie[i], table.R[i], False, there[i])
    return there


@compiled
def linearised(p: Array, w: Array, table: Table, i: int, G: Array, r: Array) -> None:
    """Linearise the law of contact i in the region of p − w/D: set G (3, 3) and r (3) of dp = r − G du."""
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
    # slides: p_t = μ p_n z_t / ‖z_t‖, where the direction of z_t depends on p and w
    a, b, turn = z_s / radius, z_t / radius, min(mu * z_n / radius, STEEP)
    slack = mu * (p[2] + r[2]) - (a * p[0] + b * p[1])
    share = 1.0 - turn * (1.0 - R_t / D_t)
    across = (a * p[1] - b * p[0]) / share
    r[0], r[1] = slack * a + across * b, slack * b - across * a
    bend = turn / (D_t * share)
    G[0, 0], G[1, 1] = bend * b * b, bend * a * a
    G[0, 1] = G[1, 0] = -bend * a * b
    G[0, 2], G[1, 2] = mu * a / R_n, mu * b / R_n
