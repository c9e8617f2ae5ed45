"""The certificate: how far an answer is from what it claims, in physical units.

Computed from the problem data (M, h, joint axes, contact geometry) in the full space, by code that no law and no solver
uses: body twists are summed along the tree, impulses are world vectors, friction is decomposed anew.
"""

import numpy as np

from idyn.compiled import compiled
from idyn.ground import unpacked
from idyn.types import Array

CERTIFIED = 1e-8
"""Largest residual of an answer that may be used [N·s, N·m·s or m/s]: at 1 kHz, 10 µN of force and 10 nm/s of speed."""


FREE, NO_SLIP, COULOMB, CONVEX, GIVEN, CONE = range(6)  # values of idyn.laws.law.Conditions

PARTS = 1e-9
"""A contact that opens faster than this without a normal impulse parts [m/s]."""


@compiled
def certify(
    M, h, axes, parents, dof_joint, support, u, a, bodies, others, points, normals, tangents,
    conditions, directions, mu, unlimited, gaps, numbers, y, epsilon, v, last, p, v_plus, tau, dt,
):  # fmt: skip
    """Residuals (dynamics, complementarity, cone, penetration, slip) of impulses p (3n; rows S, T, N), velocity v_plus (nv)
    and torque tau (na) against a law's `conditions`, in the order and units of `idyn.types.Residuals`; and the impulses as
    world vectors (n, 3).

    numbers: see `idyn.ground.ground_numbers`; last: p⁻ (3n). The law is judged by the velocity v̂ that it is asked of
    mu, unlimited: friction coefficients (n), and whether the law takes every μ > 0 for ∞
    epsilon: weight of the ½ε‖p‖² in the convex law's program [1/kg]
    y: multipliers of the non-penetration rows, by which the convex laws' optimality is judged (n); without them (0) their
        complementarity is inf
    """
    n, nv = len(bodies), len(v)
    ground = unpacked(numbers)
    impulse = _in_world(p, tangents, normals)
    dynamics = _imbalance(M, h, axes, support, a, bodies, others, points, v, v_plus, tau, impulse, dt)
    v_hat = v_plus - ground.keep * v
    if ground.rho > 0.0:
        change = _response(M, axes, support, u, bodies, others, points, impulse - _in_world(last, tangents, normals))
        for i in range(len(u)):
            v_hat[u[i]] += ground.rho * change[i]
    velocity = _contact_velocities(axes, parents, dof_joint, bodies, others, points, normals, tangents, v_hat)
    complementarity, cone, penetration, slip = 0.0, 0.0, 0.0, 0.0
    descent = velocity
    convex = conditions in (CONVEX, CONE)
    if convex and not (len(y) == n and np.isfinite(y).all()):
        return dynamics, np.inf, cone, penetration, slip, impulse  # nothing to judge optimality by
    if convex:
        momentum = v_hat if conditions == CONVEX else np.zeros(nv)
        descent = _energy_descent(
            M, axes, support, u, bodies, others, points, normals, tangents, momentum, (1.0 + ground.rho) * y
        )
    for i in range(n if conditions != GIVEN else 0):
        allowance = 0.0 if abs(gaps[i]) <= ground.noise else max(gaps[i] / dt, -ground.recovery_speed)
        w = velocity[i, 2] + allowance
        free = mu[i] == np.inf or (unlimited and mu[i] > 0.0)
        pn, ps, pt = p[3 * i + 2], p[3 * i], p[3 * i + 1]
        if conditions == FREE:
            cone = max(cone, abs(pn), abs(ps), abs(pt))
            continue
        if not (gaps[i] == gaps[i] and mu[i] == mu[i]):
            complementarity = np.inf  # no number, no statement
        penetration = max(penetration, -w)
        parts = w > PARTS and pn <= PARTS
        apart = parts and ps == 0.0 and pt == 0.0 and pn == 0.0  # it may slide
        cone = max(cone, -pn)
        if free and parts and conditions != CONVEX:
            cone = max(cone, abs(ps), abs(pt))  # friction without pressure is none
        if conditions == NO_SLIP:
            complementarity = max(complementarity, abs(min(pn, w)))
            sliding, pulling = max(abs(velocity[i, 0]), abs(velocity[i, 1])), max(abs(ps), abs(pt))
            if mu[i] == 0.0:
                cone = max(cone, pulling)
            elif not apart:
                slip = max(slip, sliding)
        elif conditions == COULOMB:
            complementarity = max(complementarity, abs(min(pn, w)))
            if free and apart:
                continue
            error, outside, sliding = _coulomb(ps, pt, pn, velocity[i, 0], velocity[i, 1], mu[i], free, directions)
            complementarity, cone, slip = max(complementarity, error), max(cone, outside), max(slip, sliding)
        else:
            complementarity = max(complementarity, abs(min(y[i], w)))
            if conditions == CONE and free and apart:
                continue
            for c in range(3):
                descent[i, c] += epsilon * p[3 * i + c]
                if conditions == CONE:
                    descent[i, c] += velocity[i, c] if c < 2 else w
            error, outside = _optimal(ps, pt, pn, descent[i], mu[i], free, directions)
            complementarity, cone = max(complementarity, error), max(cone, outside)
    return dynamics, complementarity, cone, penetration, slip, impulse


