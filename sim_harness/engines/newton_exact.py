"""Residual of Coulomb's law (natural map), and Newton steps with its exact Jacobian.

The natural map as velocities, with a and the weight w of each row from `newton_rows`:
    tie       a                                            stop or normal    min(a, w p)
    tangents  w p_T − P(w p_T − v_T), P onto the disc of radius μ max(0, w p_N − a) w_T / w_N
The Jacobian is exact and not symmetric. Near a solution inside a mode (stick, slip, open) convergence is quadratic [Alart and
Curnier 1991]. The paper's iteration, which keeps W fixed in each step, converges linearly.
"""

import numpy as np

from idyn.library.kernels import compiled
from idyn.solvers.linalg import copy, lu_factor, lu_solve
from idyn.types import Array
from sim_harness.engines.linalg import add, add_pushed, dot
from sim_harness.engines.newton_rows import Constraints, normal_row

LEAST = 1e-9  # lower bound of the denominator of W, as a share of r μ p_N
TINY = 1e-300  # below this √(a² + r² p²) both arguments count as 0


@compiled
def complementarity(a: float, p: float, r: float) -> tuple[float, float, float]:
    """Return the Fischer–Burmeister function φ(a, r p), ∂φ/∂a and ∂φ/∂p."""
    b = r * p
    s = np.hypot(a, b)
    if s <= TINY:
        return 0.0, 0.0, r
    phi = 2.0 * a * b / (a + b + s) if a + b > 0.0 else a + b - s
    alpha = b * b / (s * (s + a)) if a > 0.0 else 1.0 - a / s
    beta = a * a / (s * (s + b)) if b > 0.0 else 1.0 - b / s
    return phi, alpha, r * beta


@compiled
def friction_compliance(speed: float, impulse: float, bound: float, r: float) -> float:
    """Return W ≥ 0 of a pressing contact [(m/s)/(N·s)].

    speed: ‖v_T‖ [m/s]
    impulse: ‖p_T‖ [N·s]
    bound: μ p_N > 0, may be inf [N·s]
    r: scale of impulses [(m/s)/(N·s)]
    """
    if bound == np.inf:
        return 0.0
    slack = r * (bound - impulse)
    root = np.hypot(speed, slack)
    above = speed * speed / (root + slack) if slack > 0.0 else root - slack
    if above <= 1e-15 * (root + abs(slack)):
        return 0.0
    return r * above / max(speed + r * bound - root, LEAST * r * bound)


SHIFT = 1e-9  # smallest diagonal shift, as a share of the row's diagonal. It keeps changes of redundant impulses small
MOST_SHIFT = 0.1  # largest diagonal shift, as a share of the row's diagonal, used when steps fail repeatedly
ROUNDING = 1e-14  # the refinement stops at a violation below this share of the fastest row's speed

HALVINGS, ARMIJO = 6, 1e-4
"""Largest number of trial lengths of a step, each half of the last; share by which a step must reduce the sum of squares."""

GAIN, IDLE = 0.9, 30
"""The refinement stops after IDLE consecutive steps without one that reduces the least violation to GAIN of its value."""

NEAR = 1e-9
"""Below this share of the fastest row's speed, a step without improvement is a rounding effect and ends the refinement."""


@compiled
def motion(c: Constraints, p: Array) -> Array:
    """Return z = z_free + Yᵀ p (nv)."""
    z = c.z_free.copy()
    add_pushed(c.Y, p, z)
    return z


@compiled
def speeds_of(c: Constraints, p: Array, u: Array) -> None:
    """u ← J v + soft w p with J v = Y (z_free + Yᵀ p) (m), in place."""
    z = motion(c, p)
    for i in range(len(u)):
        u[i] = dot(c.soft * c.w[i] * p[i], c.Y[i], z)


@compiled
def project_feasible(c: Constraints, p: Array) -> None:
    """Project p in place: p_N ≥ 0 and friction radially onto its disc."""
    plan = c.plan
    for i in range(plan.stops + len(plan.mu)):
        row = normal_row(plan, i)
        p[row] = max(p[row], 0.0)
    clamp_friction(c, p)


@compiled
def clamp_friction(c: Constraints, p: Array) -> None:
    """Shorten p_T to ‖p_T‖ ≤ μ max(0, p_N), in place."""
    plan = c.plan
    for i in range(len(plan.mu)):
        t = plan.ties + plan.stops + 3 * i
        length = np.hypot(p[t], p[t + 1])
        if length == 0.0:
            continue
        bound = plan.mu[i] * p[t + 2] if p[t + 2] > 0.0 and plan.mu[i] > 0.0 else 0.0
        if length > bound:
            p[t] *= bound / length
            p[t + 1] *= bound / length


