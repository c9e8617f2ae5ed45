"""`no-slip`: rigid contact without slip, as an LCP in the normals alone  [D15 §VI].

    0 ≤ p_N ⟂ N v⁺ + c ≥ 0        S v⁺ = T v⁺ = 0 where contacts touch        c gap speed φ/dt, at least −recovery
Closures are eliminated first, then the tangential rows in the same way [D15 Alg. 2]. The remaining LCP has one variable per
contact and a matrix of rank ≤ nv. The modified principal pivoting method solves it [D15 Alg. 1].

Differences from the paper:
- D15 constrains the tangents of every contact of the set: a lifting foot would be held in the air. Here a contact sticks only
  while it touches at the end of the step and can press: it presses, or could take a share of the load of other contacts, as on
  a patch. The sticking set is found by repeated solves. A contact that lifts if it sticks and presses if it does not is wedged:
  it sticks by friction without a normal force (compare sliding with infinite friction of Lynch and Mason).
- Among dependent tangential rows those of pressing contacts come first, so friction acts where there is a normal force.
- D15's g in (54) and e in (57) omit the forces. Correct: e = N X⁻¹ (M v(t) + dt f) with the upper left block of A⁻¹ for X⁻¹;
  the zeros in (52) are f_s and f_t.
- The gap speed is that of `lcp`. Contacts with μ = 0 and stops never stick.

Modelling error: friction is unlimited. Legs can jam, and feet never slip. If closures leave a contact no tangential freedom,
the closures are satisfied and S v⁺ = 0 is not.
"""

from typing import NamedTuple

import numpy as np

from controllers.config.loading import Kind, NonNegative
from idyn.library.kernels import compiled, entry
from idyn.library.records import Flags, Indices, Matrix, Vector
from idyn.status import SOLVED, STATUSES, Status
from idyn.types import Array
from sim_harness.engines.bilateral import DEPENDENT, RowFactor, components, orthonormalise, project, row_forces
from sim_harness.engines.contact_space import Solver, Space, by_pivots, by_qp, contact_space, no_solution, solution
from sim_harness.engines.engine import ForwardProblem, ForwardSolution, Restitution, gap_speeds
from sim_harness.engines.linalg import add, dot, pushed

ROUNDING = 1e-12
"""An impulse below this share of the largest counts as zero. A QP returns tiny non-zero impulses at inactive bounds."""

INDEPENDENT = 1e-3
"""A tangential row is dropped when its part orthogonal to earlier rows is below this share of its length, in the metric M⁻¹.
Rows of points that lie almost in one plane differ by less. Their normals already constrain that motion, which the tangential
rows would constrain with lever arms of micrometres."""

SHARE = 1e-6
"""A contact can press when its entry in the least-squares smallest impulses exceeds this fraction of their largest entry."""


class Stick(NamedTuple):
    """The problem in the normals for a given set of k sticking contacts."""

    rows: Indices  # indices of the rows S and T of the sticking contacts, in the order of elimination (2k)
    factor: RowFactor  # orthonormal factor of these rows
    t: Vector  # required velocity along the directions Q of the factor (rank)
    Y: Matrix  # factor of N v⁺ + c = Y Yᵀ p_N + r (N, nv)
    r: Vector  # N v⁺ + c without normal impulses (N)


