"""No-slip law as an LCP: contacts either separate or stick, with unlimited friction  [ZD §4, Alg. 1 and 2; D15 §VI;
MATHEMATICS §3.1].

1. Rank selection: a maximal independent set X of tangential rows, by orthogonalisation with pivoting.
2. Elimination: Ŷ = Y_N minus its part in the span of Y_X, so Q = Ŷ Ŷᵀ.
3. LCP(r, Q) by principal pivoting on Ŷ.
4. p_X such that the velocities in the rows X are zero; all other tangential impulses are zero.
5. The tangential rows of separating contacts are removed, those of closed contacts are restored, and steps 1–4 are repeated
   until the set of sticking contacts does not change. If it does not converge, all sets are tried for few contacts; with more
   contacts the iteration starts again from the empty set.
6. If a contact carries a tangential impulse without a normal impulse, steps 1–4 are repeated once, with the rows of loaded
   contacts selected first. The new result is used if the motion is the same.

Steps 5 and 6 are new: without them a foot that lifts by a micron cannot move sideways. The orthogonal basis is stored
instead of D_XX, which would square the condition number: feet almost on one plane are usual.
"""

from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from idyn.certificate.certify import Conditions
from idyn.laws.law import FACE_ZERO, Attempt, Face, Law, LawData, Rung, Start, contact_velocity
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Mask, Matrix, Vector
from idyn.solvers.linalg import backward, copy, copy_rows, dot, fill, fill_rows, forward
from idyn.solvers.pivoting import dual_active_set, ppm
from idyn.status import RAY, SOLVED
from idyn.terms.reduction import Reduced
from idyn.terms.stages import ReducedProblem
from idyn.types import Array


@compiled
def _orthogonalise(U: Array, k: int, u: Array, along: Array) -> float:
    """Make u orthogonal to the first k rows of U, in place, and add its components to `along`. Return its squared length."""
    for j in range(k):
        s = dot(U[j], u)
        along[j] += s
        for c in range(len(u)):
            u[c] -= s * U[j, c]
    return dot(u, u)


