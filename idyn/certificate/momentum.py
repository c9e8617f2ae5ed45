"""Terms of the certificate in the full space: momentum, demand, contact velocities, closed chains, from a `Given` only (M,
h, joint axes and contact geometry or contact rows), by code that no law or solver uses."""

import numpy as np

from idyn.certificate.drift import (
    body_twists,
    closure_drift,
    divide_by_inertia,
    dot,
    midpoint,
    passive_part,
    point_velocity,
    sign_of,
    unit_velocity,
)
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Vector, written
from idyn.model.so3 import cross
from idyn.terms.stages import Given
from idyn.types import Array

DYNAMICS, DEMAND, COMPLEMENTARITY, CONE, PENETRATION, SLIP = range(6)  # indices of `idyn.types.Residuals`


@entry(written(Vector), int, float)
def worse(residuals: Array, which: int, error: float) -> None:
    """Raise the residual with index `which` to `error` if that is larger."""
    residuals[which] = max(residuals[which], error)


@compiled
def nearest_in_cone(p: Array | tuple[float, float, float], point: Array | tuple[float, float, float], mu: float) -> float:
    """Return the largest component of the difference between p and the point of the round cone of μ nearest to `point`; inf if
    it is NaN. The axis of the cone is the third coordinate, of 3 or 6."""
    square = 0.0
    for c in range(len(p)):
        square += point[c] * point[c] if c != 2 else 0.0
    across, height, share = np.sqrt(square), point[2], 1.0
    if across > mu * height:
        height = max((mu * across + height) / (1.0 + mu * mu), 0.0)
        share = mu * height / across if across > 0.0 else 0.0
    error = 0.0
    for c in range(len(p)):
        difference = abs(p[c] - (height if c == 2 else share * point[c]))
        error = np.inf if np.isnan(difference) else max(error, difference)
    return error


@compiled
def closure_error(g: Given, v_plus: Array) -> float:
    """Return the largest error of the closures' relative velocities G v⁺ + dt Ġ v [m/s].

    A closure whose gap exceeds the noise must close it within the period, but not faster than the recovery speed.
    """
    worst, twists = 0.0, stack_array((len(g.model.parents), 6))
    drift = stack_array(3 * len(g.ends))
    for row in range(len(drift)):
        drift[row] = 0.0
    if len(g.ends) > 0:
        body_twists(g, v_plus, twists)
        if g.drift:
            closure_drift(g, drift)
            passive_part(g, drift)
    for k in range(len(g.ends)):
        # velocities of the two bodies at the midpoint
        one = point_velocity(twists[g.model.loops[k, 0]], midpoint(g, k))
        other = point_velocity(twists[g.model.loops[k, 1]], midpoint(g, k))
        # their difference should be −speed along the gap
        x, y, z = g.ends[k, 0, 0] - g.ends[k, 1, 0], g.ends[k, 0, 1] - g.ends[k, 1, 1], g.ends[k, 0, 2] - g.ends[k, 1, 2]
        apart, length = (x, y, z), np.sqrt(x * x + y * y + z * z)
        speed = 0.0 if length <= g.noise else min(length / g.dt, g.recovery_speed)
        for c in range(3):
            required = -drift[3 * k + c] - (speed * apart[c] / length if speed > 0.0 else 0.0)
            error = abs(one[c] - other[c] - required)
            worst = np.inf if np.isnan(error) else max(worst, error)
    return worst


@compiled
def keep_closures(g: Given, x: Array) -> None:
    """Project x (nu) onto the motions that satisfy the closures: replace it by x − M_uu⁻¹ G_uᵀ λ, with λ such that G_u x = 0.

    λ is found by elimination with diagonal pivots. Rows whose pivots are rounding errors of the largest pivot are dependent and
    are skipped.
    """
    rows, nu = 3 * len(g.ends), len(x)
    G, A = np.zeros((rows, nu)), np.zeros((rows, rows + 1))
    # G_u: relative velocity of the two bodies of each closure
    for row in range(rows):
        k = row // 3
        for i in range(nu):
            j = g.model.u[i]
            sign = int(g.model.support[g.model.loops[k, 0], j]) - int(g.model.support[g.model.loops[k, 1], j])
            if sign != 0:
                G[row, i] = sign * point_velocity(g.axes[j], midpoint(g, k))[row % 3]
    # A = G_u M_uu⁻¹ G_uᵀ, last column G_u x
    answers = G.copy()
    for row in range(rows):
        divide_by_inertia(g, answers[row])
    for row in range(rows):
        for i in range(nu):
            A[row, rows] += G[row, i] * x[i]
            for other in range(rows):
                A[row, other] += G[row, i] * answers[other, i]
    # A λ = G_u x
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
    # x ← x − M_uu⁻¹ G_uᵀ λ
    for row in range(rows):
        if done[row]:
            impulse = A[row, rows] / A[row, row]
            for i in range(nu):
                x[i] -= impulse * answers[row, i]


