"""The choice among few contacts, as a program in the null space of J_uᵀ: dense, and quickest up to some six of them.

The face is written contact by contact in as few coordinates as it has: three for a contact that may stick, one for each loaded
friction direction of a contact that slides, none for one that parts. A choice that exceeds the torque limits is not found here.
"""

import numpy as np

from idyn.compiled import compiled
from idyn.laws.convex import facets
from idyn.laws.law import Face, is_free
from idyn.problem import Problem
from idyn.reduction import Motion, Reduced, contact_row, recover
from idyn.selection.aim import Aim
from idyn.solvers.linalg import RANK, backward, cholesky, forward, null_space, rank_of
from idyn.solvers.pivoting import ppm
from idyn.types import Array

TIE_BREAK, UNLIMITED = 1e-10, 1e-6
"""Weight of ‖f‖² relative to the largest squared lever J_a²; the second where friction has no bounds: feet would press against
one another with kilonewtons for the last mN·m. At 1e-6 it begins to cost torque."""

INSIDE = 1e-10
"""A force outside a cone by this is inside [N]."""

MAX_PIVOTS = 200
"""Of the principal pivoting; `idyn.selection.many` takes over."""


def choose(problem: Problem, reduced: Reduced, motion: Motion, face: Face, p: Array, aim: Aim) -> tuple[Array, bool, int]:
    """The impulses that come nearest to the aim (3n), whether they were found and keep the torque limits, and the dimension of
    the choice."""
    robot, terms, contacts = problem.robot, problem.terms, problem.contacts
    return _choose(
        terms.M, terms.h, terms.axes, robot.parents, robot.dof_joint, robot.support, robot.u, robot.a,
        contacts.bodies, contacts.others, motion.maps, motion.L, motion.v_free, problem.state.v, reduced.Y,
        face.flags, face.directions, face.mu, face.unlimited and not aim.inside, p, problem.dt, aim.target, aim.of_forces,
        robot.limits.tau_max, aim.inside,
    )  # fmt: skip


@compiled
def freedom(Y, flags, mu, unlimited):
    """Dimension of the choice that a face leaves, without looking at its sides: columns of J_u on it, less their rank."""
    directions = np.zeros((flags.shape[1] - 2, 2))
    contact, axis, _, _ = _coordinates(flags, directions, mu, unlimited)
    return len(contact) - rank_of(_columns(Y, contact, axis))


@compiled
def _coordinates(flags, directions, mu, unlimited):
    """The face's coordinates: for each its contact and its direction in (s, t, n), whether it must stay ≥ 0, and for each
    contact the first of its three coordinates when it may stick inside a cone (−1 otherwise)."""
    n, k = len(flags), len(directions)
    contact, axis = np.empty(3 * n + k * n, dtype=np.int64), np.zeros((3 * n + k * n, 3))
    positive, cone = np.zeros(3 * n + k * n, dtype=np.bool_), np.full(n, -1)
    count = 0
    for i in range(n):
        if is_free(mu[i], unlimited):
            if flags[i, 2]:
                for r in range(2):
                    contact[count], axis[count, r] = i, 1.0
                    count += 1
            if flags[i, 0]:
                contact[count], axis[count, 2], positive[count] = i, 1.0, True
                count += 1
        elif not flags[i, 0]:
            continue
        elif mu[i] == 0.0:
            contact[count], axis[count, 2], positive[count] = i, 1.0, True
            count += 1
        elif not flags[i, 1]:
            cone[i] = count
            for r in range(3):
                contact[count], axis[count, r] = i, 1.0
                count += 1
        else:
            for j in range(k):
                if flags[i, 2 + j]:
                    contact[count], positive[count] = i, True
                    axis[count, 0], axis[count, 1], axis[count, 2] = (
                        mu[i] * directions[j, 0],
                        mu[i] * directions[j, 1],
                        1.0,
                    )
                    count += 1
    return contact[:count], axis[:count], positive[:count], cone


@compiled
def _start(contact, axis, positive, p):
    """Coordinates of the law's own impulses p: read off, or for two loaded directions of one sliding contact solved for."""
    m = len(contact)
    start = np.empty(m)
    for v in range(m):
        i = 3 * contact[v]
        if not positive[v] or axis[v, 0] == 0.0 == axis[v, 1]:
            start[v] = axis[v, 0] * p[i] + axis[v, 1] * p[i + 1] + axis[v, 2] * p[i + 2]
        elif v > 0 and contact[v - 1] == contact[v]:
            e0, e1 = axis[v, 0] - axis[v - 1, 0], axis[v, 1] - axis[v - 1, 1]
            along = (p[i] - p[i + 2] * axis[v - 1, 0]) * e0 + (p[i + 1] - p[i + 2] * axis[v - 1, 1]) * e1
            start[v] = along / (e0 * e0 + e1 * e1)
            start[v - 1] = p[i + 2] - start[v]
        else:
            start[v] = p[i + 2]
    return start


@compiled
def _columns(Y, contact, axis):
    """J_uᵀ on the face's coordinates (nu, m)."""
    E = np.zeros((Y.shape[1], len(contact)))
    for w in range(len(contact)):
        for c in range(Y.shape[1]):
            for r in range(3):
                E[c, w] += axis[w, r] * Y[3 * contact[w] + r, c]
    return E


