"""`first-order`: implicit springs and dampers of any stiffness, and exact friction cones  [Drumwright].

    φ⁺ = φ + dt φ̇⁺        λ⁺ = −K φ⁺ − B φ̇⁺        φ̇⁺ = J v⁺        (51)–(53)
Implicit Euler in the deflection of contacts and rows, semi-explicit in q and v: of first order, and stable for all K, B and dt
(L-stable). With p = dt λ
    J v⁺ + R p = −E φ / dt        R = 1/(dt² K + dt B)        E = dt K / (dt K + B)
holds for a bilateral row. Contacts and stops only press, and friction opposes sliding with at most μ p_n. Rigid rows (K = ∞)
are eliminated by projection in y = Lᵀ v, as in `bilateral`; compliant rows are items of the table.

Differences from the paper:
- The paper's quadratic programs give the smallest forces that satisfy inequalities, which are not those of its own springs for
  contacts on common bodies. Here each contact satisfies its complementarity condition.
- M̂ Ġ v in (23) is omitted, because contacts without load would press. Closures have an error O(dt²) per step.

Limits: the solver may fail for contacts that jam at μ = ∞, for piles of a hundred stiff contacts with friction (K dt² above
1e7 of the bodies' masses), and in about 2 of 10 000 steps of a box that tumbles on the ground.

Modelling error: first order in dt. Springs that a step does not resolve are overdamped, so bodies do not bounce on stiffnesses
above about their mass over dt². A sticking contact creeps at its load over B_t. With `dissipation` a landing is damped before
the body touches; with candidates "touching", contacts bounce because of the depth they reach before they are included.
"""

from typing import ClassVar, Literal, NamedTuple

import numpy as np

from controllers.config.loading import Kind, NonNegative, Positive
from idyn.library.kernels import compiled, entry
from idyn.library.records import Indices, Matrix, Vector
from idyn.status import STATUSES, Status
from idyn.types import Array
from sim_harness.engines.bilateral import RowFactor, factor_rows, no_rows, project, satisfy_rows, solve_row_impulses
from sim_harness.engines.contact_space import is_sound, no_solution
from sim_harness.engines.engine import ForceTimes, ForwardProblem, ForwardSolution, items_of
from sim_harness.engines.first_order_law import NORMAL, TANGENT, Rules, Table
from sim_harness.engines.first_order_solver import solve
from sim_harness.engines.linalg import (
    Sparse,
    add,
    backward_within,
    cholesky_within,
    compressed,
    dofs_of,
    dot,
    forward_within,
    islands_of,
    profile,
    sparse_pushed,
    touched,
    trees_of,
)


class Bodies(NamedTuple):
    """Data of a step other than its unknown impulses."""

    M: Matrix  # inertia (nv, nv)
    v: Vector  # velocity before the step (nv)
    drive: Vector  # dt (f − h) (nv)
    J: Matrix  # three rows for each item of the table (3N, nv)
    G: Matrix  # rigid rows (m, nv)
    g: Vector  # values of the rigid rows (m)
    dt: float  # step [s]


class Free(NamedTuple):
    """Result of the step without impulses of contacts, limits and compliant rows."""

    L: Matrix  # Cholesky factor of M (nv, nv)
    first: Indices  # first non-zero column of each row of L (nv)
    v_free: Vector  # velocity after the step with rigid rows only (nv)
    factor: RowFactor  # orthonormal factor of the rigid rows
    consistent: bool  # false when rigid rows contradict each other
    regular: bool  # false when M is not positive definite


@entry(Bodies)
def free_motion(bodies: Bodies) -> Free:
    """Compute the step without impulses of contacts, limits and compliant rows."""
    nv = len(bodies.v)
    first, L, y = profile(bodies.M), bodies.M.copy(), bodies.drive.copy()
    cholesky_within(L, first)
    for d in range(nv):
        if not 0.0 < L[d, d] < np.inf:
            return Free(L, first, y, no_rows(nv), True, False)
    # y = Lᵀ v_free = L⁻¹ dt (f − h) + Lᵀ v, projected onto G v⁺ = −g/dt
    forward_within(L, first, y)
    y += times_transposed(L, first, bodies.v)
    factor = factor_rows(L, bodies.G)
    consistent = satisfy_rows(factor, bodies.g, bodies.dt, y)
    backward_within(L, first, y)
    return Free(L, first, y, factor, consistent, True)


