"""A step of an engine in contact space: J v⁺ = D p + b with D = J M⁻¹ Jᵀ in the null space of bilateral rows; and the LCP in
normal impulses after all other variables are eliminated, whose matrix is a Gram matrix  [D15 §V].

    0 ≤ z ⟂ w = Y Yᵀ z + r ≥ 0          Y (n, nv)
Three solvers give the same w, compared in [D15 Tables I–III]; z differs when contacts are redundant.
"""

from typing import Literal

import numpy as np

from idyn.errors import InputError
from idyn.library.kernels import compiled, entry
from idyn.library.records import Matrix, Vector
from idyn.solvers.lemke import lemke, natural_residual
from idyn.solvers.linalg import backward, cholesky, forward
from idyn.solvers.pivoting import dual_active_set, ppm
from idyn.solvers.qp import solve_qp
from idyn.status import NOT_CERTIFIED, SOLVED, STATUSES, Status
from idyn.terms.inputs import finite
from idyn.types import Array, Record
from sim_harness.engines.bilateral import (
    RowFactor,
    factor_rows,
    no_rows,
    project,
    row_impulses,
    satisfy_rows,
    solve_row_impulses,
    without_stops,
)
from sim_harness.engines.engine import NON_FINITE, ForwardProblem, ForwardSolution
from sim_harness.engines.linalg import SHIFTS, add, dot, gram, largest, transposed_times


class Space(Record, frozen=True):
    """The contact problem of a step. The n_s joint stops are additional contacts, N = n + n_s."""

    given: ForwardProblem  # the original problem
    problem: ForwardProblem  # the same problem with stops as contacts: J (3N, nv), mu, gaps (N)
    L: Array  # Cholesky factor, M = L Lᵀ (nv, nv)
    v_free: Array  # velocity after the step without contact impulses, with the rows satisfied (nv)
    Y: Array  # factor of D, v⁺ = v_free + L⁻ᵀ Yᵀ p (3N, nv)
    # squared lengths of the rows of J in the metric M⁻¹, before projection onto the null space of the rows (3N)
    lengths2: Array
    b: Array  # contact velocity without contact impulses, J v⁺ = D p + b (3N)
    factor: RowFactor  # orthonormal factor of the bilateral rows
    consistent: bool  # false when the rows contradict each other
    # false when M is not positive definite or the problem has invalid numbers; all other fields are then undefined
    regular: bool

    @property
    def D(self) -> Array:
        """Compute the Delassus matrix Y Yᵀ (3N, 3N)."""
        return gram(self.Y)


def contact_space(given: ForwardProblem) -> Space:
    """Return the contact problem of a step.

    Raises InputError for compliant rows. Fold them into M and force first (`compliant_rows`).
    """
    if given.rows is not None and given.rows.yields.any():
        raise InputError("rows.compliance", "expected rigid rows (zero compliance), got compliant rows")
    a, sound = without_stops(given), is_sound(given)
    G, g = (np.zeros((0, len(a.v))), np.zeros(0)) if a.rows is None else (a.rows.G, a.rows.g)
    L, v_free, Y, lengths2, b, factor, consistent, regular = _contact_space(a.M, a.v, a.dt * (a.force - a.h), a.J, G, g, a.dt)
    return Space(
        given=given, problem=a, L=L, v_free=v_free, Y=Y, lengths2=lengths2, b=b, factor=factor, consistent=consistent,
        regular=regular and sound,
    )  # fmt: skip


@compiled
def unconstrained(M: Array, v: Array, drive: Array) -> tuple[Array, Array, bool]:
    """Return L with M = L Lᵀ, the motion without contacts and rows Lᵀ v⁺ (nv), and whether M is positive definite.

    Lᵀ v⁺ = L⁻¹ dt (f − h) + Lᵀ v

    drive: dt (f − h) (nv)
    """
    L, y = M.copy(), drive.copy()
    cholesky(L)
    for d in range(len(v)):
        if not 0.0 < L[d, d] < np.inf:
            return L, y, False
    forward(L, y)
    transposed_times(L, v, y)
    return L, y, True


