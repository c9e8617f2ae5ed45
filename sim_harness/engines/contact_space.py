"""A step of an engine in contact space: J v⁺ = D p + b with D = J M⁻¹ Jᵀ in the null space of bilateral rows."""

import numpy as np

from idyn.errors import InputError
from idyn.jit.compiled import compiled
from idyn.solvers.linalg import backward, cholesky, forward
from idyn.status import Status
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
from sim_harness.engines.engine import ForwardProblem, ForwardSolution
from sim_harness.engines.vectors import add, dot, gram, largest, transposed_times


class Space(Record, frozen=True):
    """The contact problem of a step. The n_s joint stops are additional contacts, N = n + n_s.

    given: the original problem
    problem: the same problem with stops as contacts: J (3N, nv), mu, gaps (N)
    L: Cholesky factor, M = L Lᵀ (nv, nv)
    v_free: velocity after the step without contact impulses, with the rows satisfied (nv)
    Y: factor of D, v⁺ = v_free + L⁻ᵀ Yᵀ p (3N, nv)
    lengths2: squared lengths of the rows of J in the metric M⁻¹, before projection onto the null space of the rows (3N)
    b: contact velocity without contact impulses, J v⁺ = D p + b (3N)
    factor: orthonormal factor of the bilateral rows
    consistent: false when the rows contradict each other
    regular: false when M is not positive definite or the problem has invalid numbers; all other fields are then undefined
    """

    given: ForwardProblem
    problem: ForwardProblem
    L: Array
    v_free: Array
    Y: Array
    lengths2: Array
    b: Array
    factor: RowFactor
    consistent: bool
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


@compiled
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


@compiled
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


@compiled
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


@compiled
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
