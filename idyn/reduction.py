"""The reduction to the unactuated space: what is left of contact once the joint motion is prescribed  [ZD §3, §4.2, §6.2.2].

    M (v⁺ − v) = Jᵀ p + dt (Pᵀ τ − h),     P v⁺ = v_a + dt q̈_des

    v_u⁰ = v_u − M_uu⁻¹ dt (M_ua q̈_des + h_u)          M_uu = L Lᵀ,   Y = J_u L⁻ᵀ
    J v⁺ = D p + b,     D = Y Yᵀ,     b = J_u v_u⁰ + J_a v_a⁺
    τ    = [ M_au (v_u⁺ − v_u) + M_aa dt q̈_des + dt h_a − J_aᵀ p ] / dt

No 3n×nv matrix is ever formed: a contact is a 3×6 map on the spatial velocity of its body.
"""

import numpy as np

from idyn.compiled import compiled
from idyn.ground import Ground, allowance, ground_numbers, unpacked
from idyn.robot import Robot
from idyn.solvers.linalg import backward, cholesky, forward
from idyn.types import Array, ContactSet, DynamicsTerms, Record, State


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


class Motion(Record, frozen=True):
    """What is needed to go back from impulses to velocities and torques.

    maps: contact maps, rows S, T, N on the spatial velocity of the body (n, 3, 6)
    L: Cholesky factor of M_uu (nu, nu)
    v_free: v⁺ without contact impulses: v_u⁰ and the prescribed v_a⁺ (nv)
    """

    maps: Array
    L: Array
    v_free: Array


def reduce(
    robot: Robot,
    terms: DynamicsTerms,
    state: State,
    contacts: ContactSet,
    q_ddot: Array,
    dt: float,
    ground: Ground,
    last: Array | None = None,
) -> tuple[Reduced, Motion]:
    """Assemble the reduced problem for demanded joint accelerations [rad/s²] (na).

    last: p⁻, what the memory of the ground holds on to [N·s] (3n); none where it has no memory
    """
    numbers = ground_numbers(ground, dt)
    n, nu = len(contacts.keys), robot.nu
    maps, Y, b, energy = np.empty((n, 3, 6)), np.empty((3 * n, nu)), np.empty(3 * n), np.empty(3 * n)
    L, v_free = np.empty((nu, nu)), np.empty(robot.nv)
    _reduce(
        terms.M, terms.h, terms.axes, robot.support, robot.u, robot.a,
        contacts.bodies, contacts.others, contacts.points, contacts.normals, contacts.tangents, contacts.gaps,
        state.v, q_ddot, dt, numbers, maps, Y, b, energy, L, v_free,
    )  # fmt: skip
    if last is not None and ground.memory > 0.0:
        _remember(ground.memory / dt, last, Y, b, energy)
    reduced = Reduced(Y=Y, b=b, energy=energy, mu=contacts.mu, independent=ground.independent)
    return reduced, Motion(maps=maps, L=L, v_free=v_free)


@compiled
def contact_maps(points: Array, normals: Array, tangents: Array, maps: Array) -> None:
    """Fills maps (n, 3, 6) with the rows S, T, N: d · (v_O + ω × x) = [d, x × d] · (v_O, ω) for direction d at point x."""
    for i in range(len(points)):
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
def jacobian(maps, axes, support, bodies, others, columns):
    """The columns of J, rows S, T, N for each contact, transposed: (len(columns), 3n)."""
    J = np.empty((len(columns), 3 * len(bodies)))
    for i in range(len(bodies)):
        for r in range(3):
            for k in range(len(columns)):
                J[k, 3 * i + r] = contact_row(maps, i, r, axes, support, bodies[i], others[i], columns[k])
    return J


@compiled
def _reduce(
    M, h, axes, support, u, a, bodies, others, points, normals, tangents, gaps, v, q_ddot, dt, numbers,
    maps, Y, b, energy, L, v_free,
):  # fmt: skip
    """Fills maps, Y, b, energy, L and v_free: to hand arrays in costs half of what handing them out does."""
    n, nu, na = len(points), len(u), len(a)
    ground = unpacked(numbers)
    contact_maps(points, normals, tangents, maps)
    inertial, free, hat = np.zeros(nu), np.empty(nu), np.empty(len(v))  # hat: v̂ without contact impulses
    for k in range(na):
        v_free[a[k]] = v[a[k]] + dt * q_ddot[k]
        hat[a[k]] = v_free[a[k]] - ground.keep * v[a[k]]
    for i in range(nu):
        for j in range(nu):
            L[i, j] = M[u[i], u[j]]
        change = 0.0
        for k in range(na):
            m = M[u[i], a[k]]
            change += m * q_ddot[k]
            inertial[i] += m * hat[a[k]]
        free[i] = dt * (change + h[u[i]])
    cholesky(L)
    forward(L, free)
    backward(L, free)
    forward(L, inertial)
    backward(L, inertial)
    for i in range(nu):
        v_free[u[i]] = v[u[i]] - free[i]
        hat[u[i]] = v_free[u[i]] - ground.keep * v[u[i]]
        inertial[i] += hat[u[i]]

    for i in range(n):
        for r in range(3):
            row = 3 * i + r
            b[row] = allowance(gaps[i], dt, ground) if r == 2 else 0.0
            energy[row] = 0.0
            for k in range(nu):
                J = contact_row(maps, i, r, axes, support, bodies[i], others[i], u[k])
                Y[row, k] = J
                b[row] += J * hat[u[k]]
                energy[row] += J * inertial[k]
            for k in range(na):
                b[row] += contact_row(maps, i, r, axes, support, bodies[i], others[i], a[k]) * hat[a[k]]
            forward(L, Y[row])


@compiled
def _remember(rho: float, last: Array, Y: Array, b: Array, energy: Array) -> None:
    """Adds the memory ρ D (p − p⁻) to û = D p + b."""
    rows, nu = Y.shape
    held = np.zeros(nu)
    for k in range(nu):
        for row in range(rows):
            held[k] += Y[row, k] * last[row]
    for row in range(rows):
        for k in range(nu):
            share = rho * Y[row, k] * held[k]
            b[row] -= share
            energy[row] -= share
            Y[row, k] *= np.sqrt(1.0 + rho)


@compiled
def generalized_force(maps, axes, parents, dof_joint, bodies, others, p):
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
def recover(M, h, axes, parents, dof_joint, u, a, bodies, others, maps, L, v_free, v, p, dt):
    """v⁺ (nv) and τ (na) [N·m] that go with contact impulses p (3n), in S, T, N rows."""
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