@entry(Matrix, Vector, Vector, Matrix, Matrix, Vector, float)
def _contact_space(
    M: Array, v: Array, drive: Array, J: Array, G: Array, g: Array, dt: float
) -> tuple[Array, Array, Array, Array, Array, RowFactor, bool, bool]:
    """Return L, v_free, Y, lengths2, b, factor, consistent, regular of `Space`; drive: dt (f − h) (nv)."""
    m, nv = J.shape
    Y, lengths2, b = J.copy(), np.zeros(m), np.zeros(m)
    L, v_free, regular = unconstrained(M, v, drive)
    if not regular:
        return L, v_free, Y, lengths2, b, no_rows(nv), True, False
    # Lᵀ v_free, projected onto G v⁺ = −g/dt
    factor = factor_rows(L, G)
    consistent = satisfy_rows(factor, g, dt, v_free)
    backward(L, v_free)
    # b = J v_free; Y = J L⁻ᵀ (1 − Qᵀ Q)
    for i in range(m):
        b[i] = dot(0.0, J[i], v_free)
        forward(L, Y[i])
        lengths2[i] = dot(0.0, Y[i], Y[i])
        project(factor.Q, Y[i])
    return L, v_free, Y, lengths2, b, factor, consistent, True


@entry(Matrix, Vector, Vector, Matrix, Matrix, Vector, Matrix, Vector)
def _velocity_after(
    M: Array, v: Array, drive: Array, J: Array, L: Array, v_free: Array, Y: Array, p: Array
) -> tuple[Array, Array, float]:
    """Return v⁺ = v_free + L⁻ᵀ Yᵀ p (nv), the generalised impulse that the rows must supply (nv), and its maximum norm.

    The latter is M(v⁺ − v) − Jᵀp − drive, in exact arithmetic 0 without rows.
    """
    v_plus, rest = np.zeros(len(v)), -drive
    for i in range(len(p)):
        add(v_plus, p[i], Y[i])
        add(rest, -p[i], J[i])
    backward(L, v_plus)
    v_plus += v_free
    change = v_plus - v
    for r in range(len(v)):
        rest[r] = dot(rest[r], M[r], change)
    return v_plus, rest, largest(rest)


@entry(RowFactor, Matrix, Matrix, Vector)
def _solve_row_impulses(factor: RowFactor, L: Array, G: Array, rest: Array) -> tuple[Array, float]:
    """Compute x = L⁻¹ rest and return the result of `solve_row_impulses`."""
    x = rest.copy()
    forward(L, x)
    return solve_row_impulses(factor, G, x, rest)


def solution(space: Space, p: Array, status: Status, iterations: int, contact: float) -> ForwardSolution:
    """Return the engine's solution for impulses p (3N); contact: largest violation of its contact law [N·s or m/s]."""
    a = space.problem
    v_plus, rest, dynamics = _velocity_after(a.M, a.v, a.dt * (a.force - a.h), a.J, space.L, space.v_free, space.Y, p)
    impulses = np.zeros(0)
    if a.rows is not None:
        impulses, dynamics = _solve_row_impulses(space.factor, space.L, a.rows.G, rest)
    finite = np.isfinite(v_plus).all() and np.isfinite(dynamics)
    if status.ok and not space.consistent:
        status = Status.NOT_CERTIFIED
    p = p.reshape(-1, 3)
    return ForwardSolution(
        v_plus=v_plus,
        p=p[: len(space.given.mu)],
        status=status if finite else Status.NON_FINITE,
        iterations=iterations,
        dynamics=dynamics if finite else np.inf,
        contact=contact,
        rows=row_impulses(space.given, p, impulses),
    )


def is_sound(problem: ForwardProblem) -> bool:
    """Check that all numbers of the problem are finite; friction must be ≥ 0 and may be infinite."""
    a, rows = problem, problem.rows
    if not _sound(a.J, a.v, a.h, a.force, a.gaps, a.mu):
        return False
    if rows is None:
        return True
    zero = np.zeros(len(rows.g)) if rows.compliance is None else rows.compliance
    return bool(_sound(rows.G, rows.g, zero, rows.damping_times, zero, zero))


@entry(Matrix, Vector, Vector, Vector, Vector, Vector)
def _sound(J: Array, v: Array, h: Array, force: Array, gaps: Array, mu: Array) -> bool:
    sound = finite(v) and finite(h) and finite(force) and finite(gaps)
    for row in J:
        sound = sound and finite(row)
    for value in mu:
        sound = sound and value >= 0.0
    return sound


