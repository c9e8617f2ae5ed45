"""Kernels of ticks in which no limit binds: the motion nearest to the tasks, and its forces.

    0 = W (J v̇ + J̇ v + J v/T_r) + W φ/dt²,  G v̇ + (G v + rate)/dt = 0,  Zᵀ (M_u v̇ + h_u + ρ J_uᵀ f⁻) = 0        first level
    A v̇ + drift = asked                                                                                      levels of the tasks
    v̇_a = −v_a · REST                                                                                        last level

Z spans the directions of the unactuated space that no permitted force reaches. For the other symbols see
`idyn.tasks.held`; there the same equations are solved for coordinates, on which limits are linear.
"""

import numpy as np

from idyn.contact.ground import allowance
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Indices, Matrix, Vector, written
from idyn.solvers.linalg import dot
from idyn.solvers.rows import lexicographic, reduce_rows, unreflect
from idyn.terms.stages import Dynamics
from idyn.types import Array

OPEN, SLIDE, STICK = range(3)
"""Kinds of contact modes in kernels."""

REST = 10.0
"""Rate at which joints come to rest that no task moves [1/s]."""

CONTACT = (Indices, Matrix)
ROWS = (Matrix, Vector, Vector, Indices)


@entry(
    Dynamics,
    *(CONTACT, ROWS, ROWS),
    *((Vector, Vector, Matrix), (float,) * 2, bool),
    written((Vector, Vector)),
)
def follow(
    d: Dynamics,
    contact: tuple[Array, Array],
    tasks: tuple[Array, ...],
    pushes: tuple[Array, ...],
    limits: tuple[Array, ...],
    bounds: tuple[float, float],
    unlimited: bool,
    out: tuple[Array, Array],
) -> tuple[bool, int]:
    """Fill v̇ (nv), the motion nearest to the tasks, and f (3n), the forces nearest to the contact tasks. Return whether both
    are within the limits, and the dimension of the choice of f; −1 if v̇ is beyond its limits. An empty array f is not filled.

    contact: (kind of each mode (n), friction per normal force of contacts that slide (n, 2))
    tasks: (A (r, nv), asked − drift (r), square roots of the weights (r), end of the rows of each level (levels))
    pushes: the contact tasks in the same form, A (r, 3n)
    limits: (least, largest accelerations of the joints, each (na); corners of the friction polygon (k, 2))
    bounds: (margin of friction, least normal force), see `TaskLimits`; unlimited: whether every μ > 0 counts as ∞
    """
    (lower, upper, corners), (motion, force), g = limits, out, d.given
    unreached = stack_array((len(g.model.u), len(g.model.u)))
    missing = _unreached(d, contact, unreached)
    _fill_motion(d, contact, (unreached, missing), tasks, motion)
    for k in range(len(lower)):
        if not lower[k] <= motion[g.model.a[k]] <= upper[k]:
            return False, -1
    choice = _columns(d, contact[0]) - len(d.G) - (len(g.model.u) - missing)
    if len(force) == 0:
        return True, choice
    _fill_forces(d, contact, pushes, motion, force)
    return keeps_limits((force, lower[:0], contact[0]), (corners, g.mu, upper[:0]), 1.0, bounds, unlimited), choice


@compiled
def _fill_motion(
    d: Dynamics, contact: tuple[Array, Array], span: tuple[Array, int], tasks: tuple[Array, ...], motion: Array
) -> None:
    """Fill v̇ (nv). span: (directions that no force reaches, as rows; their number); the others are those of `follow`"""
    g, (A, wanted, roots, ends), (unreached, missing) = d.given, tasks, span
    u, a, nv, held = g.model.u, g.model.a, len(g.v), _columns(d, contact[0])
    resting = 0 if _moves_all_joints(A, a) else len(a)
    first, count = held + missing, held + missing + len(A) + resting
    rows, b = np.zeros((nv, count)), np.empty(count)
    _held_rows(d, contact[0], rows, b)
    last = _last_push(d)
    for k in range(missing):
        s = 0.0
        for i in range(len(u)):
            z = unreached[k, i]
            s += z * (g.h[u[i]] + last[i])
            for j in range(nv):
                rows[j, held + k] += z * g.M[u[i], j]
        b[held + k] = -s
    for i in range(len(A)):
        b[first + i] = roots[i] * wanted[i]
        for j in range(nv):
            rows[j, first + i] = roots[i] * A[i, j]
    for k in range(resting):
        rows[a[k], first + len(A) + k], b[first + len(A) + k] = 1.0, -REST * g.v[a[k]]
    levels = np.empty(len(ends) + 2, np.int64)
    levels[0], levels[len(ends) + 1] = first, count
    for k in range(len(ends)):
        levels[k + 1] = first + ends[k]
    lexicographic(rows, b, levels, motion, np.empty((nv, nv)))


