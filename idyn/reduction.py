"""The reduction to the unactuated space: what is left of contact once the joint motion is prescribed  [ZD §3, §4.2, §6.2.2].

    M (v⁺ − v) = Jᵀ p + dt (Pᵀ τ − h),     P v⁺ = v_a + dt q̈_des

    v_u⁰ = v_u − M_uu⁻¹ dt (M_ua q̈_des + h_u)          M_uu = L Lᵀ,   Y = J_u L⁻ᵀ
    J v⁺ = D p + b,     D = Y Yᵀ,     b = J_u v_u⁰ + J_a v_a⁺
    τ    = [ M_au (v_u⁺ − v_u) + M_aa dt q̈_des + dt h_a − J_aᵀ p ] / dt

No 3n×nv matrix is ever formed: a contact is a 3×6 map on the spatial velocity of its body.
"""

import numpy as np

from idyn.compiled import compiled
from idyn.robot import Robot
from idyn.solvers.linalg import backward, cholesky, forward
from idyn.types import Array, ContactSet, DynamicsTerms, Record, State


class GapPolicy(Record):
    """How a measured gap φ becomes an allowance φ/dt (mathematics §4).

    noise: gaps smaller than this count as zero [m]. 0 is the paper's literal form; feet that are measured to be a
        fraction of a millimetre off the ground are asked to close or open it within one period otherwise.
    recovery_speed: penetration is undone at this speed at most [m/s]; inf is the paper's literal form, in which 1 mm of
        penetration demands an escape of 1 m/s at 1 kHz.
    """

    noise: float = 1e-5
    recovery_speed: float = 0.05



class Reduced(Record):
    """The contact problem in the unactuated space: all that a law may see. Rows come in S, T, N order for each contact.

    Y: J_u L⁻ᵀ, so that D = Y Yᵀ (3n, nu)
    b: contact velocity without contact impulses [m/s] (3n)
    energy: gradient of the kinetic energy at p = 0, J_u (v_u⁰ + M_uu⁻¹ M_ua v_a⁺) [m/s] (3n)
    allowance: φ/dt [m/s] (n)
    mu: friction coefficients (n)
    """

    Y: Array
    b: Array
    energy: Array
    allowance: Array
    mu: Array


class Motion(Record):
    """What is needed to go back from impulses to velocities and torques.

    maps: contact maps, rows S, T, N on the spatial velocity of the body (n, 3, 6)
    L: Cholesky factor of M_uu (nu, nu)
    v_free: v⁺ without contact impulses: v_u⁰ and the prescribed v_a⁺ (nv)
    """

    maps: Array
    L: Array
    v_free: Array


def reduce(
    robot: Robot, terms: DynamicsTerms, state: State, contacts: ContactSet, joint_velocity: Array, allowance: Array, dt: float
) -> tuple[Reduced, Motion]:
    """Assemble the reduced problem for prescribed joint velocities v_a⁺ [rad/s] (na) at the end of the period."""
    maps, Y, b, energy, L, v_free = _reduce(
        terms.M, terms.h, terms.axes, robot.support, robot.u, robot.a,
        contacts.bodies, contacts.others, contacts.points, contacts.normals, contacts.tangents,
        state.v, joint_velocity, dt,
    )  # fmt: skip
    return Reduced(Y=Y, b=b, energy=energy, allowance=allowance, mu=contacts.mu), Motion(maps=maps, L=L, v_free=v_free)


def recover(
    robot: Robot, terms: DynamicsTerms, state: State, contacts: ContactSet, motion: Motion, p: Array, dt: float
) -> tuple[Array, Array]:
    """v⁺ (nv) and τ (na) [N·m] that go with contact impulses p (3n), in S, T, N coordinates."""
    return _recover(
        terms.M, terms.h, terms.axes, robot.parents, robot.dof_joint, robot.u, robot.a,
        contacts.bodies, contacts.others, motion.maps, motion.L, motion.v_free, state.v, p, dt,
    )  # fmt: skip


@compiled
def allowance(gaps: Array, dt: float, noise: float, recovery_speed: float) -> Array:
    rates = np.empty(len(gaps))
    for i in range(len(gaps)):
        gap = gaps[i] if abs(gaps[i]) > noise else 0.0
        rates[i] = max(gap / dt, -recovery_speed)
    return rates