@compiled
def select_rows(Y: Array, bilateral: Array, preferred: Array, rank: float, X: Array, U: Array, R: Array) -> int:
    """Select independent rows of `bilateral` ones (3n, bool): of `preferred` contacts (n, bool), then others, longest first.

    Each has a part orthogonal to the rows before it that is longer than the share `rank` of its length. Return their number k;
    fill, in the first k rows, indices X (m), orthonormal basis U (m, m) and lower triangle R (m, m) with Y_X = R U."""
    rows, m = Y.shape
    # by columns, so that loops run over all rows at once; rest: orthogonal parts of the rows; along: their components along the
    # basis; start, new: squared lengths of the rows and of their orthogonal parts; s, square: of the newest direction
    rest, along, start, new = stack_array((m, rows)), stack_array((m, rows)), stack_array(rows), stack_array(rows)
    s, square = stack_array(rows), stack_array(rows)
    k, first = 0, True
    # squared lengths
    for i in range(rows):
        length2 = 0.0
        for c in range(m):
            rest[c, i], along[c, i] = Y[i, c], 0.0
            length2 += Y[i, c] * Y[i, c]
        start[i] = new[i] = length2 if bilateral[i] else 0.0  # 0: not a candidate
    while k < m:
        # next row: the one with the longest orthogonal part; preferred contacts first
        row, most = -1, 0.0
        for i in range(rows):
            if preferred[i // 3] == first and new[i] > max(most, rank * rank * start[i]):
                row, most = i, new[i]
        if row < 0 and first:
            first = False
            continue
        if row < 0:
            break
        new[row] = 0.0
        u, parts = U[k], R[k]
        for c in range(m):
            u[c] = rest[c, row]
        for j in range(k):
            parts[j] = along[j, row]
        # orthogonalise again if the remaining part is short, hence dominated by rounding errors
        length2 = dot(u, u)
        if length2 < 0.01 * start[row]:
            length2 = _orthogonalise(U, k, u, parts)
            if not length2 > rank * rank * start[row]:
                continue
        # U_k = u/‖u‖, Y_row = R_k U
        length = np.sqrt(length2)
        for c in range(m):
            u[c] /= length
        parts[k] = length
        X[k] = row
        # subtract the new direction from all rows
        fill(s, 0.0)
        fill(square, 0.0)
        for c in range(m):
            for i in range(rows):
                s[i] += u[c] * rest[c, i]
        copy(s, along[k])
        for c in range(m):
            for i in range(rows):
                rest[c, i] -= s[i] * u[c]
                square[i] += rest[c, i] * rest[c, i]
        for i in range(rows):
            new[i] = square[i] if new[i] > 0.0 else 0.0
        k += 1
    return k


ALL_ROWS = 1e-9
"""Rank threshold of the later rungs (solver attempts): they select every row that differs by more than rounding errors. The
first rung selects a row if its orthogonal part is longer than the share `Reduced.independent` of the row. Feet almost on one
plane have rows that differ by less; for a feasible demand the normal rows imply these rows, without tangential impulses of
kilonewtons that cancel."""

MAX_UPDATES = 20  # most repetitions in step 5: at a lift-off, hundreds of contact points may change their set
MOST_SEARCHED = 5  # maximum number of contacts for which step 5 tries all sets
ZERO_SPEED = 1e-10  # closing speeds up to this [m/s] count as zero: rounding errors of velocities that rank selection amplifies

PRINCIPAL, DUAL = 0, 1


class NoSlip(Law):
    """The no-slip law. max_pivots: limit for one attempt"""

    name = "no-slip"
    conditions = Conditions.NO_SLIP
    sticks = holds_still = True
    unlimited_friction = True
    basis_width = 1
    rungs = (Rung("warm", Start.BASIS, 0, cold="cold"), Rung("all rows", Start.COLD, 1), Rung("dual active set", Start.COLD, 2))

    def __init__(self, max_pivots: int = 1000) -> None:
        self.max_pivots, self.kernel = max_pivots, no_slip_kernel

    def sticking(self, mu: Array) -> Array:
        return mu

    def solution(self, problem: Reduced, basis: Array | None, rung: int = 0) -> Attempt:
        """Solve by rung number `rung` from a basis; None: from an empty basis."""
        start = np.zeros((len(problem.mu), 1), dtype=np.bool_) if basis is None else basis
        rule, rank = rule_of(rung, problem.independent)
        p, flags, status, pivots, after = solve_no_slip(problem.Y, problem.b, problem.mu, start, rule, rank, self.max_pivots)
        face = Face(flags, self.directions, problem.mu, True)
        return Attempt(p, face, status, pivots, after)


@entry(Matrix, Vector, Vector, Mask, int, float, int)
def solve_no_slip(
    Y: Array, b: Array, mu: Array, guess: Array, rule: int, rank: float, max_pivots: int
) -> tuple[Array, Array, int, int, Array]:
    """Run steps 1 to 6. Return p (3n), flags of the face, status, pivots, basis (n, 1)."""
    n = len(mu)
    held, bilateral, pivots = mu > 0.0, np.zeros(3 * n, dtype=np.bool_), 0
    start, no_contact = guess[:, 0].copy(), np.zeros(n, dtype=np.bool_)
    settles = min(n, MAX_UPDATES) + 2
    last = settles + (1 << n if n <= MOST_SEARCHED else settles) - 1
    attempt = 0
    while True:
        # step 5: the set of sticking contacts; without convergence the empty set, or all sets in turn
        if attempt == settles and n > MOST_SEARCHED:
            held = np.zeros(n, dtype=np.bool_)
        elif attempt >= settles and n <= MOST_SEARCHED:
            for i in range(n):
                held[i] = mu[i] > 0.0 and (attempt - settles) >> i & 1 == 0
        for i in range(n):
            bilateral[3 * i] = bilateral[3 * i + 1] = held[i]
        # steps 1 to 4; converged when the closed contacts are the sticking ones
        p, w, status, more, active = hold(Y, b, bilateral, no_contact, start, rule, rank, max_pivots)
        pivots += more
        stays = (mu > 0.0) & (w <= FACE_ZERO)
        if status == SOLVED and (stays == held).all():
            break
        if status != SOLVED and attempt < settles:
            if n > MOST_SEARCHED:
                break
            attempt = settles - 1
        if attempt == last:
            status = RAY  # no set of sticking contacts is consistent
            break
        held = stays
        attempt += 1
    # step 6: rows of loaded contacts first; the result is used if the motion is the same
    if status == SOLVED and _unloaded_friction(p, active):
        other, opens, again, more, presses = hold(Y, b, bilateral, active, active, rule, rank, max_pivots)
        pivots += more
        if again == SOLVED and (np.abs(opens - w) <= ZERO_SPEED).all():
            p, active = other, presses
    # face: w_N = 0; any friction at sticking contacts
    flags = np.zeros((n, 6), dtype=np.bool_)
    for i in range(n):
        flags[i, 0] = w[i] <= FACE_ZERO
        fill(flags[i, 2:], bilateral[3 * i])
    return p, flags, status, pivots, active.reshape(n, 1)


@compiled
def rule_of(rung: int, independent: float) -> tuple[int, float]:
    """Return the pivoting rule and the rank threshold of a rung."""
    return (DUAL if rung == 2 else PRINCIPAL), (independent if rung == 0 else ALL_ROWS)


@compiled
def no_slip_kernel(problem: ReducedProblem, law: LawData, basis: Array, rung: int) -> Attempt:
    """Run one solver attempt (rung): 0 from the last basis; 1 with the rank threshold `ALL_ROWS`, from an empty basis; 2 by the
    dual active set, from an empty basis."""
    given, start = problem.dynamics.given, basis.copy()
    if rung > 0:
        fill_rows(start, False)
    rule, rank = rule_of(rung, given.independent)
    p, flags, status, pivots, after = solve_no_slip(problem.Y, problem.b, given.mu, start, rule, rank, law.max_pivots)
    copy_rows(after, basis)
    return Attempt(p, Face(flags, law.directions, given.mu, True, law.directions[:0]), status, pivots, basis, given.mu[:0], 0.0)


@compiled
def _unloaded_friction(p: Array, active: Array) -> bool:
    """Return whether a contact carries a tangential impulse without a normal impulse."""
    idle = False
    for i in range(len(active)):
        idle = idle or (not active[i] and (p[3 * i] != 0.0 or p[3 * i + 1] != 0.0))
    return idle


@compiled
def hold(
    Y: Array, b: Array, bilateral: Array, preferred: Array, guess: Array, rule: int, rank: float, max_pivots: int
) -> tuple[Array, Array, int, int, Array]:
    """Run steps 1 to 4 with zero velocity in the `bilateral` rows (3n, bool), which may include normals. Rank selection takes
    rows of `preferred` contacts (n, bool) first. Return p (3n), w_N (n), status, pivots, and the active normals (n, bool).
    """
    n, m = len(b) // 3, Y.shape[1]
    X, U, R = stack_array(m, np.int64), stack_array((m, m)), stack_array((m, m))
    k = select_rows(Y, bilateral, preferred, rank, X, U, R)  # 1. Y_X = R U
    # the part of x = Yᵀ p with zero velocity in the rows X: U x = g = −R⁻¹ b_X, x = Uᵀ g
    triangle, g, x = R[:k, :k], stack_array(k), stack_array(m)
    for i in range(k):
        g[i] = -b[X[i]]
    forward(triangle, g)
    fill(x, 0.0)
    for i in range(k):
        for c in range(m):
            x[c] += g[i] * U[i, c]
    # 2. Ŷ = Y_N (1 − Uᵀ U), orthogonalised twice, r = b_N + Y_N x
    N, r, lengths2 = stack_array((n, m)), stack_array(n), stack_array(n)
    for i in range(n):
        r[i] = lengths2[i] = 0.0
        for c in range(m):
            N[i, c] = 0.0
        if bilateral[3 * i + 2]:
            continue  # in X, or dependent on X
        r[i] = b[3 * i + 2]
        for c in range(m):
            y = Y[3 * i + 2, c]
            N[i, c] = y
            r[i] += y * x[c]
            lengths2[i] += y * y
        for _ in range(2):
            for j in range(k):
                s = dot(U[j], N[i])
                for c in range(m):
                    N[i, c] -= s * U[j, c]
    if rule == PRINCIPAL:  # 3. 0 ≤ p_N ⟂ Ŷ Ŷᵀ p_N + r ≥ 0
        z, status, pivots, active = ppm(N, r, lengths2, guess, ZERO_SPEED, max_pivots)
    else:
        z, status, pivots, active = dual_active_set(N, r, lengths2, ZERO_SPEED, max_pivots)
    # 4. x += Ŷᵀ p_N, Rᵀ p_X = g − U Y_Nᵀ p_N
    p, w = np.zeros(3 * n), np.empty(n)
    for i in range(n):
        p[3 * i + 2] = z[i]
        for c in range(m):
            x[c] += N[i, c] * z[i]
            for j in range(k):
                g[j] -= U[j, c] * Y[3 * i + 2, c] * z[i]
    backward(triangle, g)
    for i in range(k):
        p[X[i]] += g[i]
    for i in range(n):
        w[i] = b[3 * i + 2]  # w_N = Y_N x + b_N
        for c in range(m):
            w[i] += Y[3 * i + 2, c] * x[c]
    return p, w, status, pivots, active


BARELY = 0.01  # a contact is barely loaded if its normal impulse is at most this share of the largest one


def without_separating(
    problem: Reduced, literal: Attempt, free: Array, solve: Callable[[Reduced], Attempt]
) -> Iterator[Attempt]:
    """Yield solutions of the law in which separating contacts of unlimited friction carry no impulse. No solution is yielded if
    no contact with friction is barely loaded.

    literal: solution of the law without release, successful or not
    free: whether a contact has unlimited friction (n, bool)
    solve: function that solves the law for a problem with other friction coefficients
    """
    idle, last = np.zeros_like(free), literal
    while last.status == SOLVED:
        more = free & ~idle & barely_loaded(last.p)
        if not more.any():
            break
        idle = idle | more
        last = solve(_frictionless(problem, idle))
    if literal.status == SOLVED and not idle.any():
        return
    if idle.any():
        yield from _with_released(problem, idle, last, solve)
    solution = NoSlip().solution(problem, None)
    idle = free & ~solution.basis[:, 0] if solution.status == SOLVED else np.zeros_like(free)
    if idle.any():
        yield from _with_released(problem, idle, solve(_frictionless(problem, idle)), solve)


def barely_loaded(p: Array) -> Array:
    """Return which contacts are barely loaded and have a tangential impulse (n, bool)."""
    normal, sideways = p[2::3], np.abs(p[0::3]) + np.abs(p[1::3])
    hardly: Array = (sideways > 0.0) & (normal <= BARELY * normal.max())
    return hardly


def _frictionless(problem: Reduced, idle: Array) -> Reduced:
    return msgspec.structs.replace(problem, mu=np.where(idle, 0.0, problem.mu))


def _with_released(problem: Reduced, idle: Array, without: Attempt, solve: Callable[[Reduced], Attempt]) -> Iterator[Attempt]:
    """Yield solutions in which separating contacts are released: first `without`, the solution without friction at the idle
    contacts (n, bool), then one with friction at the idle contacts that remain closed in the first solution."""
    if without.status != SOLVED:
        return
    apart = idle & (opening(problem, without.p) > FACE_ZERO)
    yield _release(problem, without, apart, idle & ~apart)
    if apart.any() and (idle & ~apart).any():
        held = solve(_frictionless(problem, apart))
        if held.status == SOLVED:
            yield _release(problem, held, apart, np.zeros_like(apart))


def _release(problem: Reduced, solution: Attempt, apart: Array, stay: Array) -> Attempt:
    """Return the solution with zero impulses at the contacts `apart` (n, bool), which separate. The selection may load the
    contacts `stay` (n, bool), which had no friction but remain closed."""
    p, basis, face, flags = solution.p.copy(), solution.basis.copy(), solution.face, solution.face.flags.copy()
    p.reshape(-1, 3)[apart], basis[apart] = 0.0, False
    if flags.shape[1]:
        flags[apart], flags[stay, 1], flags[stay, 2:] = False, False, True
        face = face._replace(flags=flags, mu=problem.mu)
    return solution._replace(p=p, basis=basis, face=face)


def opening(problem: Reduced, p: Array) -> Array:
    """Return the opening speeds of the contacts for impulses p (3n) [m/s] (n)."""
    u = np.empty(len(p))
    contact_velocity(problem.Y, problem.b, p, u)
    return u[2::3]