@compiled
def effective_inverse_mass(g: Given, k: int) -> float:
    """Return ‖J_k M⁻¹ J_kᵀ‖_F / 3 of contact k with free joints, its effective inverse mass [1/kg]."""
    nv = len(g.v)
    # X = [J_kᵀ, J_kᵀ], the generalised impulses of unit impulses along the world axes
    A, X = g.M.copy(), np.zeros((nv, 6))
    for j in range(nv):
        sign = sign_of(g, k, j)
        if sign != 0:
            at = unit_velocity(g, k, j)
            for c in range(3):
                X[j, c] = X[j, 3 + c] = sign * at[c]
    # X = [J_kᵀ, M⁻¹ J_kᵀ], by elimination without pivoting: M is positive definite
    for j in range(nv):
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
    # ‖J_k M⁻¹ J_kᵀ‖_F²
    square = 0.0
    for a in range(3):
        for b in range(3):
            s = 0.0
            for j in range(nv):
                s += X[j, a] * X[j, 3 + b]
            square += s * s
    return np.sqrt(square) / 3.0


@compiled
def allowance_of(g: Given, i: int) -> float:
    """Return the allowance φ/dt of contact i [m/s]: 0 for gaps within the noise, at least −recovery_speed in penetration."""
    return 0.0 if abs(g.gaps[i]) <= g.noise else max(g.gaps[i] / g.dt, -g.recovery_speed)


@compiled
def law_velocity(g: Given, v_plus: Array, impulse: Array, v_hat: Array) -> None:
    """Fill v̂ (nv), the velocity that the law applies to: v⁺ − (1 − dt/T_r) v + ρ M_uu⁻¹ J_uᵀ (p − p⁻), see
    `idyn.contact.ground`."""
    for j in range(len(v_hat)):
        v_hat[j] = v_plus[j] - g.keep * g.v[j]
    if g.rho > 0.0:
        remembered = stack_array((len(g.mu), 3))
        in_world(g, g.last, remembered)
        change = _response(g, impulse - remembered)
        for i in range(len(g.model.u)):
            v_hat[g.model.u[i]] += g.rho * change[i]


@compiled
def demand_error(g: Given, asked: Array, met: Array, change: float, v_plus: Array) -> float:
    """Return the larger of ‖P v⁺ − v_a − dt q̈_met‖∞ and |‖dt (q̈_met − q̈_asked)‖∞ − change| [rad/s]; inf if it is NaN.

    asked, met: original and realised demand q̈ (na); change: reported change of the demand [rad/s]
    """
    a, v, dt, worst, moved = g.model.a, g.v, g.dt, 0.0, 0.0
    for k in range(len(a)):
        error = abs(v_plus[a[k]] - v[a[k]] - dt * met[k])
        worst = np.inf if np.isnan(error) else max(worst, error)
        moved = max(moved, dt * abs(met[k] - asked[k]))
    return max(worst, abs(moved - change))


@compiled
def in_world(g: Given, p: Array, impulse: Array) -> None:
    """Fill `impulse` (n, 3), vectors in the world, from impulses p in rows S, T, N (3n)."""
    for i in range(len(impulse)):
        t = cross(g.normals[i], g.tangents[i])
        for c in range(3):
            impulse[i, c] = p[3 * i] * g.tangents[i, c] + p[3 * i + 1] * t[c] + p[3 * i + 2] * g.normals[i, c]


@compiled
def _response(g: Given, impulse: Array) -> Array:
    """Return the change M_uu⁻¹ J_uᵀ p of the unactuated velocities (nu) by impulses in the world (n, 3)."""
    x = np.zeros(len(g.model.u))
    for k in range(len(impulse)):
        for i in range(len(x)):
            sign = sign_of(g, k, g.model.u[i])
            if sign != 0:
                at = unit_velocity(g, k, g.model.u[i])
                x[i] += sign * (at[0] * impulse[k, 0] + at[1] * impulse[k, 1] + at[2] * impulse[k, 2])
    divide_by_inertia(g, x)
    keep_closures(g, x)
    return x


