"""Selection: among the impulses that solve a law equally well, the ones whose torque is smoothest  (generalises [ZD §6.2.4]).

A law determines v⁺, and v⁺ depends on p through J_uᵀ p only. All p of the law's face with the same J_uᵀ p are solutions, and

    τ(p) = τ* − J_aᵀ (p − p*) / dt

is affine in p, so choosing costs a small convex QP in the null space of J_uᵀ:

    min ½‖τ(p)‖²   |   ½‖τ(p) − τ_prev‖²   |   ½‖(p − p_prev)/dt‖²       over the face

Works in forces f = p/dt [N]. The face is written contact by contact in as few coordinates as it has: three for a contact that
may stick, one for each loaded friction direction of a contact that slides, none for one that parts.

Cons: the face is read off with a threshold (`FACE_ZERO`), and among forces that give the same torque (several points on one
rigid foot) the tie is broken towards small forces by `TIE_BREAK`.
"""

import numpy as np

from idyn.compiled import compiled
from idyn.laws.convex import facets
from idyn.laws.law import Face
from idyn.robot import Robot
from idyn.reduction import Motion, Reduced, contact_row
from idyn.solvers.qp import solve_qp
from idyn.types import Array, ContactSet, DynamicsTerms, Guess, Record, Selection

TIE_BREAK = 1e-10
"""Weight of ‖f‖² relative to the largest diagonal of the torque objective. At 1e-6 it starts to cost torque."""

RANK = 1e-9
"""A column of J_u on the face is dependent when less than this share of the largest is new."""


class Selected(Record):
    """p: chosen impulses (3n); tau: the torque that goes with them [N·m] (na); null_dim: free dimensions of the face;
    excess: by how much torque limits had to be exceeded [N·m]."""

    p: Array
    tau: Array
    null_dim: int
    excess: float


def select(
    robot: Robot,
    terms: DynamicsTerms,
    contacts: ContactSet,
    motion: Motion,
    problem: Reduced,
    face: Face,
    p: Array,
    tau: Array,
    dt: float,
    *,
    objective: Selection,
    guess: Guess | None,
    backend: str = "daqp",
) -> Selected:
    """Choose inside `face`, starting from the law's own p (3n) and its torque tau (na).

    Torque limits of the robot are kept when the face allows it; otherwise the largest excess is made as small as it can be.
    When the QP fails the law's own impulses are kept: they are as right as any.
    """
    Z, B, rows, slack = _null_space(
        terms.axes, robot.support, robot.a, contacts.bodies, contacts.others, motion.maps, problem.Y,
        face.normal, face.edges, face.saturated, face.directions, face.mu, p, dt,
    )  # fmt: skip
    null_dim = Z.shape[1]
    unchanged = Selected(p=p, tau=tau, null_dim=null_dim, excess=0.0)
    if null_dim == 0:
        return unchanged
    H, g = _objective(Z, B, tau, p / dt, _target(objective, contacts, guess, tau, motion, dt), objective is Selection.IMPULSE_CHANGE)
    solution = solve_qp(H, g, rows, slack, backend=backend)
    if not solution.status.ok:
        return unchanged
    chosen, excess = solution.x, 0.0
    limits = robot.limits.tau_max
    if np.any(np.abs(tau - B @ chosen) > limits):
        chosen, excess = _within_limits(H, g, rows, slack, B, tau, limits, backend, chosen)
    return Selected(p=p + dt * (Z @ chosen), tau=tau - B @ chosen, null_dim=null_dim, excess=excess)


def _target(
    objective: Selection, contacts: ContactSet, guess: Guess | None, tau: Array, motion: Motion, dt: float
) -> Array:
    """What to be near to: τ_prev, or the previous forces in S, T, N rows; zeros for min ‖τ‖²."""
    if objective is Selection.IMPULSE_CHANGE:
        return previous_impulses(contacts, motion, guess) / dt
    return np.zeros(len(tau)) if guess is None or objective is Selection.TORQUE else guess.tau


def previous_impulses(contacts: ContactSet, motion: Motion, guess: Guess | None) -> Array:
    """The last tick's impulses of today's contacts in their S, T, N rows (3n); zero for those that were not there."""
    p = np.zeros(3 * len(contacts))
    if guess is not None:
        for i, key in enumerate(contacts.keys):
            if key in guess.keys:
                p[3 * i : 3 * i + 3] = motion.maps[i, :, :3] @ guess.impulse[guess.keys.index(key)]
    return p


def _within_limits(
    H: Array, g: Array, rows: Array, slack: Array, B: Array, tau: Array, limits: Array, backend: str, unlimited: Array
) -> tuple[Array, float]:
    """The same choice with |τ| ≤ τ_max; when that is impossible, the smallest largest excess s [N·m], then the objective."""
    finite = np.isfinite(limits)
    C, t, bound = B[finite], tau[finite], limits[finite]
    solution = solve_qp(H, g, np.vstack([rows, C, -C]), np.concatenate([slack, t - bound, -t - bound]), backend=backend)
    if solution.status.ok:
        return solution.x, 0.0
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
    chosen = solution.x[:d] if solution.status.ok else unlimited
    return chosen, float(np.max(np.abs(t - C @ chosen) - bound))