@entry(Matrix, Indices, Vector)
def times_transposed(L: Array, first: Array, v: Array) -> Array:
    """Return Lᵀ v (nv)."""
    y = np.zeros(len(v))
    for r in range(len(v)):
        for d in range(first[r], r + 1):
            y[d] += L[r, d] * v[r]
    return y


@entry(Bodies, Free, Table)
def scaled_jacobian(bodies: Bodies, free: Free, table: Table) -> tuple[Sparse, Array, Array]:
    """Return Y, the order of its columns (nv), and w at p = 0 (N, 3). Sets the weights of the table in place."""
    J, n, nv = bodies.J, len(table.mu), len(bodies.v)
    Y, w = J.copy(), np.zeros((n, 3))
    # Y = J L⁻ᵀ, w = J v_free − v̂, weights ‖Y_i‖² + R
    for i in range(n):
        for e in range(3):
            y = Y[3 * i + e]
            w[i, e] = dot(0.0, J[3 * i + e], free.v_free)
            if e < 2 and table.mu[i] == 0.0:
                continue
            forward_within(free.L, free.first, y)
            column = NORMAL if e == 2 else TANGENT
            table.weights[i, column] = max(table.weights[i, column], dot(0.0, y, y))
            project(free.factor.Q, y)
        w[i, 2] -= table.v_hat[i]
        for e in range(2):
            if table.weights[i, e] > 0.0:
                table.weights[i, e] += table.R[i, e]
    order = _order(J, bodies.M, free.factor)
    return compressed(Y, np.arange(n), order, np.arange(nv)), order, w


@compiled
def _order(J: Array, M: Array, factor: RowFactor) -> Array:
    """Return the degrees of freedom ordered by island and tree (nv), in their original order when there are rigid rows."""
    if len(factor.Q):
        return np.arange(len(M))
    tree = trees_of(M)
    trees, _ = islands_of(touched(J, tree))
    return dofs_of(trees, tree)


@entry(Bodies, Free, Sparse, Indices, Matrix)
def velocity_after(bodies: Bodies, free: Free, Y: Sparse, order: Array, p: Array) -> tuple[Array, Array, float]:
    """Return v⁺ (nv), impulses λ of the rigid rows (m), and ‖M (v⁺ − v) − Jᵀ p − Gᵀ λ − drive‖∞ [N·s, N·m·s]."""
    nv, y = len(bodies.v), sparse_pushed(Y, p)
    v_plus = np.zeros(nv)
    for d in range(nv):
        v_plus[order[d]] = y[d]
    backward_within(free.L, free.first, v_plus)
    v_plus += free.v_free
    # generalised impulse that the rigid rows must supply: Gᵀ λ = M (v⁺ − v) − Jᵀ p − drive
    rest, change = -bodies.drive, v_plus - bodies.v
    for i in range(len(p)):
        for e in range(3):
            if p[i, e] != 0.0:
                add(rest, -p[i, e], bodies.J[3 * i + e])
    for r in range(nv):
        rest[r] = dot(rest[r], bodies.M[r], change)
    x = rest.copy()
    forward_within(free.L, free.first, x)
    impulses, worst = solve_row_impulses(free.factor, bodies.G, x, rest)
    return v_plus, impulses, worst


TOLERANCE = 1e-10  # largest violation of the contact law in a solved step, relative to max(1 m/s, speed of the fastest contact)
MOST_STEPS = 30  # largest number of Newton steps per call
NOTHING = 1e-200  # smallest stiffness, used in place of 0 [N/m]


ContactTerms = tuple[Sparse, Array, Array]  # result of `scaled_jacobian`


class Chosen(NamedTuple):
    """Partition of the problem's constraints."""

    contacts: Array  # true for contacts in the table (n)
    soft: Array  # true for compliant rows and stops, which are in the table (m)
    rigid: Array  # true for rigid bilateral rows, which are eliminated (m)