@compiled
def contact_maps(points: Array, normals: Array, tangents: Array) -> Array:
    """Rows S, T, N of each contact: d · (v_O + ω × x) = [d, x × d] · (v_O, ω) for direction d at point x (n, 3, 6)."""
    n = len(points)
    maps = np.empty((n, 3, 6))
    for i in range(n):
        s, x, m = tangents[i], points[i], normals[i]
        t0, t1, t2 = m[1] * s[2] - m[2] * s[1], m[2] * s[0] - m[0] * s[2], m[0] * s[1] - m[1] * s[0]
        for r in range(3):
            if r == 0:
                d0, d1, d2 = s[0], s[1], s[2]
            elif r == 1:
                d0, d1, d2 = t0, t1, t2
            else:
                d0, d1, d2 = m[0], m[1], m[2]
            maps[i, r, 0], maps[i, r, 1], maps[i, r, 2] = d0, d1, d2
            maps[i, r, 3] = x[1] * d2 - x[2] * d1
            maps[i, r, 4] = x[2] * d0 - x[0] * d2
            maps[i, r, 5] = x[0] * d1 - x[1] * d0
    return maps


@compiled
def contact_row(maps: Array, i: int, r: int, axes: Array, support: Array, body: int, other: int, j: int) -> float:
    """Entry of J for row r of contact i and degree of freedom j."""
    sign = int(support[body, j]) - int(support[other, j])
    if sign == 0:
        return 0.0
    s = 0.0
    for c in range(6):
        s += maps[i, r, c] * axes[j, c]
    return sign * s


@compiled
def _reduce(M, h, axes, support, u, a, bodies, others, points, normals, tangents, v, joint_velocity, dt):  # type: ignore[no-untyped-def]
    n, nu, na = len(points), len(u), len(a)
    maps = contact_maps(points, normals, tangents)

    M_uu, inertial, free = np.empty((nu, nu)), np.zeros(nu), np.empty(nu)
    v_free = np.empty(len(v))
    for k in range(na):
        v_free[a[k]] = joint_velocity[k]
    for i in range(nu):
        for j in range(nu):
            M_uu[i, j] = M[u[i], u[j]]
        change = 0.0
        for k in range(na):
            m = M[u[i], a[k]]
            change += m * (joint_velocity[k] - v[a[k]])
            inertial[i] += m * joint_velocity[k]
        free[i] = change + dt * h[u[i]]
    L, _ = cholesky(M_uu)
    forward(L, free)
    backward(L, free)
    forward(L, inertial)
    backward(L, inertial)
    for i in range(nu):
        v_free[u[i]] = v[u[i]] - free[i]
        inertial[i] += v_free[u[i]]

    Y, b, energy = np.empty((3 * n, nu)), np.zeros(3 * n), np.zeros(3 * n)
    for i in range(n):
        for r in range(3):
            row = 3 * i + r
            for k in range(nu):
                J = contact_row(maps, i, r, axes, support, bodies[i], others[i], u[k])
                Y[row, k] = J
                b[row] += J * v_free[u[k]]
                energy[row] += J * inertial[k]
            for k in range(na):
                b[row] += contact_row(maps, i, r, axes, support, bodies[i], others[i], a[k]) * joint_velocity[k]
            forward(L, Y[row])
    return maps, Y, b, energy, L, v_free


@compiled
def generalized_force(maps, axes, parents, dof_joint, bodies, others, p):  # type: ignore[no-untyped-def]
    """Jᵀ p (nv): contact impulses gathered as wrenches on the bodies and handed down the tree."""
    wrench = np.zeros((len(parents), 6))
    for i in range(len(bodies)):
        for r in range(3):
            for c in range(6):
                f = maps[i, r, c] * p[3 * i + r]
                wrench[bodies[i], c] += f
                wrench[others[i], c] -= f
    for j in range(len(parents) - 1, 0, -1):
        for c in range(6):
            wrench[parents[j], c] += wrench[j, c]
    force = np.zeros(len(dof_joint))
    for k in range(len(dof_joint)):
        for c in range(6):
            force[k] += axes[k, c] * wrench[dof_joint[k], c]
    return force


@compiled
def _recover(M, h, axes, parents, dof_joint, u, a, bodies, others, maps, L, v_free, v, p, dt):  # type: ignore[no-untyped-def]
    nu, na, nv = len(u), len(a), len(v)
    force = generalized_force(maps, axes, parents, dof_joint, bodies, others, p)
    change = np.empty(nu)
    for i in range(nu):
        change[i] = force[u[i]]
    forward(L, change)
    backward(L, change)
    v_plus = v_free.copy()
    for i in range(nu):
        v_plus[u[i]] += change[i]
    tau = np.empty(na)
    for k in range(na):
        s = dt * h[a[k]] - force[a[k]]
        for j in range(nv):
            s += M[a[k], j] * (v_plus[j] - v[j])
        tau[k] = s / dt
    return v_plus, tau