def no_solution(problem: ForwardProblem) -> ForwardSolution:
    """Return the answer for a singular inertia or non-finite data: unchanged velocity, zero impulses."""
    return ForwardSolution(
        v_plus=problem.v,
        p=np.zeros((len(problem.mu), 3)),
        status=Status.SINGULAR if is_sound(problem) else Status.NON_FINITE,
        iterations=0,
        dynamics=np.inf,
        contact=np.inf,
        rows=None if problem.rows is None else np.zeros(len(problem.rows.g)),
    )


Solver = Literal["ppm", "qp", "lemke"]
"""ppm: modified principal pivoting method [D15 Alg. 1] with systems of size ≤ nv, monotone pivoting rule when it cycles;
qp: active-set method for quadratic programs (DAQP); lemke: Lemke's method."""

GOOD = 1e-8  # Lemke's solution is accepted without a further shift when |min(z, w)| is below this share of max |r|
MOST_PIVOTS = 1000  # largest number of pivots per LCP
SATISFIED = 1e-12  # w counts as non-negative when it is above −SATISFIED · max |r|


ROUNDING = 1e-12  # impulses of a QP below this share of the largest one belong to inactive bounds and are set to zero


def normal_impulses(Y: Array, r: Array, lengths2: Array, solver: Solver) -> tuple[Array, Status, int]:
    """Return z (n), status, pivots or iterations; lengths2: squared lengths of the rows of Y before any elimination (n)."""
    if solver == "qp":
        return by_qp(Y, r, lengths2)
    z, status, pivots = by_pivots(Y, r, lengths2, solver == "lemke")
    return z, STATUSES[status], pivots


@entry(Matrix, Vector, Vector, bool)
def by_pivots(Y: Array, r: Array, lengths2: Array, by_lemke: bool) -> tuple[Array, int, int]:
    """Solve the LCP by ppm or Lemke's method; return z (n), the number of the status, and pivots."""
    n, least, largest, finite = len(r), 0.0, 0.0, True
    for i in range(n):
        least, largest = min(least, r[i]), max(largest, abs(r[i]))
        finite = finite and np.isfinite(r[i])
    if not finite:
        return np.zeros(n), NON_FINITE, 0
    if least >= 0.0:
        return np.zeros(n), SOLVED, 0
    if by_lemke:
        return _lemke(Y, r)
    z, status, pivots, _ = ppm(Y, r, lengths2, np.zeros(n, dtype=np.bool_), SATISFIED * largest, MOST_PIVOTS)
    if status != SOLVED:
        z, status, more, _ = dual_active_set(Y, r, lengths2, SATISFIED * largest, MOST_PIVOTS)
        pivots += more
    return z, status, pivots


@compiled
def _lemke(Y: Array, r: Array) -> tuple[Array, int, int]:
    """Solve by Lemke's method with increasing shifts of the diagonal of Y Yᵀ; return the best z (n), status and pivots."""
    n, A = len(r), gram(Y)
    best, least, status, pivots, mean, largest = np.zeros(n), np.inf, SOLVED, 0, np.trace(A) / n, np.abs(r).max()
    for shift in SHIFTS:
        shifted = A.copy()
        for i in range(n):
            shifted[i, i] += shift * mean
        z, status, used, _ = lemke(shifted, r, MOST_PIVOTS, np.ones(n))
        pivots += used
        error = natural_residual(A, r, z)
        if error < least:
            best, least = z, error
        if least <= GOOD * largest:
            return best, SOLVED, pivots
    return best, NOT_CERTIFIED if status == SOLVED else status, pivots


def by_qp(Y: Array, r: Array, lengths2: Array) -> tuple[Array, Status, int]:
    """Solve the LCP as a QP by DAQP; return z (n), status and iterations.

    The QP is scaled to order one, because DAQP's tolerances are absolute.
    """
    if not np.isfinite(r).all():
        return np.zeros(len(r)), Status.NON_FINITE, 0
    if not len(r) or r.min() >= 0.0:
        return np.zeros(len(r)), Status.SOLVED, 0
    mass, speed = len(r) / lengths2.sum(), float(np.abs(r).max())
    answer = solve_qp(mass * (Y @ Y.T), r / speed, np.eye(len(r)), np.zeros(len(r)))
    x = np.where(answer.x > ROUNDING * answer.x.max(), answer.x, 0.0)
    return mass * speed * x, answer.status, answer.iterations