class FirstOrder(Kind, frozen=True, tag="first-order"):
    """Springs and dampers of any stiffness at the end of the step, with Coulomb's law. Stiffness and dissipation apply to
    contacts whose bodies have no stiffness of their own.
    """

    stiffness: Positive = 1e9  # K [N/m], > 0, may be inf
    dissipation: NonNegative = 0.0  # τ_d [s], ≥ 0, B = K τ_d
    tangential: Positive = 1e9  # B_t of sticking friction [N·s/m], > 0; a contact with tangential load F creeps at F/B_t
    # "near" uses all reported contacts, so an impact ends at rest within its step; "touching" those with φ ≤ 0
    candidates: Literal["near", "touching"] = "near"

    force_times: ClassVar[ForceTimes] = ForceTimes()

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        chosen = self.choose(problem)
        bodies, table = self.parts(problem, chosen)
        free = free_motion(bodies)
        if not (free.regular and is_sound(problem)):
            return no_solution(problem)
        contacts = scaled_jacobian(bodies, free, table)
        found = self.impulses(bodies, free, table, contacts)
        return step_solution(problem, chosen, found, free.consistent, velocity_after(bodies, free, *contacts[:2], found[0]))

    def impulses(self, bodies: Bodies, free: Free, table: Table, contacts: ContactTerms) -> tuple[Array, Status, int, float]:
        """Return impulses of the table (N, 3), status, Newton steps and violation [m/s]."""
        Y, order, w = contacts
        begin = times_transposed(free.L, free.first, bodies.v - free.v_free)
        motion = float(np.linalg.norm(times_transposed(free.L, free.first, free.v_free)))
        scale = max(1.0, float(np.abs(w).max(initial=0.0)))
        p, code, steps, error = solve(Y, table, w, begin[order], Rules(TOLERANCE * scale, motion, MOST_STEPS))
        return p, STATUSES[code], steps, error

    def choose(self, problem: ForwardProblem) -> Chosen:
        """Return which constraints are in the table and which are eliminated."""
        a, rows = problem, problem.rows
        contacts = np.ones(len(a.mu), dtype=bool) if self.candidates == "near" else a.gaps <= 0.0
        if rows is None:
            empty = np.zeros(0, dtype=bool)
            return Chosen(contacts, empty, empty)
        rigid = ~rows.stops & ~rows.yields
        return Chosen(contacts, ~rigid, rigid)

    def parts(self, problem: ForwardProblem, chosen: Chosen) -> tuple[Bodies, Table]:
        """Return the bodies and the table, contacts first. The table's weights are zero until `scaled_jacobian` sets them."""
        a, rows, dt = problem, problem.rows, problem.dt
        J, mu, k, tau, gaps = items_of(a, chosen.contacts, chosen.soft, self.stiffness, self.dissipation)
        n, tie, e = np.count_nonzero(chosen.contacts), np.zeros(len(mu), dtype=bool), 1.0 / np.maximum(k, NOTHING)
        G, g = np.zeros((0, len(a.v))), np.zeros(0)
        if rows is not None:
            tie[n:], G, g = ~rows.stops[chosen.soft], rows.G[chosen.rigid], rows.g[chosen.rigid]
            e[n:] = 0.0 if rows.compliance is None else rows.compliance[chosen.soft]
        tau[e == 0.0] = 0.0  # rigid items have no damping
        R = np.empty((len(mu), 2))
        R[:, 0], R[:, 1] = 1.0 / (dt * self.tangential), e / (dt * (dt + tau))
        table = Table(mu, tie, R, np.zeros((len(mu), 2)), -gaps / (dt + tau))
        return Bodies(a.M, a.v, dt * (a.force - a.h), J, G, g, dt), table


def step_solution(
    problem: ForwardProblem,
    chosen: Chosen,
    found: tuple[Array, Status, int, float],
    consistent: bool,
    after: tuple[Array, Array, float],
) -> ForwardSolution:
    """Return the engine's solution.

    found: impulses of the table, status, steps and violation
    consistent: false when rigid rows contradict each other
    after: result of `velocity_after`
    """
    (impulses, status, steps, error), (v_plus, ties, dynamics) = found, after
    p, rows = np.zeros((len(chosen.contacts), 3)), None
    n = np.count_nonzero(chosen.contacts)
    p[chosen.contacts] = impulses[:n]
    if problem.rows is not None:
        rows = np.empty(len(problem.rows.g))
        rows[chosen.soft], rows[chosen.rigid] = impulses[n:, 2], ties
    if status.ok and not consistent:
        status = Status.NOT_CERTIFIED
    return ForwardSolution(
        v_plus=v_plus,
        p=p,
        status=status if np.isfinite(dynamics) else Status.NON_FINITE,
        iterations=steps,
        dynamics=dynamics,
        contact=error,
        rows=rows,
    )
