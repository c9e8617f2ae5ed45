"""Assembly of the convex problems of `sap`, one per island, and of the step from their solutions  [SAP §III, §IV-D].

w is the effective inverse mass of a constraint when no other one acts: ‖W_ii‖_F / 3 for a contact, G M⁻¹ Gᵀ for a row.
"""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.solvers.vectors import copy
from idyn.status import NOT_CERTIFIED, SOLVED
from idyn.types import Array
from sim_harness.engines.sap.cone import MU, R_N, R_T, V_HAT, project_cone, regularisation
from sim_harness.engines.sap.islands import forward_within, islands_of, profile, touched, trees_of
from sim_harness.engines.sap.newton import NON_FINITE, Convex, Rules, minimise
from sim_harness.engines.sparse import compressed
from sim_harness.engines.vectors import add, dot


class Materials(NamedTuple):
    """Parameters of all constraints, contacts first, then rows (k).

    mu: friction coefficients, 0 for stops, ∞ for bilateral rows (k)
    stiffness: [N/m] (k)
    dissipation: τ_d [s] (k)
    gaps: gaps and constraint values [m or rad] (k)
    contacts: number of contacts
    dt: step [s]
    beta, sigma: β and σ of `Sap`
    """

    mu: Array
    stiffness: Array
    dissipation: Array
    gaps: Array
    contacts: int
    dt: float
    beta: float
    sigma: float


class Motion(NamedTuple):
    """Bodies of the step.

    M: inertia (nv, nv)
    L: Cholesky factor of M (nv, nv)
    first: first non-zero column of each row of M (nv)
    A: Hessian of the cost of the bodies, ½ ‖v − v*‖²_A (nv, nv)
    v: velocity before the step (nv)
    v_star: v*, velocity after the step without contacts (nv)
    """

    M: Array
    L: Array
    first: Array
    A: Array
    v: Array
    v_star: Array


@compiled
def contact_step(
    motion: Motion, J: Array, m: Materials, rules: Rules
) -> tuple[Array, Array, int, int, tuple[float, float, float, float]]:
    """Return the velocity after the step (nv), impulses (k, 3), status, Newton steps, and the errors of `accuracy`."""
    laws = constraint_laws(J, motion.L, motion.first, m)
    v, gamma, status, steps = solve_islands(motion, J, laws, rules)
    return v, gamma, status, steps, accuracy(motion, J, laws, v, gamma)


@compiled
def constraint_laws(J: Array, L: Array, first: Array, m: Materials) -> Array:
    """Return μ, R_t, R_n, v̂_n of each constraint (k, 4), columns as in `sap.cone`.

    R_n = 0 marks a constraint that moves no body. Constraint rows have zero tangent rows in J.
    """
    k = len(m.mu)
    laws, Y = np.zeros((k, 4)), np.zeros((3, J.shape[1]))
    for i in range(k):
        for e in range(3):  # w from W_ii = J_i M⁻¹ J_iᵀ
            copy(J[3 * i + e], Y[e])
            forward_within(L, first, Y[e])
        total = 0.0
        for a in range(3):
            for b in range(3):
                total += np.dot(Y[a], Y[b]) ** 2
        row = i >= m.contacts
        w = np.sqrt(total) / (1.0 if row else 3.0)
        laws[i, MU] = m.mu[i]
        beta = 0.0 if row and m.stiffness[i] < np.inf else m.beta  # compliant rows keep their stiffness
        laws[i, R_N] = regularisation(w, m.stiffness[i], m.dissipation[i], m.dt, beta)
        laws[i, R_T] = laws[i, R_N] if row else m.sigma * w
        laws[i, V_HAT] = -m.gaps[i] / (m.dt + m.dissipation[i])
        if w == 0.0:
            laws[i, R_N] = 0.0
    return laws


@compiled
def solve_islands(motion: Motion, J: Array, laws: Array, rules: Rules) -> tuple[Array, Array, int, int]:
    """Return the velocity after the step (nv), impulses (k, 3), the worst status, and the largest number of Newton steps."""
    v, gamma = motion.v_star.copy(), np.zeros((len(laws), 3))
    tree = trees_of(motion.A)
    touches = touched(J, tree)
    order, island = islands_of(touches)
    status, most = SOLVED, 0
    # minimise each island; islands without constraints keep v*
    for number in range(island.max() + 1 if len(island) else 0):
        dofs, members = _dofs(order, island, tree, number), _members(touches, island, laws, number)
        if not len(members):
            continue
        c = convex_problem(motion, J, laws, dofs, members)
        v_island, gamma_island, outcome, steps = minimise(c, motion.v[dofs], rules)
        for i in range(len(dofs)):
            v[dofs[i]] = v_island[i]
        for i in range(len(members)):
            for e in range(3):
                gamma[members[i], e] = gamma_island[i, e]
        most = max(most, steps)
        if outcome == NON_FINITE or (outcome == NOT_CERTIFIED and status != NON_FINITE):
            status = outcome
    return v, gamma, status, most


