"""What the certificate reckons with, in the full space: momentum, demand, velocities at the contacts.

From the problem data alone (M, h, joint axes, contact geometry), by code that no law and no solver uses: body twists are summed
along the tree (`idyn.certificate.motion`), impulses are world vectors; closed chains are in `idyn.certificate.closures`. Of a
`Dynamics` it reads what was put in, the demand that was met, and p⁻; what else follows from that (J, and all that a demand
makes of it) it never looks at.
"""

import numpy as np

from idyn.certificate.closures import hold_closed, middle
from idyn.certificate.motion import body_twists, cross, divide_by_inertia, point_velocity, sign_of
from idyn.jit.compiled import compiled
from idyn.jit.memory import local


@compiled
def allowance_of(d, i):
    """φ/dt after the noise floor and the recovery limit [m/s]."""
    return 0.0 if abs(d.gaps[i]) <= d.noise else max(d.gaps[i] / d.dt, -d.recovery_speed)


@compiled
def asked_of(d, v_plus, impulse, v_hat):
    """Fills v̂, of which the law is asked (nv)."""
    for j in range(len(v_hat)):
        v_hat[j] = v_plus[j] - d.keep * d.v[j]
    if d.rho > 0.0:
        remembered = local((len(d.mu), 3))
        in_world(d, d.last, remembered)
        change = _response(d, impulse - remembered)
        for i in range(len(d.u)):
            v_hat[d.u[i]] += d.rho * change[i]


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
def in_world(d, p, impulse):
    """Fills world vectors (n, 3) with impulses in rows S, T, N (3n)."""
    for i in range(len(impulse)):
        t = cross(d.normals[i], d.tangents[i])
        for c in range(3):
            impulse[i, c] = p[3 * i] * d.tangents[i, c] + p[3 * i + 1] * t[c] + p[3 * i + 2] * d.normals[i, c]


@compiled
def _response(d, impulse):
    """M_uu⁻¹ J_uᵀ of impulses that are world vectors (n, 3): what they do to the unactuated velocities (nu)."""
    x = np.zeros(len(d.u))
    for k in range(len(impulse)):
        for i in range(len(x)):
            sign = sign_of(d, k, d.u[i])
            if sign != 0:
                at = point_velocity(d.axes[d.u[i]], d.points[k])
                x[i] += sign * (at[0] * impulse[k, 0] + at[1] * impulse[k, 1] + at[2] * impulse[k, 2])
    divide_by_inertia(d, x)
    hold_closed(d, x)
    return x


@compiled
def imbalance(d, v_plus, tau, impulse):
    """‖M(v⁺−v) − Jᵀp − dt(Pᵀτ − h)‖∞ for impulses as world vectors (n, 3); inf when it is no number."""
    v, axes, support, dt = d.v, d.axes, d.support, d.dt
    nv = len(v)
    balance = local(nv)
    for j in range(nv):
        balance[j] = dt * d.h[j]
    for k in range(nv):  # M is symmetric: by columns no sum waits for itself
        M, gain = d.M[k], v_plus[k] - v[k]
        for j in range(nv):
            balance[j] += M[j] * gain
    for k in range(len(d.a)):
        balance[d.a[k]] -= dt * tau[k]
    for i in range(len(impulse)):
        f, first, second = impulse[i], support[d.bodies[i]], support[d.others[i]]
        moment = cross(d.points[i], f)
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
                at = point_velocity(axes[j], middle(d, k))
                power = at[0] * f[0] + at[1] * f[1] + at[2] * f[2]
                balance[j] -= power if first[j] else -power
    worst = 0.0
    for j in range(nv):
        worst = max(worst, abs(balance[j])) if balance[j] == balance[j] else np.inf
    return worst


@compiled
def contact_velocities(d, v, out):
    """Fills the relative velocity of the bodies at each contact in (s, t, n) (n, 3)."""
    twists = local((len(d.parents), 6))
    body_twists(d, v, twists)
    for i in range(len(out)):
        s, n = d.tangents[i], d.normals[i]
        t = cross(n, s)
        one, other = point_velocity(twists[d.bodies[i]], d.points[i]), point_velocity(twists[d.others[i]], d.points[i])
        x = one[0] - other[0], one[1] - other[1], one[2] - other[2]
        out[i, 0] = s[0] * x[0] + s[1] * x[1] + s[2] * x[2]
        out[i, 1] = t[0] * x[0] + t[1] * x[1] + t[2] * x[2]
        out[i, 2] = n[0] * x[0] + n[1] * x[1] + n[2] * x[2]


@compiled
def energy_descent(d, v_plus, y, descent):
    """Fills the gradient of the kinetic energy of v⁺ with respect to the impulses, less the multipliers' part, in (s, t, n)
    (n, 3): the contact velocities of the unactuated motion x with M_uu x = (M v⁺)_u − N_uᵀ y."""
    nu, nv = len(d.u), len(v_plus)
    x = np.zeros(nu)
    for j in range(nv):
        M, speed = d.M[j], v_plus[j]
        for i in range(nu):
            x[i] += M[d.u[i]] * speed
    for k in range(len(y)):
        for i in range(nu):
            sign = sign_of(d, k, d.u[i])
            if sign != 0 and y[k] != 0.0:
                at, n = point_velocity(d.axes[d.u[i]], d.points[k]), d.normals[k]
                x[i] -= sign * y[k] * (at[0] * n[0] + at[1] * n[1] + at[2] * n[2])
    divide_by_inertia(d, x)
    hold_closed(d, x)
    motion = np.zeros(nv)
    for i in range(nu):
        motion[d.u[i]] = x[i]
    contact_velocities(d, motion, descent)
