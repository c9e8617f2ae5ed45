"""What the certificate reckons with, in the full space: momentum, demand, velocities at the contacts.

From the problem data alone (M, h, joint axes, contact geometry), by code that no law and no solver uses: body twists are summed
along the tree, impulses are world vectors. Of a `Dynamics` it reads what was put in, the demand that was met, and p⁻; what
else follows from that (J, and all that a demand makes of it) it never looks at.
"""

import numpy as np

from idyn.compiled import compiled
from idyn.memory import local


@compiled
def allowance_of(d, i):
    """φ/dt after the noise floor and the recovery limit [m/s]."""
    return 0.0 if abs(d.gaps[i]) <= d.noise else max(d.gaps[i] / d.dt, -d.recovery_speed)


@compiled
def asked_of(d, v_plus, impulse):
    """v̂, of which the law is asked (nv)."""
    v_hat = v_plus.copy()
    for j in range(len(v_hat)):
        v_hat[j] -= d.keep * d.v[j]
    if d.rho > 0.0:
        change = _response(d, impulse - in_world(d, d.last))
        for i in range(len(d.u)):
            v_hat[d.u[i]] += d.rho * change[i]
    return v_hat


@compiled
def demand_error(d, change, v_plus):
    """How far joint velocities v⁺ are from the demand that is met, and that from the one asked for beyond the change that is
    reported [rad/s]; inf when it is no number."""
    a, v, met, asked, dt, worst, moved = d.a, d.v, d.met, d.asked, d.dt, 0.0, 0.0
    for k in range(len(a)):
        error = abs(v_plus[a[k]] - v[a[k]] - dt * met[k])
        worst = np.inf if np.isnan(error) else max(worst, error)
        moved = max(moved, dt * abs(met[k] - asked[k]))
    return max(worst, abs(moved - change))


@compiled
def in_world(d, p):
    """Impulses in rows S, T, N (3n) as world vectors (n, 3)."""
    impulse = np.empty((len(d.mu), 3))
    for i in range(len(impulse)):
        t = _cross(d.normals[i], d.tangents[i])
        for c in range(3):
            impulse[i, c] = p[3 * i] * d.tangents[i, c] + p[3 * i + 1] * t[c] + p[3 * i + 2] * d.normals[i, c]
    return impulse


@compiled
def _sign(d, k, j):
    """+1 where degree of freedom j moves the first body of contact k only, −1 the second, 0 both or none."""
    return int(d.support[d.bodies[k], j]) - int(d.support[d.others[k], j])


@compiled
def _response(d, impulse):
    """M_uu⁻¹ J_uᵀ of impulses that are world vectors (n, 3): what they do to the unactuated velocities (nu)."""
    x = np.zeros(len(d.u))
    for k in range(len(impulse)):
        for i in range(len(x)):
            sign = _sign(d, k, d.u[i])
            if sign != 0:
                at = _point_velocity(d.axes[d.u[i]], d.points[k])
                x[i] += sign * (at[0] * impulse[k, 0] + at[1] * impulse[k, 1] + at[2] * impulse[k, 2])
    _divide_by_inertia(d, x)
    _hold_closed(d, x)
    return x