@compiled
def imbalance(g: Given, v_plus: Array, torques: tuple[Array, Array], impulse: Array, closing: Array) -> float:
    """Return max_j |r_j| / min(1, M_jj) of r = M(v⁺−v) − Jᵀp − Gᵀλ − dt(Pᵀτ + load − h) for contact (n, 3) and closure (3m)
    impulses in the world; inf if NaN. The division makes the error of a light degree of freedom the speed that it causes there.

    torques: (τ (na), load (nv))
    """
    v, axes, support, dt = g.v, g.axes, g.model.support, g.dt
    nv, (tau, load) = len(v), torques
    balance = stack_array(nv)
    # dt (h − load) + M (v⁺ − v) − dt Pᵀ τ; column by column of the symmetric M, so that the sums are independent of each other
    for j in range(nv):
        balance[j] = dt * (g.h[j] - load[j])
    for k in range(nv):
        M, gain = g.M[k], v_plus[k] - v[k]
        for j in range(nv):
            balance[j] += M[j] * gain
    for k in range(len(g.model.a)):
        balance[g.model.a[k]] -= dt * tau[k]
    # − Jᵀ p: power of each impulse for unit velocities of the joints between the two bodies
    for row in range(len(g.rows)):
        for j in range(nv):
            balance[j] -= g.rows[row, j] * impulse[row // 3, row % 3]
    for i in range(len(impulse) if len(g.rows) == 0 else 0):
        f, first, second = impulse[i], support[g.bodies[i]], support[g.others[i]]
        moment = cross(g.points[i], f)
        for j in range(nv):
            if first[j] != second[j]:
                e = axes[j]
                power = e[0] * f[0] + e[1] * f[1] + e[2] * f[2]
                power += e[3] * moment[0] + e[4] * moment[1] + e[5] * moment[2]
                balance[j] -= power if first[j] else -power
    # − Gᵀ λ
    for k in range(len(g.ends)):
        f, first, second = closing[3 * k : 3 * k + 3], support[g.model.loops[k, 0]], support[g.model.loops[k, 1]]
        for j in range(nv):
            if first[j] != second[j]:
                at = point_velocity(axes[j], midpoint(g, k))
                power = at[0] * f[0] + at[1] * f[1] + at[2] * f[2]
                balance[j] -= power if first[j] else -power
    worst = 0.0
    for j in range(nv):
        worst = max(worst, abs(balance[j]) / min(1.0, g.M[j, j])) if balance[j] == balance[j] else np.inf
    return worst


@compiled
def speed_per_impulse(g: Given, k: int) -> float:
    """Return s = max(1, max_j |J_k e_j|² / M_jj) of contact k [1/kg], by which an impulse becomes a speed.

    j: the unactuated degrees of freedom that move the contact, or the actuated ones if there are none. |J_k e_j|² / M_jj is a
    lower bound of the contact's inverse mass. s > 1 only where an impulse moves less than 1 kg.
    """
    most, actuated = 0.0, 0.0
    for i in range(len(g.model.u)):
        most = max(most, _moves(g, k, g.model.u[i]))
    if most == 0.0:
        for i in range(len(g.model.a)):
            actuated = max(actuated, _moves(g, k, g.model.a[i]))
    return max(1.0, most, actuated)


@compiled
def _moves(g: Given, k: int, j: int) -> float:
    """Return |J_k e_j|² / M_jj, 0 for a degree of freedom j that does not move contact k [1/kg]."""
    if sign_of(g, k, j) == 0:
        return 0.0
    x, y, z = unit_velocity(g, k, j)
    return (x * x + y * y + z * z) / g.M[j, j]


@compiled
def contact_velocities(g: Given, v: Array, out: Array) -> None:
    """Fill `out` (n, 3): relative velocity of the two bodies at each contact, in (s, t, n)."""
    if len(g.rows) > 0:
        for row in range(len(g.rows)):
            out[row // 3, row % 3] = dot(g.rows[row], v)
        return
    twists = stack_array((len(g.model.parents), 6))
    body_twists(g, v, twists)
    for i in range(len(out)):
        s, n = g.tangents[i], g.normals[i]
        t = cross(n, s)
        one, other = point_velocity(twists[g.bodies[i]], g.points[i]), point_velocity(twists[g.others[i]], g.points[i])
        x = one[0] - other[0], one[1] - other[1], one[2] - other[2]
        out[i, 0] = s[0] * x[0] + s[1] * x[1] + s[2] * x[2]
        out[i, 1] = t[0] * x[0] + t[1] * x[1] + t[2] * x[2]
        out[i, 2] = n[0] * x[0] + n[1] * x[1] + n[2] * x[2]


@compiled
def energy_descent(g: Given, v_plus: Array, y: Array, descent: Array) -> None:
    """Fill `descent` (n, 3): gradient with respect to the impulses of the kinetic energy of v⁺ minus yᵀ N v⁺, in (s, t, n).

    These are the contact velocities of the motion x with M_uu x = (M v⁺)_u − N_uᵀ y; y: multipliers of non-penetration (n).
    """
    nu, nv = len(g.model.u), len(v_plus)
    # (M v⁺)_u
    x = np.zeros(nu)
    for j in range(nv):
        M, speed = g.M[j], v_plus[j]
        for i in range(nu):
            x[i] += M[g.model.u[i]] * speed
    # − N_uᵀ y
    for k in range(len(y)):
        for i in range(nu):
            sign = sign_of(g, k, g.model.u[i])
            if sign != 0 and y[k] != 0.0:
                at, n = unit_velocity(g, k, g.model.u[i]), g.normals[k]
                x[i] -= sign * y[k] * (at[0] * n[0] + at[1] * n[1] + at[2] * n[2])
    # x = M_uu⁻¹ (…), with closures; J x
    divide_by_inertia(g, x)
    keep_closures(g, x)
    motion = np.zeros(nv)
    for i in range(nu):
        motion[g.model.u[i]] = x[i]
    contact_velocities(g, motion, descent)
