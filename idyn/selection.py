"""Selection: among the impulses that solve a law equally well, the ones whose torque is smoothest  (generalises [ZD §6.2.4]).

A law determines v⁺, and v⁺ depends on p through J_uᵀ p only. All p of the law's face with the same J_uᵀ p are solutions, and

    τ(p) = τ* − J_aᵀ (p − p*) / dt

is affine in p, so choosing costs a small convex program in the null space of J_uᵀ:

    min ½‖τ(p)‖²  |  ½‖τ(p) − τ_prev‖²  |  ½‖(p − p_prev)/dt‖²  |  ½‖p/dt − f‖²       over the face

Works in forces f = p/dt [N]. The face is written contact by contact in as few coordinates as it has: three for a contact that
may stick, one for each loaded friction direction of a contact that slides, none for one that parts.

Cons: the face is read off with a threshold (`FACE_ZERO`), and among forces that give the same torque (several points on one
rigid foot) the tie is broken towards small forces by `TIE_BREAK`.
"""

from functools import lru_cache

import numpy as np

from idyn.compiled import compiled
from idyn.laws.convex import facets
from idyn.laws.law import Face, is_free
from idyn.reduction import Motion, Reduced, contact_row, recover
from idyn.robot import Robot
from idyn.solvers.linalg import backward, cholesky, forward
from idyn.solvers.pivoting import ppm
from idyn.solvers.qp import solve_qp
from idyn.types import Array, ContactSet, DynamicsTerms, Guess, Record, Selection, State

TIE_BREAK = 1e-10
"""Weight of ‖f‖² relative to the largest squared lever J_a². At 1e-6 it starts to cost torque."""

INSIDE = 1e-10
"""A force outside a cone by this is inside [N]."""

MAX_PIVOTS = 200
"""Of the principal pivoting; a QP back end takes over."""

RANK = 1e-9
"""A column of J_u on the face is dependent when less than this share of the largest is new."""


class Selected(Record, frozen=True):
    """p: chosen impulses (3n); null_dim: free dimensions of the face"""

    p: Array
    null_dim: int


def select(
    robot: Robot,
    terms: DynamicsTerms,
    state: State,
    contacts: ContactSet,
    reduced: Reduced,
    motion: Motion,
    face: Face,
    p: Array,
    dt: float,
    *,
    objective: Selection,
    guess: Guess | None,
    last: Array,
    preferred: Array,
    backend: str = "daqp",
) -> Selected:
    """Choose inside `face`, starting from the law's own impulses p (3n). last, preferred: those of the last tick and those
    that `Selection.FORCE` wants, in today's rows (3n).

    Torque limits of the robot are kept when the face allows it; otherwise the largest excess is made as small as it can be.
    When the QP fails the law's own impulses are kept: they are as right as any.
    """
    of_forces = objective in (Selection.IMPULSE_CHANGE, Selection.FORCE)
    if of_forces:
        target = (last if objective is Selection.IMPULSE_CHANGE else preferred) / dt
    else:
        target = _zeros(robot.na) if guess is None or objective is Selection.TORQUE else guess.tau
    # a law of unlimited friction has solutions inside the real cones too, as a rule: those the world can follow, so they are
    # taken unless they cost more torque than the law's own
    for unlimited in (False, True) if face.unlimited and _holds_only_pressed(face) else (face.unlimited,):
        inside = face.unlimited and not unlimited
        chosen, free, matrices, vectors, d, r = _program(
            terms.M, terms.h, terms.axes, robot.parents, robot.dof_joint, robot.support, robot.u, robot.a,
            contacts.bodies, contacts.others, motion.maps, motion.L, motion.v_free, state.v, reduced.Y,
            face.flags, face.directions, face.mu, unlimited, p, dt, target, of_forces, robot.limits.tau_max, inside,
        )  # fmt: skip
        if free:
            return Selected(p=chosen, null_dim=d)
        if d == 0:
            break
        solution = solve_qp(matrices[:d], vectors[:d], matrices[d : d + r], vectors[d : d + r], backend=backend)
        if solution.status.ok and not (inside and _costs_more(matrices, vectors, d, r, len(p), solution.x)):
            return _chosen(p, dt, matrices, vectors, d, r, solution.x, robot.limits.tau_max, backend)
    return Selected(p=p, null_dim=d)