@compiled
def demand_error(v_plus, v, a, asked, met, change, dt):
    """How far joint velocities v⁺ (nv) are from a demand that is `met`, and that from the one `asked` for, beyond the change
    that is reported [rad/s]; inf when it is no number. asked, met: joint accelerations [rad/s²] (na)"""
    worst, moved = 0.0, 0.0
    for k in range(len(a)):
        error = abs(v_plus[a[k]] - v[a[k]] - dt * met[k])
        worst = np.inf if np.isnan(error) else max(worst, error)
        moved = max(moved, dt * abs(met[k] - asked[k]))
    return max(worst, abs(moved - change))


@compiled
def _in_world(p, tangents, normals):
    """Impulses in rows S, T, N (3n) as world vectors (n, 3)."""
    impulse = np.empty((len(normals), 3))
    for i in range(len(normals)):
        t = _cross(normals[i], tangents[i])
        for c in range(3):
            impulse[i, c] = p[3 * i] * tangents[i, c] + p[3 * i + 1] * t[c] + p[3 * i + 2] * normals[i, c]
    return impulse


@compiled
def _response(M, axes, support, u, bodies, others, points, impulse):
    """M_uu⁻¹ J_uᵀ of impulses that are world vectors (n, 3): what they do to the unactuated velocities (nu)."""
    x = np.zeros(len(u))
    for k in range(len(bodies)):
        for i in range(len(u)):
            sign = int(support[bodies[k], u[i]]) - int(support[others[k], u[i]])
            if sign != 0:
                at = _point_velocity(axes[u[i]], points[k])
                x[i] += sign * (at[0] * impulse[k, 0] + at[1] * impulse[k, 1] + at[2] * impulse[k, 2])
    _divide_by_inertia(M, u, x)
    return x


@compiled
def _divide_by_inertia(M, u, x):
    """x ← M_uu⁻¹ x, in place, by Gaussian elimination without pivoting: M_uu is positive definite."""
    nu = len(u)
    A = np.empty((nu, nu))
    for i in range(nu):
        for j in range(nu):
            A[i, j] = M[u[i], u[j]]
    for j in range(nu):
        for i in range(j + 1, nu):
            f = A[i, j] / A[j, j]
            for k in range(j, nu):
                A[i, k] -= f * A[j, k]
            x[i] -= f * x[j]
    for i in range(nu - 1, -1, -1):
        for k in range(i + 1, nu):
            x[i] -= A[i, k] * x[k]
        x[i] /= A[i, i]


@compiled
def _imbalance(M, h, axes, support, a, bodies, others, points, v, v_plus, tau, impulse, dt):
    """‖M(v⁺−v) − Jᵀp − dt(Pᵀτ − h)‖∞ for impulses as world vectors (n, 3); inf when it is no number."""
    nv = len(v)
    balance = np.empty(nv)
    for j in range(nv):
        balance[j] = dt * h[j]
        for k in range(nv):
            balance[j] += M[j, k] * (v_plus[k] - v[k])
    for k in range(len(a)):
        balance[a[k]] -= dt * tau[k]
    for i in range(len(bodies)):
        for j in range(nv):
            sign = int(support[bodies[i], j]) - int(support[others[i], j])
            if sign != 0:
                x = _point_velocity(axes[j], points[i])
                balance[j] -= sign * (x[0] * impulse[i, 0] + x[1] * impulse[i, 1] + x[2] * impulse[i, 2])
    worst = 0.0
    for j in range(nv):
        worst = max(worst, abs(balance[j])) if balance[j] == balance[j] else np.inf
    return worst


@compiled
def _cross(x, y):
    return x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]


@compiled
def _point_velocity(twist, x):
    """Velocity of the point x of a body with spatial velocity `twist` at the world origin: v_O + ω × x."""
    return (
        twist[0] + twist[4] * x[2] - twist[5] * x[1],
        twist[1] + twist[5] * x[0] - twist[3] * x[2],
        twist[2] + twist[3] * x[1] - twist[4] * x[0],
    )