@compiled
def _hold_closed(d, x):
    """Takes from the unactuated motion x (nu) what impulses of the closures would take: G_u x = 0, in place. Elimination with
    pivots on the diagonal; those that are rounding errors of the first belong to rows that say nothing new."""
    rows, nu = 3 * len(d.ends), len(x)
    G, A = np.zeros((rows, nu)), np.zeros((rows, rows + 1))
    for row in range(rows):
        k = row // 3
        for i in range(nu):
            j = d.u[i]
            sign = int(d.support[d.loops[k, 0], j]) - int(d.support[d.loops[k, 1], j])
            if sign != 0:
                G[row, i] = sign * _point_velocity(d.axes[j], _middle(d, k))[row % 3]
    answers = G.copy()
    for row in range(rows):
        _divide_by_inertia(d, answers[row])
    for row in range(rows):
        for i in range(nu):
            A[row, rows] += G[row, i] * x[i]
            for other in range(rows):
                A[row, other] += G[row, i] * answers[other, i]
    largest, done = 0.0, np.zeros(rows, dtype=np.bool_)
    for row in range(rows):
        largest = max(largest, A[row, row])
    for _ in range(rows):
        pivot = -1
        for row in range(rows):
            if not done[row] and A[row, row] > 1e-12 * largest and (pivot < 0 or A[row, row] > A[pivot, pivot]):
                pivot = row
        if pivot < 0:
            break
        done[pivot] = True
        for row in range(rows):
            f = A[row, pivot] / A[pivot, pivot]
            if row != pivot and f != 0.0:
                for c in range(rows + 1):
                    A[row, c] -= f * A[pivot, c]
    for row in range(rows):
        if done[row]:
            impulse = A[row, rows] / A[row, row]
            for i in range(nu):
                x[i] -= impulse * answers[row, i]


@compiled
def _divide_by_inertia(d, x):
    """x ← M_uu⁻¹ x, in place, by Gaussian elimination without pivoting: M_uu is positive definite."""
    nu = len(d.u)
    A = np.empty((nu, nu))
    for i in range(nu):
        for j in range(nu):
            A[i, j] = d.M[d.u[i], d.u[j]]
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
def imbalance(d, v_plus, tau, impulse):
    """‖M(v⁺−v) − Jᵀp − dt(Pᵀτ − h)‖∞ for impulses as world vectors (n, 3); inf when it is no number."""
    v, axes, support, dt = d.v, d.axes, d.support, d.dt
    nv = len(v)
    balance = local(nv)
    for j in range(nv):
        M, s = d.M[j], dt * d.h[j]
        for k in range(nv):
            s += M[k] * (v_plus[k] - v[k])
        balance[j] = s
    for k in range(len(d.a)):
        balance[d.a[k]] -= dt * tau[k]
    for i in range(len(impulse)):
        f, first, second = impulse[i], support[d.bodies[i]], support[d.others[i]]
        moment = _cross(d.points[i], f)
        for j in range(nv):
            if first[j] != second[j]:
                e = axes[j]
                power = e[0] * f[0] + e[1] * f[1] + e[2] * f[2]
                power += e[3] * moment[0] + e[4] * moment[1] + e[5] * moment[2]
                balance[j] -= power if first[j] else -power
    for k in range(len(d.ends)):
        f, first, second = d.closing[3 * k : 3 * k + 3], support[d.loops[k, 0]], support[d.loops[k, 1]]
        for j in range(nv):
            if first[j] != second[j]:
                at = _point_velocity(axes[j], _middle(d, k))
                power = at[0] * f[0] + at[1] * f[1] + at[2] * f[2]
                balance[j] -= power if first[j] else -power
    worst = 0.0
    for j in range(nv):
        worst = max(worst, abs(balance[j])) if balance[j] == balance[j] else np.inf
    return worst


@compiled
def _middle(d, k):
    """Between the two points of closure k."""
    one, other = d.ends[k, 0], d.ends[k, 1]
    return 0.5 * (one[0] + other[0]), 0.5 * (one[1] + other[1]), 0.5 * (one[2] + other[2])