@lru_cache(maxsize=16)
def _zeros(n: int) -> Array:
    return np.zeros(n)


def _costs_more(matrices: Array, vectors: Array, d: int, r: int, rows: int, y: Array) -> bool:
    """Whether ‖τ* − B y‖ is larger than ‖τ*‖; `rows` is the height of Z."""
    B, tau = matrices[d + r + rows :], vectors[d + r :]
    chosen = tau - B @ y
    return bool(chosen @ chosen > tau @ tau)


def _holds_only_pressed(face: Face) -> bool:
    """Whether no contact that parts is held: those have impulses outside every cone."""
    return bool((face.flags[:, 0] >= face.flags[:, 2]).all())


def _chosen(
    p: Array, dt: float, matrices: Array, vectors: Array, d: int, r: int, y: Array, limits: Array, backend: str
) -> Selected:
    """The impulses of the QP's answer y, moved on when a torque limit asks for it."""
    chosen, over = _step(p, dt, matrices, vectors, d + r, y, limits)
    if not over:
        return Selected(p=chosen, null_dim=d)
    H, rows, g, slack = matrices[:d], matrices[d : d + r], vectors[:d], vectors[d : d + r]
    B, tau = matrices[d + r + len(p) :], vectors[d + r :]
    y = _within_limits(H, g, rows, slack, B, tau, limits, backend, y)
    chosen, _ = _step(p, dt, matrices, vectors, d + r, y, limits)
    return Selected(p=chosen, null_dim=d)


def _within_limits(
    H: Array, g: Array, rows: Array, slack: Array, B: Array, tau: Array, limits: Array, backend: str, unlimited: Array
) -> Array:
    """The same choice with |τ| ≤ τ_max; when that is impossible, the smallest largest excess s [N·m], then the objective."""
    finite = np.isfinite(limits)
    C, t, bound = B[finite], tau[finite], limits[finite]
    solution = solve_qp(H, g, np.vstack([rows, C, -C]), np.concatenate([slack, t - bound, -t - bound]), backend=backend)
    if solution.status.ok:
        return solution.x
    d, ones = H.shape[0], np.ones((len(C), 1))
    scale = float(np.trace(H)) / d
    wide = np.zeros((d + 1, d + 1))
    wide[:d, :d] = 1e-6 * H / scale
    wide[d, d] = 1.0
    A = np.vstack(
        [
            np.hstack([rows, np.zeros((len(rows), 1))]),
            np.hstack([C, ones]),
            np.hstack([-C, ones]),
            np.eye(d + 1)[d:],
        ]
    )
    lower = np.concatenate([slack, t - bound, -t - bound, [0.0]])
    solution = solve_qp(wide, np.append(1e-6 * g / scale, 0.0), A, lower, backend=backend)
    return solution.x[:d] if solution.status.ok else unlimited