@entry(Matrix, Vector, Vector, Indices)
def stick_rows(Y: Array, b: Array, c: Array, contacts: Array) -> Stick:
    """Eliminate the tangential rows of sticking contacts.

    Y, b: see `Space`
    c: gap speeds [m/s] (N)
    contacts: indices of the sticking contacts (k)
    """
    n, nv, m = len(c), Y.shape[1], 2 * len(contacts)
    rows = np.zeros(m, dtype=np.int64)
    for k in range(m):
        rows[k] = 3 * contacts[k // 2] + k % 2
    # the motion x along Q that makes S v⁺ = T v⁺ = 0
    factor = orthonormalise(Y[rows], INDEPENDENT)
    t = components(factor, -b[rows])
    x = np.zeros(nv)
    for j in range(len(t)):
        add(x, t[j], factor.Q[j])
    # r = N v⁺ + c at x; Y ← N L⁻ᵀ (1 − Qᵀ Q)
    normals, r = Y[2::3].copy(), np.zeros(n)
    for i in range(n):
        r[i] = dot(b[3 * i + 2] + c[i], normals[i], x)
        project(factor.Q, normals[i])
    return Stick(rows, factor, t, normals, r)


@entry(Matrix, Stick, Vector)
def impulses(Y: Array, stick: Stick, z: Array) -> Array:
    """Return all impulses (3N) for normal impulses z (N); friction makes the speeds of the independent tangential rows 0."""
    p = np.zeros(len(Y))
    for i in range(len(z)):
        p[3 * i + 2] = z[i]
    pulled, load = -pushed(Y, p), stick.t.copy()
    for j in range(len(load)):
        load[j] = dot(load[j], stick.factor.Q[j], pulled)
    friction = row_forces(stick.factor, load)
    for k in range(len(friction)):
        p[stick.rows[k]] = friction[k]
    return p


@compiled
def can_press(Y: Array, z: Array, touches: Array) -> Array:
    """Return which contacts press or could take a share of the load of pressing contacts (N, bool).

    Y: rows of the normals (N, nv)
    z: normal impulses (N)
    touches: true for contacts that are closed at the end of the step (N)
    """
    n, largest = len(Y), 0.0
    for i in range(n):
        largest = max(largest, z[i])
    presses, more = np.zeros(n, dtype=np.bool_), False
    for i in range(n):
        presses[i] = z[i] > ROUNDING * largest
        more = more or (touches[i] and not presses[i])
    on = np.flatnonzero(touches | presses)
    if largest == 0.0 or not more:
        return presses
    # the smallest impulses with the same effect Yᵀ z: project z onto the row space of Yᵀ
    share, pressing = np.zeros(len(on)), z[on]
    for direction in orthonormalise(np.ascontiguousarray(Y[on].T), DEPENDENT).Q:
        add(share, dot(0.0, direction, pressing), direction)
    largest = 0.0
    for k in range(len(on)):
        largest = max(largest, abs(share[k]))
    for k in range(len(on)):
        presses[on[k]] = presses[on[k]] or share[k] > SHARE * largest
    return presses


@entry(Matrix, Vector, Vector, Vector, Indices)
def violation(Y: Array, b: Array, c: Array, p: Array, held: Array) -> float:
    """Return the largest of |min(p_N, N v⁺ + c)| and of the speeds of the sticking rows; held: indices of these rows."""
    x, worst = pushed(Y, p), 0.0
    for i in range(len(c)):
        w = dot(b[3 * i + 2] + c[i], Y[3 * i + 2], x)
        worst = max(worst, abs(min(p[3 * i + 2], w)))
    for k in held:
        worst = max(worst, abs(dot(b[k], Y[k], x)))
    return worst


TOLERANCE = 1e-8  # largest violation of a solved step, relative to the speed of the fastest contact [m/s]. Typical: 1e-15
TOUCHES = 1e-10  # a contact touches at the end of the step when N v⁺ + c is below this share of the fastest contact's speed


class NoSlip(Kind, frozen=True, tag="no-slip"):
    """Rigid contacts with unlimited friction: what presses sticks."""

    recovery: NonNegative = 0.05  # largest speed at which a penetration is reduced [m/s], ≥ 0; see the engine `lcp`
    restitution: Restitution = 0.0  # ratio of the speeds after and before an impact, see `sim_harness.engines.engine`
    solver: Solver = "ppm"  # LCP solver ppm, qp or lemke; all give the same motion

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        space = contact_space(problem)
        if not space.regular:
            return no_solution(problem)
        a = space.problem
        c = gap_speeds(a.gaps, a.J[2::3] @ a.v, a.dt, self.recovery, self.restitution)
        p, status, pivots, error = solve_sticking(space, c, self.solver)
        return solution(space, p, status, pivots, error)


class StickingSet(NamedTuple):
    """State of the search for the sticking contacts (N, bool each)."""

    allowed: Flags  # contacts that may stick, μ > 0
    active: Flags  # contacts that stick at present
    first: Flags  # contacts whose tangential rows are eliminated first
    released: Flags  # contacts that stuck earlier and were released
    wedged: Flags  # released contacts that stick again; they are not released a second time


def solve_sticking(space: Space, c: Array, solver: Solver) -> tuple[Array, Status, int, float]:
    """Return impulses (3N), status, pivots of all attempts, and the largest violation [m/s]; c: gap speeds [m/s] (N)."""
    Y, b, mu, lengths2 = space.Y, space.b, space.problem.mu, np.ascontiguousarray(space.lengths2[2::3])
    scale = max(1.0, float(np.abs(b[2::3] + c).max(initial=0.0)))
    if solver == "qp":
        p, status, pivots, error = _solve_by_qp(Y, b, c, mu, lengths2, scale)
    else:
        p, code, pivots, error = _solve_by_pivots(Y, b, c, mu, lengths2, scale, solver == "lemke")
        status = STATUSES[code]
    if status.ok and not error <= TOLERANCE * scale:
        status = Status.NOT_CERTIFIED
    return p, status, pivots, error


def _solve_by_qp(Y: Array, b: Array, c: Array, mu: Array, lengths2: Array, scale: float) -> tuple[Array, Status, int, float]:
    """Do the work of `_solve_by_pivots` with the QP solver, which is not compiled."""
    sticking, pivots = initial_set(b, c, mu, scale), 0
    while True:
        stick = stick_rows(Y, b, c, elimination_order(sticking))
        z, status, used = by_qp(stick.Y, stick.r, lengths2)
        pivots += used
        p = impulses(Y, stick, z)
        if not status.ok or not update_set(sticking, stick, p, scale):
            return p, status, pivots, violation(Y, b, c, p, stick.rows[stick.factor.kept])


@entry(Vector, Vector, Vector, float)
def initial_set(b: Array, c: Array, mu: Array, scale: float) -> StickingSet:
    """Return the contacts that would close without contact impulses, as the first sticking set."""
    n = len(c)
    allowed, active, never = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    for i in range(n):
        allowed[i] = mu[i] > 0.0
        active[i] = allowed[i] and b[3 * i + 2] + c[i] < -TOUCHES * scale
    return StickingSet(allowed, active, never.copy(), never.copy(), never.copy())


@entry(StickingSet)
def elimination_order(sticking: StickingSet) -> Array:
    """Return the indices of the sticking contacts in the order of their elimination."""
    active, first = sticking.active, sticking.first
    return np.concatenate((np.flatnonzero(active & first), np.flatnonzero(active & ~first)))


@entry(Matrix, Vector, Vector, Vector, Vector, float, bool)
def _solve_by_pivots(
    Y: Array, b: Array, c: Array, mu: Array, lengths2: Array, scale: float, by_lemke: bool
) -> tuple[Array, int, int, float]:
    """Solve until the sticking set does not change: impulses (3N), status, total pivots, largest violation [m/s]."""
    sticking, pivots = initial_set(b, c, mu, scale), 0
    while True:
        stick = stick_rows(Y, b, c, elimination_order(sticking))
        z, status, used = by_pivots(stick.Y, stick.r, lengths2, by_lemke)
        pivots += used
        p = impulses(Y, stick, z)
        if status != SOLVED or not update_set(sticking, stick, p, scale):
            return p, status, pivots, violation(Y, b, c, p, stick.rows[stick.factor.kept])


@entry(StickingSet, Stick, Vector, float)
def update_set(sticking: StickingSet, stick: Stick, p: Array, scale: float) -> bool:
    """Update the sticking set and the elimination order in place from impulses p (3N); return whether to solve again.

    The iteration ends: each contact changes at most three times, and the order changes at most once without such a change.
    """
    z, touches = p[2::3].copy(), np.zeros(len(stick.r), dtype=np.bool_)
    n, x = len(z), pushed(stick.Y, z)
    for i in range(n):
        touches[i] = dot(stick.r[i], stick.Y[i], x) <= TOUCHES * scale
    # sticking: contacts that press or could press; a released contact that returns is wedged
    press = can_press(stick.Y, z, touches)
    differs = False
    for i in range(n):
        wanted = sticking.allowed[i] and (press[i] or sticking.wedged[i])
        if wanted != sticking.active[i]:
            differs = True
            if wanted and sticking.released[i]:
                sticking.wedged[i] = True
            if not wanted:
                sticking.released[i] = True
            sticking.active[i] = wanted
    # if contacts without normal force have friction, eliminate rows of pressing contacts first (once)
    misplaced, ordered, pressing = False, False, False
    for i in range(n):
        misplaced = misplaced or (z[i] <= 0.0 and (p[3 * i] != 0.0 or p[3 * i + 1] != 0.0))
        ordered = ordered or sticking.first[i]
        pressing = pressing or z[i] > 0.0
    again = differs or (misplaced and pressing and not ordered)
    if again:
        for i in range(n):
            sticking.first[i] = z[i] > 0.0
    return again