@compiled
def natural_residual(c: Constraints, p: Array, u: Array, F: Array) -> float:
    """F ← the natural map at impulses p with speeds u (m); return its largest entry [m/s]."""
    plan, w = c.plan, c.w
    for i in range(plan.ties):  # a
        F[i] = u[i] + plan.offset[i] + plan.softness[i] * p[i]
    for i in range(plan.stops + len(plan.mu)):
        row = normal_row(plan, i)
        a = u[row] + plan.offset[row] + plan.softness[row] * p[row]
        F[row] = min(a, w[row] * p[row])
        if i < plan.stops:
            continue
        # w p_T − P(y), which is v_T where the contact sticks
        s, t, (y_s, y_t, length, radius) = row - 2, row - 1, tangent_target(c, p, u, row, a)
        if length <= radius:
            F[s], F[t] = u[s], u[t]
        else:
            F[s], F[t] = w[s] * p[s] - radius / length * y_s, w[t] * p[t] - radius / length * y_t
    worst = 0.0
    for i in range(len(F)):
        if not abs(F[i]) <= worst:
            worst = abs(F[i])
    return worst


@compiled
def tangent_target(c: Constraints, p: Array, u: Array, row: int, a: float) -> tuple[float, float, float, float]:
    """Return y = w p_T − v_T (two entries), ‖y‖ and the radius of the friction disc [m/s]; row: normal row of the contact."""
    w, s, t = c.w, row - 2, row - 1
    y_s, y_t = w[s] * p[s] - u[s], w[t] * p[t] - u[t]
    mu = c.plan.mu[(row - c.plan.ties - c.plan.stops) // 3]
    return y_s, y_t, np.hypot(y_s, y_t), disc(mu, w[row] * p[row] - a, w[s] / w[row])


@compiled
def disc(mu: float, pressure: float, ratio: float) -> float:
    """Return the radius of the friction disc, μ max(0, pressure) ratio, with 0 · ∞ = 0."""
    return mu * pressure * ratio if pressure > 0.0 and mu > 0.0 else 0.0


@compiled
def exact_step(c: Constraints, p: Array, u: Array, F: Array, shift: float) -> Array:
    """Return p after a full Newton step (m), NaN when the Jacobian is singular.

    u: speeds at p (m)
    F: natural map at p (m)
    shift: share of each row's diagonal that is added to the diagonal
    """
    plan, w, m = c.plan, c.w, len(p)
    K = np.zeros((m, m))
    for i in range(plan.ties):  # ∂a/∂p
        _own_row(c, K, i)
    for i in range(plan.stops + len(plan.mu)):
        row = normal_row(plan, i)
        a = u[row] + plan.offset[row] + plan.softness[row] * p[row]
        if a <= w[row] * p[row]:  # min(a, w p) = a: the row presses
            _own_row(c, K, row)
        else:
            K[row, row] = w[row]
        if i >= plan.stops:
            _tangents(c, K, p, u, row)
    for i in range(m):
        K[i, i] += shift * w[i]
    LU, order, regular = lu_factor(K)
    if not regular:
        return np.full(m, np.nan)
    return p - lu_solve(LU, order, F)


@compiled
def _own_row(c: Constraints, K: Array, row: int) -> None:
    """Set the row of K to ∂a/∂p: the row of D, with the softness added on the diagonal."""
    for j in range(len(K)):
        K[row, j] = c.D[row, j]
    K[row, row] += c.plan.softness[row]


@compiled
def _tangents(c: Constraints, K: Array, p: Array, u: Array, row: int) -> None:
    """Set the tangent rows of K for the contact with normal row `row`: ∂(w p_T − P(y))/∂p."""
    plan, w, s, t = c.plan, c.w, row - 2, row - 1
    mu = plan.mu[(row - plan.ties - plan.stops) // 3]
    a, ratio = u[row] + plan.offset[row] + plan.softness[row] * p[row], w[s] / w[row]
    y_s, y_t, length, radius = tangent_target(c, p, u, row, a)
    if length <= radius:  # sticks: F_T = v_T
        for j in range(len(K)):
            K[s, j], K[t, j] = c.D[s, j], c.D[t, j]
        return
    K[s, s], K[t, t] = w[s], w[t]
    if radius == 0.0:
        return
    # slides: F_T = w p_T − radius y / ‖y‖, where y depends on p and the radius on the pressure w p_N − a
    n_s, n_t, share = y_s / length, y_t / length, radius / length
    for j in range(len(K)):
        dy_s, dy_t, pressure = -c.D[s, j], -c.D[t, j], -c.D[row, j]
        dy_s += w[s] if j == s else 0.0
        dy_t += w[t] if j == t else 0.0
        pressure += w[row] - plan.softness[row] if j == row else 0.0
        along = n_s * dy_s + n_t * dy_t
        grows = mu * ratio * pressure
        K[s, j] -= share * (dy_s - n_s * along) + grows * n_s
        K[t, j] -= share * (dy_t - n_t * along) + grows * n_t


@compiled
def refine(c: Constraints, p: Array, error: float, limit: int) -> tuple[float, int]:
    """Refine p in place by exact Newton steps; return the violation of the best iterate [m/s] and the number of steps.

    A step is halved until the sum of squares of the natural map falls. If it never does, the next step has a larger diagonal
    shift, which shortens it most in redundant directions. After a success the shift decreases.

    error: violation at p [m/s]
    limit: largest number of steps
    """
    m = len(p)
    at, new, u, u_new, F, F_new = p.copy(), np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    speeds_of(c, at, u)
    natural_residual(c, at, u, F)
    tried, idle, shift = 0, 0, SHIFT  # idle: consecutive steps without improvement
    while tried < limit and error > ROUNDING * c.scale and idle < IDLE:
        full = exact_step(c, at, u, F, shift)
        before, share, worst, falls = dot(0.0, F, F), 1.0, 0.0, False
        # backtracking on ‖F‖² with Armijo's condition; each trial is first projected onto p_N ≥ 0 and the cone
        for _ in range(HALVINGS):
            for i in range(m):
                new[i] = at[i] + share * (full[i] - at[i])
            project_feasible(c, new)
            speeds_of(c, new, u_new)
            worst = natural_residual(c, new, u_new, F_new)
            falls = dot(0.0, F_new, F_new) < (1.0 - ARMIJO * share) * before
            if falls:
                break
            share *= 0.5
        tried += 1
        idle = 0 if worst < GAIN * error else idle + 1
        if falls or shift >= MOST_SHIFT:
            shift = max(SHIFT, shift / 10.0)
            copy(new, at)
            copy(u_new, u)
            copy(F_new, F)
        else:
            shift *= 100.0
        if worst < error:
            error = worst
            copy(new, p)
        elif error <= NEAR * c.scale:
            break
    return error, tried


@compiled
def sweep(c: Constraints, p: Array, sweeps: int) -> None:
    """Update impulses p (m) in place by a number of sweeps."""
    plan, z = c.plan, motion(c, p)
    # p ← p − a / w, ≥ 0 except for ties; then p_T ← P(p_T − v_T / w) onto its disc
    for _ in range(sweeps):
        for i in range(plan.ties):
            _change(c, p, z, i, p[i] - _speed(c, p, z, i) / c.w[i])
        for i in range(plan.stops + len(plan.mu)):
            row = normal_row(plan, i)
            _change(c, p, z, row, max(0.0, p[row] - _speed(c, p, z, row) / c.w[row]))
            if i < plan.stops:
                continue
            s, t = row - 2, row - 1
            w = max(c.D[s, s], c.D[t, t]) + abs(c.D[s, t])
            w = w if w > 0.0 else 1.0
            p_s, p_t = p[s] - _speed(c, p, z, s) / w, p[t] - _speed(c, p, z, t) / w
            length, radius = np.hypot(p_s, p_t), disc(plan.mu[i - plan.stops], p[row], 1.0)
            share = radius / length if length > radius else 1.0
            _change(c, p, z, s, share * p_s)
            _change(c, p, z, t, share * p_t)


@compiled
def _speed(c: Constraints, p: Array, z: Array, row: int) -> float:
    """Return a = offset + softness p + Y z of the row."""
    return dot(c.plan.offset[row] + (c.plan.softness[row] + c.soft * c.w[row]) * p[row], c.Y[row], z)


@compiled
def _change(c: Constraints, p: Array, z: Array, row: int, new: float) -> None:
    """p_row ← new, z ← z + Yᵀ Δp."""
    change = new - p[row]
    p[row] = new
    if change != 0.0:
        add(z, change, c.Y[row])
