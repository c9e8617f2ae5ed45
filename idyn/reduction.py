"""The reduction to the unactuated space: what is left of contact once the joint motion is prescribed  [ZD §3, §4.2, §6.2.2].

M (v⁺ − v) = Jᵀ p + dt (Pᵀ τ − h),     P v⁺ = v_a + dt q̈_des

v_u⁰ = v_u − M_uu⁻¹ dt (M_ua q̈_des + h_u)          M_uu = L Lᵀ,   Y = J_u L⁻ᵀ
J v⁺ = D p + b,     D = Y Yᵀ,     b = J_u v_u⁰ + J_a v_a⁺
τ    = [ M_au (v_u⁺ − v_u) + M_aa dt q̈_des + dt h_a − J_aᵀ p ] / dt
"""

import numpy as np

from idyn.compiled import compiled
from idyn.dynamics import Dynamics
from idyn.ground import allowance
from idyn.solvers.linalg import backward, cholesky, copy, forward
from idyn.types import Array, Record


class Reduced(Record, frozen=True):
    """The contact problem in the unactuated space: all that a law may see. Rows come in S, T, N order for each contact.

    It is stated for û = J v̂, the contact velocity that the law is asked of (`idyn.ground`); on rigid ground v̂ = v⁺.

    Y: √(1 + T_p/dt) J_u L⁻ᵀ, so that û = D p + b with D = Y Yᵀ (3n, nu)
    b: û without contact impulses, with the allowance φ/dt added on the N rows [m/s] (3n)
    energy: gradient at p = 0 of the kinetic energy of v̂, J_u (v̂_u + M_uu⁻¹ M_ua v̂_a) [m/s] (3n)
    mu: friction coefficients (n)
    independent: share of a tangential row's length that must be new for it to count, see `Ground.independent`
    """

    Y: Array
    b: Array
    energy: Array
    mu: Array
    independent: float = 1e-3


def reduce(dynamics: Dynamics, q_ddot: Array) -> Reduced:
    """The reduced problem for demanded joint accelerations [rad/s²] (na), in the record's own arrays: true until it is filled
    again, by this or by `idyn.dynamics.evaluate`."""
    eliminate(dynamics.fields, q_ddot)
    d = dynamics
    return Reduced(Y=d.Y, b=d.b, energy=d.energy, mu=d.mu, independent=d.independent)


@compiled
def eliminate(d, q_ddot):
    """Fills met, L, v_free, Y, b and energy of the record."""
    copy(q_ddot, d.met)
    nu, na, nv = len(d.u), len(d.a), len(d.v)
    dt = d.dt
    inertial, free, hat = np.zeros(nu), np.empty(nu), np.empty(nv)  # hat: v̂ without contact impulses
    for k in range(na):
        a = d.a[k]
        d.v_free[a] = d.v[a] + dt * q_ddot[k]
        hat[a] = d.v_free[a] - d.keep * d.v[a]
    for i in range(nu):
        u = d.u[i]
        for j in range(nu):
            d.L[i, j] = d.M[u, d.u[j]]
        change = 0.0
        for k in range(na):
            m = d.M[u, d.a[k]]
            change += m * q_ddot[k]
            inertial[i] += m * hat[d.a[k]]
        free[i] = dt * (change + d.h[u])
    cholesky(d.L)
    forward(d.L, free)
    backward(d.L, free)
    forward(d.L, inertial)
    backward(d.L, inertial)
    for i in range(nu):
        u = d.u[i]
        d.v_free[u] = d.v[u] - free[i]
        hat[u] = d.v_free[u] - d.keep * d.v[u]
        inertial[i] += hat[u]

    for row in range(len(d.b)):
        b, energy = allowance(d, row // 3) if row % 3 == 2 else 0.0, 0.0
        for j in range(nv):
            b += d.J[row, j] * hat[j]
        for k in range(nu):
            J = d.J[row, d.u[k]]
            d.Y[row, k] = J
            energy += J * inertial[k]
        d.b[row], d.energy[row] = b, energy
        forward(d.L, d.Y[row])
    if d.rho > 0.0:
        _remember(d)


@compiled
def _remember(d):
    """Adds the memory ρ D (p − p⁻) to û = D p + b."""
    (rows, nu), rho = d.Y.shape, d.rho
    held = np.zeros(nu)
    for row in range(rows):
        for k in range(nu):
            held[k] += d.Y[row, k] * d.last[row]
    for row in range(rows):
        for k in range(nu):
            share = rho * d.Y[row, k] * held[k]
            d.b[row] -= share
            d.energy[row] -= share
            d.Y[row, k] *= np.sqrt(1.0 + rho)


@compiled
def recover(d, p, v_plus, tau):
    """Fills v⁺ (nv) and τ (na) [N·m] that go with contact impulses p (3n), in S, T, N rows."""
    nu, nv, dt = len(d.u), len(d.v), d.dt
    force, change = np.zeros(nv), np.empty(nu)  # Jᵀ p; M_uu⁻¹ J_uᵀ p
    for row in range(len(p)):
        if p[row] != 0.0:
            for j in range(nv):
                force[j] += d.J[row, j] * p[row]
    for i in range(nu):
        change[i] = force[d.u[i]]
    forward(d.L, change)
    backward(d.L, change)
    copy(d.v_free, v_plus)
    for i in range(nu):
        v_plus[d.u[i]] += change[i]
    for k in range(len(d.a)):
        a = d.a[k]
        s = dt * d.h[a] - force[a]
        for j in range(nv):
            s += d.M[a, j] * (v_plus[j] - d.v[j])
        tau[k] = s / dt