@compiled
def _coordinates(normal, edges, saturated, directions, mu):  # type: ignore[no-untyped-def]
    """The face's coordinates: for each its contact and its direction in (s, t, n), whether it must stay ≥ 0, and for each
    contact the first of its three coordinates when it may stick inside a cone (−1 otherwise)."""
    n, k = edges.shape
    contact, axis = np.empty(3 * n + k * n, dtype=np.int64), np.zeros((3 * n + k * n, 3))
    positive, cone = np.zeros(3 * n + k * n, dtype=np.bool_), np.full(n, -1)
    count = 0
    for i in range(n):
        if mu[i] == np.inf:
            if edges[i, 0]:
                for r in range(2):
                    contact[count], axis[count, r] = i, 1.0
                    count += 1
            if normal[i]:
                contact[count], axis[count, 2], positive[count] = i, 1.0, True
                count += 1
        elif not normal[i]:
            continue
        elif mu[i] == 0.0:
            contact[count], axis[count, 2], positive[count] = i, 1.0, True
            count += 1
        elif not saturated[i]:
            cone[i] = count
            for r in range(3):
                contact[count], axis[count, r] = i, 1.0
                count += 1
        else:
            for j in range(k):
                if edges[i, j]:
                    contact[count], positive[count] = i, True
                    axis[count, 0], axis[count, 1], axis[count, 2] = mu[i] * directions[j, 0], mu[i] * directions[j, 1], 1.0
                    count += 1
    return contact[:count], axis[:count], positive[:count], cone


@compiled
def _start(contact, axis, positive, p):  # type: ignore[no-untyped-def]
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
def _null_space(axes, support, a, bodies, others, maps, Y, normal, edges, saturated, directions, mu, p, dt):  # type: ignore[no-untyped-def]
    """The face around p in null-space coordinates y [N]: f = p/dt + Z y, τ = τ* − B y, and rows · y ≥ slack.

    Z (3n, d), B (na, d), rows (r, d), slack (r).
    """
    n, k, nu, na = len(normal), len(directions), Y.shape[1], len(a)
    contact, axis, positive, cone = _coordinates(normal, edges, saturated, directions, mu)
    m = len(contact)
    E = np.zeros((nu, m))
    for v in range(m):
        for c in range(nu):
            for r in range(3):
                E[c, v] += axis[v, r] * Y[3 * contact[v] + r, c]
    local = null_space(E)
    d = local.shape[1]
    start = _start(contact, axis, positive, p)

    Z = np.zeros((3 * n, d))
    for v in range(m):
        for r in range(3):
            if axis[v, r] != 0.0:
                for j in range(d):
                    Z[3 * contact[v] + r, j] += axis[v, r] * local[v, j]
    B = np.zeros((na, d))
    for i in range(n):
        for q in range(na):
            for r in range(3):
                J = contact_row(maps, i, r, axes, support, bodies[i], others[i], a[q])
                if J != 0.0:
                    for j in range(d):
                        B[q, j] += J * Z[3 * i + r, j]

    cones = np.count_nonzero(cone >= 0)
    bounds = np.count_nonzero(positive)
    rows, slack = np.empty((bounds + k * cones, d)), np.empty(bounds + k * cones)
    count = 0
    for v in range(m):
        if positive[v]:
            for j in range(d):
                rows[count, j] = local[v, j]
            slack[count] = min(-start[v] / dt, 0.0)
            count += 1
    facet = np.zeros((k, 3))
    for i in range(n):
        if cone[i] >= 0:
            facets(facet, 0, 0, mu[i], directions)
            for e in range(k):
                distance = 0.0
                for r in range(3):
                    distance += facet[e, r] * p[3 * i + r]
                for j in range(d):
                    s = 0.0
                    for r in range(3):
                        s += facet[e, r] * local[cone[i] + r, j]
                    rows[count, j] = s
                slack[count] = min(-distance / dt, 0.0)
                count += 1
    return Z, B, rows, slack


@compiled
def _objective(Z, B, tau, force, target, of_forces):  # type: ignore[no-untyped-def]
    """H, g of ½‖τ − B y − target‖², or of ½‖force + Z y − target‖² when `of_forces`; with the tie-break added."""
    d = Z.shape[1]
    K = Z if of_forces else -B
    error = (force if of_forces else tau) - target
    H, g = np.zeros((d, d)), np.zeros(d)
    for i in range(K.shape[0]):
        for j in range(d):
            g[j] += K[i, j] * error[i]
            for c in range(j + 1):
                H[j, c] += K[i, j] * K[i, c]
    largest = 0.0
    for j in range(d):
        largest = max(largest, H[j, j])
        for c in range(j):
            H[c, j] = H[j, c]
    weight = TIE_BREAK * largest
    for j in range(d):
        H[j, j] += weight
        for i in range(len(force)):
            g[j] += weight * Z[i, j] * force[i]
    return H, g
