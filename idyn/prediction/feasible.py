"""Feasible demands: the nearest demand that some contact impulse can realise  [ZD §4.5; MATHEMATICS §4]. This is the no-slip
problem of a system with inertia diag(1, ε) and free joints: x = (P v⁺ − v_a⁺, √ε (v_u⁺ − v_u)), Y = (J_a, J_u/√ε). With a
contact compliance model the conditions hold for v̂ = v⁺ − (1 − dt/T_r) v."""

import numpy as np

from idyn.contact.ground import allowance
from idyn.laws.no_slip import ALL_ROWS, DUAL, PRINCIPAL, hold
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Vector
from idyn.solvers.lemke import covering, lemke
from idyn.solvers.linalg import backward, cholesky, dot, fill, fill_rows, forward, row_basis
from idyn.solvers.pivoting import append_row
from idyn.status import SOLVED, STATUSES, Status
from idyn.terms.stages import Dynamics
from idyn.types import Array

EPSILON = 1e-4
"""ε, the weight of the base velocity; m/s and rad/s count alike. With a small ε contacts are satisfied by changes of the base
velocity, and the demand changes only if these are not sufficient. At 1 the base's ballistic velocity counts as much as the
demand; below 1e-8 rounding errors are visible in the joints."""

MOST_PIVOTS = 1000

MOVED = 1e-3
"""A direction of the closures is moved by joints without a motor if its row is longer than this share of the longest one."""

INDEPENDENT = 1e7
"""Factor on `idyn.solvers.pivoting.DEPENDENT` (a share of the squared length). Rows are clearly independent if the part of each
row that is orthogonal to the earlier rows is longer than a thousandth of the row. Then no rank has to be determined, and one
step of iterative refinement makes the solution exact."""


def project(
    dynamics: Dynamics, q_ddot: Array, sticking: Array, touching: float, *, closed: bool = False
) -> tuple[Array, float, Status]:
    """Return the feasible joint accelerations nearest to `q_ddot` [rad/s²] (na), the change of the demanded joint velocities in
    the max norm [rad/s], and the status: SOLVED unless penetrations contradict each other.

    sticking: contacts with a positive value (n) and a gap ≤ `touching` [m] must not slip
    closed: whether these contacts must not lift either
    """
    nearest, change, status = nearest_demand(dynamics, q_ddot, sticking, touching, closed)
    return nearest, change, STATUSES[status]


@entry(Dynamics, Vector, Vector, float, bool)
def nearest_demand(d: Dynamics, q_ddot: Array, sticking: Array, touching: float, closed: bool) -> tuple[Array, float, int]:
    """Return the results of `project`, with the status as an integer."""
    g = d.given
    u, a = g.model.u, g.model.a
    n, nu, na, nv = len(g.gaps), len(u), len(a), len(g.v)
    dt, root, wanted = g.dt, np.sqrt(EPSILON), stack_array(nv)
    # target of v̂ = v⁺ − keep v, keep = 1 − dt/T_r: (1 − keep) v_u at the base, v_a + dt q̈ − keep v_a at the joints
    for j in range(nv):
        wanted[j] = (1.0 - g.keep) * g.v[j]
    for k in range(na):
        wanted[a[k]] += dt * q_ddot[k]
    if g.drift and len(d.G) > 0:
        _close(d, wanted)
    # rows of Y = (J_a, J_u/√ε) and b, contacts first, then closures
    rows = 3 * n + len(d.G)
    Y, b, bilateral = stack_array((rows, na + nu)), stack_array(rows), stack_array(rows, np.bool_)
    for row in range(rows):
        i, r = row // 3, row % 3
        bilateral[row] = True
        if i < n:
            J, s = d.J[row], d.drift[row] + (allowance(g, i) if r == 2 else 0.0)
            bilateral[row] = sticking[i] > 0 and g.gaps[i] <= touching and (r < 2 or closed)
        else:  # row of a closure: applies to v⁺, not to v̂
            J, s = d.G[row - 3 * n], d.rate[row - 3 * n] + g.keep * dot(d.G[row - 3 * n], g.v)
        for j in range(nv):
            s += J[j] * wanted[j]
        b[row] = s
        for k in range(na):
            Y[row, k] = J[a[k]]
        for k in range(nu):
            Y[row, na + k] = J[u[k]] / root
    # multipliers p
    p, status = np.zeros(rows), SOLVED
    if not (bilateral.all() and solve_equalities(Y, b, p)):
        p, status = _solve_no_slip(Y, b, bilateral)
    # P v⁺ = v_a⁺ + J_aᵀ p
    nearest = q_ddot.copy()
    largest = 0.0
    for k in range(na):
        change = 0.0
        for row in range(rows):
            change += Y[row, k] * p[row]
        nearest[k] += change / dt
        largest = max(largest, abs(change))
    return nearest, largest, status


