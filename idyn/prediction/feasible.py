"""Feasible demands: the nearest demand that some contact impulse can realise  [ZD §4.5; MATHEMATICS §4].

    min ½‖P v⁺ − v_a⁺‖² + ½ε‖v_u⁺ − v_u‖²     s.t.  N v̂ ≥ −φ/dt,   and S v̂ = T v̂ = 0 where contacts must not slip

with v̂ = v⁺ − (1 − dt/T_r) v: on ground that yields a contact that slips or sinks may come to rest over T_r
(`idyn.contact.ground`).

Purely kinematic, and feasible for φ ≥ 0 (v = 0). It is the no-slip problem of a body whose inertia is diag(1, ε) with every
joint free, so the no-slip solver solves it: in the coordinates x = (P v⁺ − v_a⁺, √ε (v_u⁺ − v_u)) the rows are
Y = (J_a, J_u/√ε).
"""

import numpy as np

from idyn.contact.ground import allowance
from idyn.jit.compiled import compiled, inlined
from idyn.jit.memory import local
from idyn.laws.no_slip import ALL_ROWS, DUAL, PRINCIPAL, hold
from idyn.solvers.lemke import covering, lemke
from idyn.solvers.linalg import backward, forward
from idyn.solvers.pivoting import append_row
from idyn.status import SOLVED, STATUSES, Status
from idyn.terms.stages import Dynamics
from idyn.types import Array

EPSILON = 1e-4
"""ε, with m/s and rad/s taken alike. The base pays for consistency first, the joints only for what it cannot; at 1 the base's
ballistic velocity counts as much as the demand, below 1e-8 rounding errors show in the joints."""

MOST_PIVOTS = 1000

PLAINLY = 1e7
"""Rows are plainly independent when of each more than a thousandth of its length is new (this times the least that counts,
squared): no rank need be chosen then, and two solutions with one factor are exact."""


def project(
    dynamics: Dynamics, q_ddot: Array, sticking: Array, touching: float, *, closed: bool = False
) -> tuple[Array, float, Status]:
    """The consistent joint accelerations nearest to `q_ddot` [rad/s²] (na), and by how much that changes the demanded joint
    velocities, max norm [rad/s].

    sticking: contacts that must not slip are those where this is positive (n) and the gap at most `touching` [m]
    closed: nor may these part. Not SOLVED only when penetrations contradict one another.
    """
    nearest, change, status = nearest_demand(dynamics.fields, q_ddot, sticking, touching, closed)
    return nearest, change, STATUSES[status]


@compiled
def nearest_demand(d: Dynamics, q_ddot: Array, sticking: Array, touching: float, closed: bool) -> tuple[Array, float, int]:
    """As `project`; the status as an integer."""
    g = d.given
    u, a = g.model.u, g.model.a
    n, nu, na, nv = len(g.gaps), len(u), len(a), len(g.v)
    dt, root, wanted = g.dt, np.sqrt(EPSILON), local(nv)
    # what is wanted of v̂: v_u − keep v at the base, v_a + dt q̈ − keep v at the joints
    for j in range(nv):
        wanted[j] = (1.0 - g.keep) * g.v[j]
    for k in range(na):
        wanted[a[k]] += dt * q_ddot[k]
    # rows of Y = (J_a, J_u/√ε) and b, contacts first, then closures
    rows = 3 * n + len(d.G)
    Y, b, bilateral = local((rows, na + nu)), local(rows), local(rows, np.bool_)
    for row in range(rows):
        i, r = row // 3, row % 3
        bilateral[row] = True
        if i < n:
            J, s = d.J[row], allowance(g, i) if r == 2 else 0.0
            bilateral[row] = sticking[i] > 0 and g.gaps[i] <= touching and (r < 2 or closed)
        else:  # a closure's row: of v⁺, not of v̂
            J, s = d.G[row - 3 * n], d.rate[row - 3 * n] + g.keep * np.dot(d.G[row - 3 * n], g.v)
        for j in range(nv):
            s += J[j] * wanted[j]
        b[row] = s
        for k in range(na):
            Y[row, k] = J[a[k]]
        for k in range(nu):
            Y[row, na + k] = J[u[k]] / root
    p, status = np.zeros(rows), SOLVED
    if not (bilateral.all() and all_vanish(Y, b, p)):
        p, status = _held(Y, b, bilateral)
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
def all_vanish(Y: Array, b: Array, p: Array) -> bool:
    """Fills p such that all rows of Y Yᵀ p + b vanish; whether they are plainly independent, so that this can be done."""
    rows, columns = Y.shape
    F, active, x, step = local((rows, rows)), local(rows, np.int64), local(columns), local(rows)
    for c in range(columns):
        x[c] = 0.0
    if rows > columns:
        return False
    for row in range(rows):
        length2 = 0.0
        for c in range(columns):
            length2 += Y[row, c] * Y[row, c]
        if not append_row(F, Y, active, row, row, PLAINLY * length2):
            return False
    for _ in range(2):  # the second refines
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


@inlined
def _held(Y: Array, b: Array, bilateral: Array) -> tuple[Array, int]:
    """Impulses of the no-slip law with the bilateral rows made to vanish, and the status."""
    n = len(b) // 3
    none = np.zeros(n, dtype=np.bool_)
    p, _, status, _, _ = hold(Y, b, bilateral, none, none, PRINCIPAL, ALL_ROWS, MOST_PIVOTS)
    if status != SOLVED:
        p, _, status, _, _ = hold(Y, b, bilateral, none, none, DUAL, ALL_ROWS, MOST_PIVOTS)
    if status != SOLVED and not bilateral.any():  # points that oppose one another spoil both
        N = Y[2::3].copy()
        z, status, _, _ = lemke(N @ N.T, b[2::3].copy(), MOST_PIVOTS, covering(n, 1.0))
        for i in range(n):
            p[3 * i + 2] = max(z[i], 0.0)
    return p, status
