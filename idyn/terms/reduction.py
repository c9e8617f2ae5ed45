"""The reduction to the unactuated space: what is left of contact once the joint motion is prescribed  [ZD §3, §4.2, §6.2.2].

M (v⁺ − v) = Jᵀ p + dt (Pᵀ τ − h),     P v⁺ = v_a + dt q̈_des          closed chains: `idyn.model.closures`

v_u⁰ = v_u − M_uu⁻¹ dt (M_ua q̈_des + h_u)          M_uu = L Lᵀ,   Y = J_u L⁻ᵀ
J v⁺ = D p + b,     D = Y Yᵀ,     b = J_u v_u⁰ + J_a v_a⁺
τ    = [ M_au (v_u⁺ − v_u) + M_aa dt q̈_des + dt h_a − J_aᵀ p ] / dt
"""

import numpy as np

from idyn.contact.ground import allowance
from idyn.jit.compiled import compiled
from idyn.jit.memory import local
from idyn.model.closures import close_loops, press_back
from idyn.solvers.linalg import backward, cholesky, copy, forward, forward_rows
from idyn.terms.dynamics import Dynamics
from idyn.types import Array, Record


class Reduced(Record, frozen=True):
    """The contact problem in the unactuated space: all that a law may see. Rows come in S, T, N order for each contact.

    It is stated for û = J v̂, the contact velocity that the law is asked of (`idyn.contact.ground`); on rigid ground v̂ = v⁺.

    Y: √(1 + T_p/dt) J_u L⁻ᵀ, so that û = D p + b with D = Y Yᵀ (3n, nu)
    b: û without contact impulses, with the allowance φ/dt added on the N rows [m/s] (3n)
    energy: gradient at p = 0 of the kinetic energy of v̂, J_u (v̂_u + M_uu⁻¹ M_ua v̂_a) [m/s] (3n)
    mu: friction coefficients (n)
    dynamics: the whole of it, for laws that know what the ground is made of
    independent: share of a tangential row's length that must be new for it to count, see `Ground.independent`
    """

    Y: Array
    b: Array
    energy: Array
    mu: Array
    dynamics: Dynamics | None = None
    independent: float = 1e-3


def reduce(dynamics: Dynamics, q_ddot: Array) -> Reduced:
    """The reduced problem for demanded joint accelerations [rad/s²] (na), in the record's own arrays: true until it is filled
    again, by this or by `idyn.terms.dynamics.evaluate`."""
    eliminate(dynamics.fields, q_ddot)
    d = dynamics
    return Reduced(Y=d.Y, b=d.b, energy=d.energy, mu=d.mu, dynamics=d, independent=d.independent)


@compiled
def eliminate(d, q_ddot):
    """Fills met, L, v_free, Y, b and energy of the record."""
    free_motion(d, q_ddot)
    M, v, v_free, u, a = d.M, d.v, d.v_free, d.u, d.a
    hat, inertial = local(len(v)), local(len(u))  # v̂ without contact impulses; v̂_u + M_uu⁻¹ M_ua v̂_a
    for j in range(len(v)):
        hat[j] = v_free[j] - d.keep * v[j]
    for i in range(len(u)):
        inertial[i] = 0.0
        for k in range(len(a)):
            inertial[i] += M[u[i], a[k]] * hat[a[k]]
    forward(d.L, inertial)
    backward(d.L, inertial)
    for i in range(len(u)):
        inertial[i] += hat[u[i]]
    _project(d, hat, inertial)
    if len(d.G) > 0:
        close_loops(d, inertial)
    if d.rho > 0.0:
        _remember(d)


@compiled
def free_motion(d, q_ddot):
    """Fills met, L and v_free of the record: all there is where nothing touches."""
    copy(q_ddot, d.met)
    M, L, v, v_free, u, a, dt = d.M, d.L, d.v, d.v_free, d.u, d.a, d.dt
    free = local(len(u))
    for k in range(len(a)):
        v_free[a[k]] = v[a[k]] + dt * q_ddot[k]
    for i in range(len(u)):
        for j in range(len(u)):
            L[i, j] = M[u[i], u[j]]
        change = 0.0
        for k in range(len(a)):
            change += M[u[i], a[k]] * q_ddot[k]
        free[i] = dt * (change + d.h[u[i]])
    cholesky(L)
    forward(L, free)
    backward(L, free)
    for i in range(len(u)):
        v_free[u[i]] = v[u[i]] - free[i]


@compiled
def _project(d, hat, inertial):
    """Fills b, energy and Y."""
    J, L, Y, u, b, energy = d.J, d.L, d.Y, d.u, d.b, d.energy
    for row in range(len(b)):
        velocity, slope = allowance(d, row // 3) if row % 3 == 2 else 0.0, 0.0
        for j in range(len(hat)):
            velocity += J[row, j] * hat[j]
        for k in range(len(u)):
            Y[row, k] = J[row, u[k]]
            slope += Y[row, k] * inertial[k]
        b[row], energy[row] = velocity, slope
    forward_rows(L, Y)


@compiled
def _remember(d):
    """Adds the memory ρ D (p − p⁻) to û = D p + b."""
    (rows, nu), rho = d.Y.shape, d.rho
    held, stretch = np.zeros(nu), np.sqrt(1.0 + rho)
    for row in range(rows):
        y = d.Y[row]
        for k in range(nu):
            held[k] += y[k] * d.last[row]
    for row in range(rows):
        y, share = d.Y[row], 0.0
        for k in range(nu):
            share += rho * y[k] * held[k]
            y[k] *= stretch
        d.b[row] -= share
        d.energy[row] -= share


@compiled
def recover(d, p, v_plus, tau):
    """Fills v⁺ (nv) and τ (na) [N·m] that go with contact impulses p (3n), in S, T, N rows; and `closing`."""
    v, u, a, dt = d.v, d.u, d.a, d.dt
    nu, nv = len(u), len(v)
    force, change, gain = local(nv), local(nu), local(nv)  # Jᵀ p + Gᵀ λ; M_uu⁻¹ of it; v⁺ − v
    for j in range(nv):
        force[j] = 0.0
    for row in range(len(p)):
        if p[row] != 0.0:
            J = d.J[row]
            for j in range(nv):
                force[j] += J[j] * p[row]
    press_back(d, p)
    for i in range(nu):
        change[i] = force[u[i]]
    for row in range(len(d.G)):
        G, more, before = d.G[row], d.closing[row], d.closing_free[row]
        for i in range(nu):
            change[i] += G[u[i]] * (more - before)
        for j in range(nv):
            force[j] += G[j] * more
    forward(d.L, change)
    backward(d.L, change)
    copy(d.v_free, v_plus)
    for i in range(nu):
        v_plus[u[i]] += change[i]
    for j in range(nv):
        gain[j] = v_plus[j] - v[j]
    for k in range(len(a)):
        M, s = d.M[a[k]], dt * d.h[a[k]] - force[a[k]]
        for j in range(nv):
            s += M[j] * gain[j]
        tau[k] = s / dt