@compiled
def _close(d: Dynamics, wanted: Array) -> None:
    """Add to the target the least velocities of joints without a motor that keep the closures: they are not to count as a
    change of the motion, which the demand would share."""
    g, G, u = d.given, d.G, d.given.model.u
    rows, nu = len(G), len(u)
    A, lacking = np.empty((rows, nu)), stack_array(rows)
    for row in range(rows):
        lacking[row] = -d.rate[row] - g.keep * dot(G[row], g.v) - dot(G[row], wanted)
        for k in range(nu):
            A[row, k] = G[row, u[k]]
    # A = T Q with orthonormal rows Q: z = (TᵀT)⁻¹ Tᵀ lacking, then Qᵀ z
    Q = row_basis(A, MOVED)
    rank = len(Q)
    F, z, t = stack_array((rank, rank)), stack_array(rank), stack_array(rank)
    fill_rows(F, 0.0)
    fill(z, 0.0)
    for row in range(rows):
        for i in range(rank):
            t[i] = dot(A[row], Q[i])
            z[i] += t[i] * lacking[row]
            for k in range(i + 1):
                F[i, k] += t[i] * t[k]
    cholesky(F)
    forward(F, z)
    backward(F, z)
    for i in range(rank):
        for k in range(nu):
            wanted[u[k]] += Q[i, k] * z[i]


@compiled
def solve_equalities(Y: Array, b: Array, p: Array) -> bool:
    """Fill p with the solution of Y Yᵀ p + b = 0. Return False if the rows of Y are not clearly independent."""
    rows, columns = Y.shape
    F, active, x, step = stack_array((rows, rows)), stack_array(rows, np.int64), stack_array(columns), stack_array(rows)
    fill(x, 0.0)
    if rows > columns:
        return False
    for row in range(rows):
        length2 = dot(Y[row], Y[row])
        if not append_row(F, Y, active, row, row, INDEPENDENT * length2):
            return False
    for _ in range(2):  # the second pass refines
        for row in range(rows):
            step[row] = -b[row]
            for c in range(columns):
                step[row] -= Y[row, c] * x[c]
        forward(F, step)
        backward(F, step)
        for row in range(rows):
            p[row] += step[row]
            for c in range(columns):
                x[c] += Y[row, c] * step[row]
    return True


@compiled
def _solve_no_slip(Y: Array, b: Array, bilateral: Array) -> tuple[Array, int]:
    """Return impulses of the no-slip law with zero velocity in the bilateral rows, and the status."""
    n = len(b) // 3
    none = np.zeros(n, dtype=np.bool_)
    p, _, status, _, _ = hold(Y, b, bilateral, none, none, PRINCIPAL, ALL_ROWS, MOST_PIVOTS)
    if status != SOLVED:
        p, _, status, _, _ = hold(Y, b, bilateral, none, none, DUAL, ALL_ROWS, MOST_PIVOTS)
    if status != SOLVED and not bilateral.any():  # both pivoting rules fail for points with opposing normals
        M, q = np.empty((n, n)), np.empty(n)
        for i in range(n):
            q[i] = b[3 * i + 2]
            for j in range(n):
                M[i, j] = dot(Y[3 * i + 2], Y[3 * j + 2])
        z, status, _, _ = lemke(M, q, MOST_PIVOTS, covering(n, 1.0))
        for i in range(n):
            p[3 * i + 2] = max(z[i], 0.0)
    return p, status