@compiled
def _choose(
    M, h, axes, parents, dof_joint, support, u, a, bodies, others, maps, L, v_free, v, Y, flags, directions, mu, unlimited,
    p, dt, target, of_forces, limits, inside,
):  # fmt: skip
    """In null-space coordinates y [N]: f = p/dt + Z y, τ = τ* − B y, and rows · y ≥ slack. Returns as `choose` does."""
    n, k, na = len(flags), len(directions), len(a)
    _, tau = recover(M, h, axes, parents, dof_joint, u, a, bodies, others, maps, L, v_free, v, p, dt)
    contact, axis, positive, cone = _coordinates(flags, directions, mu, unlimited)
    m = len(contact)
    E = _columns(Y, contact, axis)
    local = null_space(E)
    d = local.shape[1]
    start = _start(contact, axis, positive, p)

    r = int(np.count_nonzero(positive)) + k * int(np.count_nonzero(cone >= 0))
    if d == 0:
        return p, True, 0
    rows, slack, Z, B = np.zeros((r, d)), np.empty(r), np.zeros((3 * n, d)), np.zeros((na, d))
    for w in range(m):
        for c in range(3):
            if axis[w, c] != 0.0:
                for j in range(d):
                    Z[3 * contact[w] + c, j] += axis[w, c] * local[w, j]
    lever2 = 1.0 if of_forces else 0.0
    for i in range(n):
        for q in range(na):
            for c in range(3):
                J = contact_row(maps, i, c, axes, support, bodies[i], others[i], a[q])
                if J != 0.0:
                    lever2 = max(lever2, J * J)
                    for j in range(d):
                        B[q, j] += J * Z[3 * i + c, j]

    count = 0
    for w in range(m):
        if positive[w]:
            for j in range(d):
                rows[count, j] = local[w, j]
            slack[count] = -start[w] / dt
            count += 1
    facet = np.zeros((k, 3))
    for i in range(n):
        if cone[i] >= 0:
            facets(facet, 0, 0, mu[i], directions)
            for e in range(k):
                distance = 0.0
                for c in range(3):
                    distance += facet[e, c] * p[3 * i + c]
                for j in range(d):
                    for c in range(3):
                        rows[count, j] += facet[e, c] * local[cone[i] + c, j]
                slack[count] = -distance / dt
                count += 1
    factor, y = np.zeros((d, d)), np.zeros(d)
    _objective(
        Z, B, tau, p / dt, target, of_forces, (UNLIMITED if unlimited and not of_forces else TIE_BREAK) * lever2, factor, y
    )
    for j in range(d):
        y[j] = -y[j]
    cholesky(factor)
    forward(factor, y)
    backward(factor, y)
    found = _push_inside(y, factor, rows, slack)
    cost, own = 0.0, 0.0
    for q in range(na):
        t = tau[q]
        own += t * t
        for j in range(d):
            t -= B[q, j] * y[j]
        cost += t * t
        found = found and abs(t) <= limits[q]
    chosen = p.copy()
    for i in range(3 * n):
        for j in range(d):
            chosen[i] += dt * Z[i, j] * y[j]
    return chosen, found and not (inside and cost > own), d


@compiled
def _push_inside(y, L, rows, slack):
    """Move y from the optimum without constraints to the one with rows · y ≥ slack, in place; whether that succeeded.

    The dual of the program is an LCP: w = R (L Lᵀ)⁻¹ Rᵀ z + R y − slack, for principal pivoting. It begins with the rows that
    the law's own impulses (y = 0) touch.
    """
    m, d = rows.shape
    Y, distance, lengths2 = np.empty((m, d)), np.empty(m), np.zeros(m)
    inside = True
    for i in range(m):
        distance[i] = -slack[i]
        for j in range(d):
            distance[i] += rows[i, j] * y[j]
        inside = inside and distance[i] >= 0.0
    if inside:
        return True
    for i in range(m):
        Y[i] = rows[i]
        if np.sum(Y[i] * Y[i]) < RANK * RANK:
            Y[i] = 0.0  # rounding noise, which must not hold anything
        forward(L, Y[i])
        for j in range(d):
            lengths2[i] += Y[i, j] * Y[i, j]
    z, status, _, _ = ppm(Y, distance, lengths2, np.abs(slack) <= INSIDE, INSIDE, MAX_PIVOTS)
    if status != 0:
        return False
    step = np.zeros(d)
    for i in range(m):
        for j in range(d):
            step[j] += Y[i, j] * z[i]
    backward(L, step)
    for j in range(d):
        y[j] += step[j]
    return True


@compiled
def _objective(Z, B, tau, force, target, of_forces, weight, H, g):
    """Fills H, g of ½‖τ − B y − target‖², or of ½‖force + Z y − target‖² when `of_forces`; with the tie-break
    of that weight added."""
    d = Z.shape[1]
    K = Z if of_forces else -B
    error = (force if of_forces else tau) - target
    g[:] = 0.0
    for i in range(K.shape[0]):
        for j in range(d):
            g[j] += K[i, j] * error[i]
            for c in range(j + 1):
                H[j, c] += K[i, j] * K[i, c]
    for j in range(d):
        for c in range(j):
            H[c, j] = H[j, c]
        H[j, j] += weight
        for i in range(len(force)):
            g[j] += weight * Z[i, j] * force[i]