@compiled
def _step(p, dt, matrices, vectors, first, y, limits):
    """p + dt Z y, and whether τ* − B y exceeds the limits; Z, B and τ* as `_program` packs them."""
    n3, d = len(p), len(y)
    chosen, over = p.copy(), False
    for i in range(n3):
        for j in range(d):
            chosen[i] += dt * matrices[first + i, j] * y[j]
    for k in range(len(limits)):
        t = vectors[first + k]
        for j in range(d):
            t -= matrices[first + n3 + k, j] * y[j]
        over = over or abs(t) > limits[k]
    return chosen, over


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
def null_space(E: Array) -> Array:
    """Orthonormal basis of {y : E y = 0} (m, m − rank), by Householder QR of Eᵀ with column pivoting."""
    rows, m = E.shape
    A = E.T.copy()
    V = np.zeros((rows, m))
    rank, first = 0, 0.0
    for step in range(min(rows, m)):
        best, best_length = step, -1.0
        for j in range(step, rows):
            s = 0.0
            for i in range(step, m):
                s += A[i, j] * A[i, j]
            if s > best_length:
                best, best_length = j, s
        length = np.sqrt(best_length)
        first = max(first, length)
        if not length > RANK * first:
            break
        for i in range(m):
            A[i, step], A[i, best] = A[i, best], A[i, step]
        sign = 1.0 if A[step, step] >= 0.0 else -1.0
        for i in range(step, m):
            V[step, i] = A[i, step]
        V[step, step] += sign * length
        norm2 = 0.0
        for i in range(step, m):
            norm2 += V[step, i] ** 2
        for i in range(step, m):
            V[step, i] /= np.sqrt(norm2)
        for j in range(step, rows):
            s = 0.0
            for i in range(step, m):
                s += V[step, i] * A[i, j]
            for i in range(step, m):
                A[i, j] -= 2.0 * s * V[step, i]
        rank += 1
    Z = np.zeros((m, m - rank))
    for j in range(m - rank):
        Z[rank + j, j] = 1.0
        for step in range(rank - 1, -1, -1):
            s = 0.0
            for i in range(step, m):
                s += V[step, i] * Z[i, j]
            for i in range(step, m):
                Z[i, j] -= 2.0 * s * V[step, i]
    return Z


@compiled
def _program(
    M, h, axes, parents, dof_joint, support, u, a, bodies, others, maps, L, v_free, v, Y, flags, directions, mu, unlimited,
    p, dt, target, of_forces, limits, preferred,
):  # fmt: skip
    """The choice as a QP in null-space coordinates y [N]: f = p/dt + Z y, τ = τ* − B y, and rows · y ≥ slack.

    Returns the impulses that principal pivoting finds for it (3n), and whether they are the answer: it settled, and torque
    limits are kept. For a QP back end, when they are not: the matrices H (d), rows (r), Z (3n) and B (na) one
    below the other, all d wide, the vectors g (d), slack (r) and τ* (na) one after the other, d and r: every array handed to
    Python costs a third of a microsecond.
    """
    n, k, nu, na = len(flags), len(directions), Y.shape[1], len(a)
    _, tau = recover(M, h, axes, parents, dof_joint, u, a, bodies, others, maps, L, v_free, v, p, dt)
    contact, axis, positive, cone = _coordinates(flags, directions, mu, unlimited)
    m = len(contact)
    E = np.zeros((nu, m))
    for w in range(m):
        for c in range(nu):
            for r in range(3):
                E[c, w] += axis[w, r] * Y[3 * contact[w] + r, c]
    local = null_space(E)
    d = local.shape[1]
    start = _start(contact, axis, positive, p)

    r = int(np.count_nonzero(positive)) + k * int(np.count_nonzero(cone >= 0))
    matrices, vectors = np.zeros((d + r + 3 * n + na, d)), np.empty(d + r + na)
    rows, Z, B = matrices[d : d + r], matrices[d + r : d + r + 3 * n], matrices[d + r + 3 * n :]
    slack = vectors[d : d + r]
    vectors[d + r :] = tau
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
    _objective(Z, B, tau, p / dt, target, of_forces, TIE_BREAK * lever2, matrices[:d], vectors[:d])

    y = -vectors[:d]
    factor = matrices[:d].copy()
    cholesky(factor)
    forward(factor, y)
    backward(factor, y)
    solved = _push_inside(y, factor, rows, slack)
    chosen, over = _step(p, dt, matrices, vectors, d + r, y, limits)
    if preferred and solved:
        cost, least = 0.0, 0.0
        for k in range(na):
            t = tau[k]
            least += t * t
            for j in range(d):
                t -= B[k, j] * y[j]
            cost += t * t
        solved = cost <= least
    return chosen, solved and not over, matrices, vectors, d, r


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
