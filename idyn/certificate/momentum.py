"""Terms of the certificate in the full space: momentum, demand, contact velocities.

They are computed from the problem data only (M, h, joint axes, contact geometry), by code that no law or solver uses. Body
twists are summed along the tree (`idyn.certificate.drift`); impulses are vectors in the world; `idyn.certificate.closures`
handles closed chains. The input is a `Given` (`idyn.terms.stages`), without J or Y.
"""

import numpy as np

from idyn.certificate.closures import keep_closures
from idyn.certificate.drift import body_twists, divide_by_inertia, midpoint, point_velocity, sign_of
from idyn.jit.compiled import compiled
from idyn.jit.stack import stack_array
from idyn.model.so3 import cross
from idyn.terms.stages import Given
from idyn.types import Array


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
                at = point_velocity(g.axes[g.model.u[i]], g.points[k])
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
    for i in range(len(impulse)):
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
    x, y, z = point_velocity(g.axes[j], g.points[k])
    return (x * x + y * y + z * z) / g.M[j, j]


@compiled
def contact_velocities(g: Given, v: Array, out: Array) -> None:
    """Fill `out` (n, 3): relative velocity of the two bodies at each contact, in (s, t, n)."""
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
                at, n = point_velocity(g.axes[g.model.u[i]], g.points[k]), g.normals[k]
                x[i] -= sign * y[k] * (at[0] * n[0] + at[1] * n[1] + at[2] * n[2])
    # x = M_uu⁻¹ (…), with closures; J x
    divide_by_inertia(g, x)
    keep_closures(g, x)
    motion = np.zeros(nv)
    for i in range(nu):
        motion[g.model.u[i]] = x[i]
    contact_velocities(g, motion, descent)