@compiled
def _contact_velocities(axes, parents, dof_joint, bodies, others, points, normals, tangents, v):
    """Relative velocity of the bodies at each contact in (s, t, n) (n, 3)."""
    twists = np.zeros((len(parents), 6))
    dof = 0
    for j in range(1, len(parents)):
        for c in range(6):
            twists[j, c] = twists[parents[j], c]
        while dof < len(v) and dof_joint[dof] == j:
            for c in range(6):
                twists[j, c] += axes[dof, c] * v[dof]
            dof += 1
    out = np.empty((len(bodies), 3))
    for i in range(len(bodies)):
        x = _point_velocity(twists[bodies[i]] - twists[others[i]], points[i])
        s, n = tangents[i], normals[i]
        t = _cross(n, s)
        out[i, 0] = s[0] * x[0] + s[1] * x[1] + s[2] * x[2]
        out[i, 1] = t[0] * x[0] + t[1] * x[1] + t[2] * x[2]
        out[i, 2] = n[0] * x[0] + n[1] * x[1] + n[2] * x[2]
    return out


@compiled
def _split(x: float, y: float, directions: Array) -> tuple[float, float, int]:
    """Non-negative shares of (x, y) along the two polygon corners next to it, and the first corner's index."""
    k = len(directions)
    best, share0, share1, corner = -np.inf, 0.0, 0.0, 0
    for j in range(k):
        a, c = directions[j], directions[(j + 1) % k]
        det = a[0] * c[1] - a[1] * c[0]
        s0, s1 = (x * c[1] - y * c[0]) / det, (a[0] * y - a[1] * x) / det
        if min(s0, s1) > best:
            best, share0, share1, corner = min(s0, s1), s0, s1, j
    return share0, share1, corner


@compiled
def _coulomb(ps, pt, pn, vs, vt, mu, free, directions):
    """Errors of one contact's friction: complementarity of (p_F, w_F) and (λ, w_λ), cone, and slip where none is allowed."""
    k = len(directions)
    if free:
        return 0.0, 0.0, max(abs(vs), abs(vt))
    speed = 0.0  # λ
    for j in range(k):
        speed = max(speed, -(directions[j, 0] * vs + directions[j, 1] * vt))
    share0, share1, corner = _split(ps, pt, directions)
    rest = mu * pn - share0 - share1
    error = abs(min(speed, max(rest, 0.0)))
    for j in range(k):
        share = share0 if j == corner else share1 if j == (corner + 1) % k else 0.0
        error = max(error, min(share, directions[j, 0] * vs + directions[j, 1] * vt + speed))
    return error, max(-rest, 0.0), 0.0


@compiled
def _energy_descent(M, axes, support, u, bodies, others, points, normals, tangents, v_plus, y):
    """Gradient of the kinetic energy of v⁺ with respect to the impulses, less the multipliers' part, in (s, t, n) (n, 3):
    the contact velocities of the unactuated motion x with M_uu x = (M v⁺)_u − N_uᵀ y."""
    nu, nv = len(u), len(v_plus)
    x = np.zeros(nu)
    for i in range(nu):
        for j in range(nv):
            x[i] += M[u[i], j] * v_plus[j]
    for k in range(len(y)):
        for i in range(nu):
            sign = int(support[bodies[k], u[i]]) - int(support[others[k], u[i]])
            if sign != 0 and y[k] != 0.0:
                at = _point_velocity(axes[u[i]], points[k])
                x[i] -= sign * y[k] * (at[0] * normals[k, 0] + at[1] * normals[k, 1] + at[2] * normals[k, 2])
    _divide_by_inertia(M, u, x)
    descent = np.zeros((len(bodies), 3))
    for k in range(len(bodies)):
        s, n = tangents[k], normals[k]
        t = _cross(n, s)
        for i in range(nu):
            sign = int(support[bodies[k], u[i]]) - int(support[others[k], u[i]])
            if sign != 0:
                at = _point_velocity(axes[u[i]], points[k])
                share = sign * x[i]
                descent[k, 0] += share * (s[0] * at[0] + s[1] * at[1] + s[2] * at[2])
                descent[k, 1] += share * (t[0] * at[0] + t[1] * at[1] + t[2] * at[2])
                descent[k, 2] += share * (n[0] * at[0] + n[1] * at[1] + n[2] * at[2])
    return descent


@compiled
def _optimal(ps, pt, pn, descent, mu, free, directions):
    """Errors of one contact of the convex law: impulses and descent direction must be complementary over the cone's rays."""
    if free:
        return max(abs(descent[0]), abs(descent[1]), abs(min(pn, descent[2]))), 0.0
    share0, share1, corner = _split(ps, pt, directions)
    k = len(directions)
    rest = mu * pn - share0 - share1
    error = 0.0
    for j in range(k):
        # an interior impulse loads every ray of its cone, so every ray must then be flat
        share = share0 if j == corner else share1 if j == (corner + 1) % k else 0.0
        loaded = (share + max(rest, 0.0) / k) / mu if mu > 0.0 else max(pn, 0.0) / k
        slope = descent[2] + mu * (directions[j, 0] * descent[0] + directions[j, 1] * descent[1])
        error = max(error, abs(min(loaded, slope)))
    return error, max(-rest, 0.0)