@compiled
def _dofs(order: Array, island: Array, tree: Array, number: int) -> Array:
    """Return the degrees of freedom of an island in the order of its factor."""
    dofs, count = np.zeros(len(tree), dtype=np.int64), 0
    for t in order:
        if island[t] == number:
            for d in range(np.searchsorted(tree, t), len(tree)):
                if tree[d] != t:
                    break
                dofs[count] = d
                count += 1
    return dofs[:count].copy()


@compiled
def _members(touches: Array, island: Array, laws: Array, number: int) -> Array:
    """Return the indices of the constraints that act on an island."""
    members, count = np.zeros(len(laws), dtype=np.int64), 0
    for i in range(len(laws)):
        for t in range(len(island)):
            if touches[i, t]:
                if island[t] == number and laws[i, R_N] > 0.0:
                    members[count] = i
                    count += 1
                break
    return members[:count].copy()


@compiled
def convex_problem(motion: Motion, J: Array, laws: Array, dofs: Array, members: Array) -> Convex:
    """Return the convex problem of the degrees of freedom `dofs` (m) in this order and the constraints `members` (k)."""
    m, k = len(dofs), len(members)
    A, M, v_star = np.zeros((m, m)), np.zeros((m, m)), np.zeros(m)
    for i in range(m):
        v_star[i] = motion.v_star[dofs[i]]
        for j in range(m):
            A[i, j], M[i, j] = motion.A[dofs[i], dofs[j]], motion.M[dofs[i], dofs[j]]
    first, table = np.minimum(profile(A), profile(M)), np.zeros((k, 4))
    begin, columns, rows = compressed(J, members, dofs, first)
    for i in range(k):
        for e in range(4):
            table[i, e] = laws[members[i], e]
    return Convex(A, M, first, v_star, begin, columns, rows, table)


@compiled
def accuracy(motion: Motion, J: Array, laws: Array, v: Array, gamma: Array) -> tuple[float, float, float, float]:
    """Return the errors of v (nv) and γ (k, 3): ‖A (v − v*) − Jᵀγ‖∞ [N·s, N·m·s], ‖γ − P_F(y(J v))‖∞ [N·s], e_m, e_μ.

    [SAP (32), (33)]
    """
    n, k = len(v), len(laws)
    push, u = np.zeros(n), np.zeros(3)
    slack, cost, law_error = 0.0, 0.0, 0.0
    for i in range(k):
        t, z, y_n = laws[i, R_T], laws[i, R_N], laws[i, V_HAT]
        for e in range(3):
            u[e] = dot(0.0, J[3 * i + e], v)
            add(push, gamma[i, e], J[3 * i + e])
        if z == 0.0:
            continue
        # ‖γ − P_F(y)‖∞, ½ ‖γ‖²_R and |g · γ| with g = J v − v̂ + R γ
        s, r, normal, _ = project_cone(-u[0] / t, -u[1] / t, (y_n - u[2]) / z, laws[i])
        law_error = max(law_error, abs(s - gamma[i, 0]), abs(r - gamma[i, 1]), abs(normal - gamma[i, 2]))
        squares = gamma[i, 0] ** 2 + gamma[i, 1] ** 2
        cost += 0.5 * (t * squares + z * gamma[i, 2] ** 2)
        across = u[0] * gamma[i, 0] + u[1] * gamma[i, 1] + t * squares
        slack += abs(across + (u[2] - y_n + z * gamma[i, 2]) * gamma[i, 2])
    # ½ ‖v − v*‖²_A, and the momenta D ∇ℓ, D M v, D Jᵀγ with D = diag(M)^-½
    g2 = p2 = j2 = worst = 0.0
    away = v - motion.v_star
    for r in range(n):
        momentum, weighed = dot(0.0, motion.M[r], v), dot(0.0, motion.A[r], away)
        cost += 0.5 * weighed * (v[r] - motion.v_star[r])
        worst = max(worst, abs(weighed - push[r]))
        g2 += (weighed - push[r]) ** 2 / motion.M[r, r]
        p2 += momentum**2 / motion.M[r, r]
        j2 += push[r] ** 2 / motion.M[r, r]
    scale = np.sqrt(max(p2, j2))
    if not np.isfinite(g2 + p2 + j2):
        return np.inf, np.inf, np.inf, np.inf
    return worst, law_error, np.sqrt(g2) / scale if scale > 0.0 else 0.0, slack / (k * cost) if cost > 0.0 and k else 0.0