@compiled
def _moves_all_joints(A: Array, a: Array) -> bool:
    """Return whether each joint has a row of its own, as in a task of the whole posture: none is left to come to rest."""
    last = len(A) - len(a)
    for k in range(len(a)):
        if last < 0 or A[last + k, a[k]] == 0.0:
            return False
        for j in range(A.shape[1]):
            if j != a[k] and A[last + k, j] != 0.0:
                return False
    return True


@compiled
def _fill_forces(d: Dynamics, contact: tuple[Array, Array], tasks: tuple[Array, ...], motion: Array, force: Array) -> None:
    """Fill the contact forces f of a motion v̇ that are nearest to the contact tasks, of least norm (3n)."""
    g, (A, wanted, roots, ends) = d.given, tasks
    u, count, rho = g.model.u, _columns(d, contact[0]), g.rho if len(g.model.u) > 0 else 0.0
    # unknowns ζ: J_uᵀ B ζ + G_uᵀ λ = (M_u v̇ + h_u + ρ J_uᵀ f⁻)/(1 + ρ), then the tasks
    nu = len(u)
    rows, b, pushes = np.zeros((count, nu + len(A))), np.empty(nu + len(A)), np.empty((nu, count))
    _pushes(d, contact, pushes)
    last = _last_push(d)
    for i in range(nu):
        b[i] = (dot(g.M[u[i]], motion) + g.h[u[i]] + last[i]) / (1.0 + rho)
        for c in range(count):
            rows[c, i] = pushes[i, c]
    columns = np.zeros((count, len(force)))
    _force_columns(d, contact, columns)
    for i in range(len(A)):
        b[nu + i] = roots[i] * wanted[i]
        for c in range(count):
            rows[c, nu + i] = roots[i] * dot(A[i], columns[c])
    levels = np.empty(len(ends) + 1, np.int64)
    levels[0] = nu
    for k in range(len(ends)):
        levels[k + 1] = nu + ends[k]
    unknown = np.empty(count)
    lexicographic(rows, b, levels, unknown, np.empty((count, count)))
    for row in range(len(force)):
        force[row] = 0.0
        for c in range(count):
            force[row] += columns[c, row] * unknown[c]


@compiled
def keeps_limits(
    answer: tuple[Array, ...], limits: tuple[Array, ...], dt: float, bounds: tuple[float, float], unlimited: bool
) -> bool:
    """Return whether forces p/dt and torques are within the limits.

    answer: (p, τ, kinds of the modes); bounds: (margin, least); the other arguments are those of `fill_modes`
    """
    (p, tau, kinds), (corners, mu, most), (margin, least) = answer, limits, bounds
    for k in range(len(tau)):
        if not abs(tau[k]) <= most[k]:
            return False
    for i in range(len(kinds)):
        s, t, normal = p[3 * i] / dt, p[3 * i + 1] / dt, p[3 * i + 2] / dt
        if kinds[i] != OPEN and normal < least:
            return False
        if kinds[i] == STICK and mu[i] < np.inf and not (unlimited and mu[i] > 0.0):
            for c in range(len(corners)):
                e, f = corners[c], corners[(c + 1) % len(corners)]
                x, y = e[0] + f[0], e[1] + f[1]
                if x * s + y * t > mu[i] * (1.0 - margin) * (x * e[0] + y * e[1]) * normal + 1e-9:
                    return False
    return True


@compiled
def _sticks(d: Dynamics, kinds: Array, i: int) -> bool:
    """Return whether the tangential rows of a contact are held."""
    return bool(kinds[i] == STICK and d.given.mu[i] > 0.0)