@compiled
def closure_error(d, v_plus):
    """How far the closures' points are from coming together as they should: a gap beyond the noise floor within the period, but
    not faster than a penetration is undone [m/s]."""
    worst, twists = 0.0, body_twists(d, v_plus)
    for k in range(len(d.ends)):
        one = _point_velocity(twists[d.loops[k, 0]], _middle(d, k))
        other = _point_velocity(twists[d.loops[k, 1]], _middle(d, k))
        apart = d.ends[k, 0] - d.ends[k, 1]
        length = np.sqrt(np.sum(apart * apart))
        speed = 0.0 if length <= d.noise else min(length / d.dt, d.recovery_speed)
        for c in range(3):
            error = abs(one[c] - other[c] + (speed * apart[c] / length if speed > 0.0 else 0.0))
            worst = np.inf if np.isnan(error) else max(worst, error)
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
def contact_velocities(d, v):
    """Relative velocity of the bodies at each contact in (s, t, n) (n, 3)."""
    twists = body_twists(d, v)
    out = np.empty((len(d.mu), 3))
    for i in range(len(out)):
        s, n = d.tangents[i], d.normals[i]
        t = _cross(n, s)
        one, other = _point_velocity(twists[d.bodies[i]], d.points[i]), _point_velocity(twists[d.others[i]], d.points[i])
        x = one[0] - other[0], one[1] - other[1], one[2] - other[2]
        out[i, 0] = s[0] * x[0] + s[1] * x[1] + s[2] * x[2]
        out[i, 1] = t[0] * x[0] + t[1] * x[1] + t[2] * x[2]
        out[i, 2] = n[0] * x[0] + n[1] * x[1] + n[2] * x[2]
    return out


@compiled
def body_twists(d, v):
    """Spatial velocities of the joints' bodies at the world's origin (njoints, 6), summed along the tree."""
    axes, parents, dof_joint, dof = d.axes, d.parents, d.dof_joint, 0
    twists = np.empty((len(parents), 6))
    for c in range(6):
        twists[0, c] = 0.0
    for j in range(1, len(twists)):
        for c in range(6):
            twists[j, c] = twists[parents[j], c]
        while dof < len(v) and dof_joint[dof] == j:
            for c in range(6):
                twists[j, c] += axes[dof, c] * v[dof]
            dof += 1
    return twists


@compiled
def energy_descent(d, v_plus, y):
    """Gradient of the kinetic energy of v⁺ with respect to the impulses, less the multipliers' part, in (s, t, n) (n, 3):
    the contact velocities of the unactuated motion x with M_uu x = (M v⁺)_u − N_uᵀ y."""
    nu, nv = len(d.u), len(v_plus)
    x = np.zeros(nu)
    for i in range(nu):
        for j in range(nv):
            x[i] += d.M[d.u[i], j] * v_plus[j]
    for k in range(len(y)):
        for i in range(nu):
            sign = _sign(d, k, d.u[i])
            if sign != 0 and y[k] != 0.0:
                at, n = _point_velocity(d.axes[d.u[i]], d.points[k]), d.normals[k]
                x[i] -= sign * y[k] * (at[0] * n[0] + at[1] * n[1] + at[2] * n[2])
    _divide_by_inertia(d, x)
    _hold_closed(d, x)
    motion = np.zeros(nv)
    for i in range(nu):
        motion[d.u[i]] = x[i]
    return contact_velocities(d, motion)


@compiled
def own_inverse_mass(d, k):
    """‖J_k M⁻¹ J_kᵀ‖_F / 3 of contact k, all joints free [1/kg]: how easily its two bodies give way to an impulse there."""
    nv = len(d.v)
    A, X = d.M.copy(), np.zeros((nv, 6))  # M, and the generalised impulses of unit world impulses beside their responses
    for j in range(nv):
        sign = _sign(d, k, j)
        if sign != 0:
            at = _point_velocity(d.axes[j], d.points[k])
            for c in range(3):
                X[j, c] = X[j, 3 + c] = sign * at[c]
    for j in range(nv):  # elimination without pivoting: M is positive definite
        for i in range(j + 1, nv):
            f = A[i, j] / A[j, j]
            for c in range(j, nv):
                A[i, c] -= f * A[j, c]
            for c in range(3, 6):
                X[i, c] -= f * X[j, c]
    for i in range(nv - 1, -1, -1):
        for c in range(3, 6):
            for j in range(i + 1, nv):
                X[i, c] -= A[i, j] * X[j, c]
            X[i, c] /= A[i, i]
    square = 0.0
    for a in range(3):
        for b in range(3):
            s = 0.0
            for j in range(nv):
                s += X[j, a] * X[j, 3 + b]
            square += s * s
    return np.sqrt(square) / 3.0