@compiled
def _width(d: Dynamics, kinds: Array, i: int) -> int:
    """Return the number of unknowns ζ of a contact, and of its held rows."""
    return 0 if kinds[i] == OPEN else 3 if _sticks(d, kinds, i) else 1


@compiled
def _columns(d: Dynamics, kinds: Array) -> int:
    """Return the number of unknowns ζ and λ, and of rows that contacts and closures hold."""
    count = len(d.G)
    for i in range(len(kinds)):
        count += _width(d, kinds, i)
    return count


@compiled
def _force_columns(d: Dynamics, contact: tuple[Array, Array], columns: Array) -> None:
    """Fill the columns of B, of unit length, as rows (m, 3n) of zeros; those of λ stay zero."""
    kinds, friction = contact
    c = 0
    for i in range(len(kinds)):
        if kinds[i] == OPEN:
            continue
        if _sticks(d, kinds, i):
            for r in range(3):
                columns[c + r, 3 * i + r] = 1.0
            c += 3
        else:
            s, t = friction[i]
            length = np.sqrt(1.0 + s * s + t * t)
            columns[c, 3 * i], columns[c, 3 * i + 1], columns[c, 3 * i + 2] = s / length, t / length, 1.0 / length
            c += 1


@compiled
def _pushes(d: Dynamics, contact: tuple[Array, Array], pushes: Array) -> None:
    """Fill the columns of (J_uᵀ B, G_uᵀ) (nu, m)."""
    u, kinds, columns, c = d.given.model.u, contact[0], np.zeros((pushes.shape[1], len(d.J))), 0
    _force_columns(d, contact, columns)
    for contact_row in range(0, len(d.J), 3):
        for _ in range(_width(d, kinds, contact_row // 3)):
            for i in range(len(u)):
                s = 0.0
                for row in range(contact_row, contact_row + 3):
                    s += d.J[row, u[i]] * columns[c, row]
                pushes[i, c] = s
            c += 1
    for i in range(len(u)):
        for k in range(len(d.G)):
            pushes[i, c + k] = d.G[k, u[i]]


@compiled
def _unreached(d: Dynamics, contact: tuple[Array, Array], unreached: Array) -> int:
    """Fill the first rows of `unreached` with an orthonormal basis of the directions of the unactuated space that no permitted
    force reaches. Return their number."""
    nu, count = len(d.given.model.u), _columns(d, contact[0])
    if nu == 0:
        return 0
    pushes, H = np.empty((nu, count)), np.empty((nu, nu))
    _pushes(d, contact, pushes)
    rank = reduce_rows(pushes, np.zeros(count), (0, count), H, 0, 0.0)
    for k in range(rank, nu):
        z = unreached[k - rank]
        for i in range(nu):
            z[i] = 1.0 if i == k else 0.0
        unreflect(H, rank, z)
    return nu - rank


@compiled
def _last_push(d: Dynamics) -> Array:
    """Return ρ J_uᵀ f⁻ (nu)."""
    g = d.given
    u, push = g.model.u, np.zeros(len(g.model.u))
    if g.rho > 0.0:
        for row in range(len(g.last)):
            for i in range(len(u)):
                push[i] += g.rho * d.J[row, u[i]] * g.last[row] / g.dt
    return push


@compiled
def _held_rows(d: Dynamics, kinds: Array, rows: Array, b: Array) -> None:
    """Fill the first columns of `rows` (nv, ·) and b with the held rows of contacts, then with the closures."""
    g, c = d.given, 0
    for i in range(len(kinds)):
        if kinds[i] == OPEN:
            continue
        for r in range(0 if _sticks(d, kinds, i) else 2, 3):
            J = d.J[3 * i + r]
            speed = d.drift[3 * i + r] + (allowance(g, i) if r == 2 else 0.0)
            b[c] = -((1.0 - g.keep) * dot(J, g.v) + speed) / g.dt
            for j in range(len(J)):
                rows[j, c] = J[j]
            c += 1
    for k in range(len(d.G)):
        b[c] = -(d.rate[k] + dot(d.G[k], g.v)) / g.dt
        for j in range(len(g.v)):
            rows[j, c] = d.G[k, j]
        c += 1
