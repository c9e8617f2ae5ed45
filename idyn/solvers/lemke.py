"""Lemke's method with the lexicographic rule, for LCPs with a copositive(-plus) matrix: w = M z + q ≥ 0, z ≥ 0, zᵀw = 0
[Cottle, Pang & Stone §4.4]. The tableau is condensed (n rows, n + 1 non-basic columns), ratios are compared with a
tolerance, and the solution is computed from (M, q) in the final basis, so that rounding errors of the pivots do not
accumulate."""

import numpy as np

from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Matrix, Vector
from idyn.solvers.linalg import lu_refined, magnitude
from idyn.status import PIVOT_LIMIT, RAY, SINGULAR, SOLVED
from idyn.types import Array

PIVOT_TOLERANCE = 1e-9
"""Column entries below this share of the largest entry count as rounding errors. Of 12 800 standing ticks with cold start, 1 %
fail with 1e-11, which permits rounding errors as pivots, and 0.1 % with 1e-9 to 1e-6. Results at random states do not depend
on it."""

TIE_TOLERANCE = 1e-12
"""Ratios that differ by less than this, relative to the scale of q, count as equal; their rows are compared
lexicographically."""

ARTIFICIAL_ZERO = 1e-10
"""An artificial variable below this share of the scale of q counts as zero: an apparent ray is then a solution."""

GOLDEN = 0.5 * (5.0**0.5 - 1.0)  # golden section. The fractional parts of its multiples are spread evenly, without repetition


@compiled
def basis_solution(M: Array, q: Array, basis: Array) -> tuple[Array, Array, bool]:
    """Return z and w at a complementary basis (`basis[i]`: z_i is basic), with one step of iterative refinement, and whether
    the basis is regular. Signs are not checked."""
    n = len(q)
    z, w, index, m = np.zeros(n), q.copy(), stack_array(n, np.int64), 0
    # the basic z
    for i in range(n):
        if basis[i]:
            index[m] = i
            m += 1
    A, b = stack_array((m, m)), stack_array(m)
    if m == 0:
        return z, w, True
    # M_BB z_B = −q_B
    for i in range(m):
        b[i] = -q[index[i]]
        for j in range(m):
            A[i, j] = M[index[i], index[j]]
    x, regular = lu_refined(A, b)
    if not regular:
        return z, w, False
    for i in range(m):
        z[index[i]] = x[i]
    # w = M z + q, zero where z is basic
    for i in range(n):
        if basis[i]:
            w[i] = 0.0
        else:
            for j in range(m):
                w[i] += M[i, index[j]] * x[j]
    return z, w, True


@entry(Matrix, Vector, Vector)
def natural_residual(M: Array, q: Array, z: Array) -> float:
    """Return max |min(z, M z + q)|, which is zero for a solution z."""
    worst = 0.0
    for i in range(len(q)):
        w = q[i]
        for j in range(len(q)):
            w += M[i, j] * z[j]
        worst = max(worst, abs(min(z[i], w)))
    return worst


@compiled
def covering(n: int, spread: float) -> Array:
    """Return a covering vector with entries from 1 to 1 + spread (n). Unequal entries avoid ties of symmetric problems, such as
    equal feet, which saves comparisons and up to half of the pivots."""
    cover = np.empty(n)
    for i in range(n):
        turns = GOLDEN * (i + 1)
        cover[i] = 1.0 + spread * (turns - np.floor(turns))
    return cover


@compiled
def _fill_tableau(M: Array, q: Array, cover: Array, T: Array) -> None:
    """Fill the tableau T (n + 2, n), column by column; row i: basic_i + Σ T[c, i] · nonbasic_c = T[n + 1, i]. M is scaled by
    its largest entry, so that tolerances do not depend on the mass."""
    n, size = len(q), 0.0
    for i in range(n):
        for j in range(n):
            size = max(size, abs(M[i, j]))
    unit = 2.0 ** -np.floor(np.log2(size)) if size > 0.0 else 1.0  # exact
    for i in range(n):
        for j in range(n):
            T[j, i] = -M[i, j] * unit
        T[n, i] = -cover[i]
        T[n + 1, i] = q[i]


@entry(Matrix, Vector, int, Vector)
def lemke(M: Array, q: Array, max_pivots: int, cover: Array) -> tuple[Array, int, int, Array]:
    """Solve the LCP (q, M). Return z (n), computed in the final basis, then status, pivots and basis (n, bool), see `pivot`."""
    status, pivots, basis = pivot(M, q, max_pivots, cover)
    if status != SOLVED:
        return np.zeros(len(q)), status, pivots, basis
    z, _, regular = basis_solution(M, q, basis)
    return z, SOLVED if regular else SINGULAR, pivots, basis


@compiled
def pivot(M: Array, q: Array, max_pivots: int, cover: Array) -> tuple[int, int, Array]:
    """Pivot on the LCP (q, M). Return status (a `Status` value), pivots, and the final basis (n, bool: z_i is basic).

    Ray termination proves that there is no solution if M is copositive-plus.

    cover: covering vector, positive (n), see `covering`. Different vectors lead to different sequences of pivots, and to
        different solutions if there are several. Numerical failures seldom occur with two covering vectors.
    """
    n = len(q)
    basis = np.zeros(n, dtype=np.bool_)
    scale = 0.0
    for i in range(n):
        scale = max(scale, abs(q[i]))
    # z0 enters in the lexicographically most negative row; among equal rows in the last one
    r = 0
    for i in range(n):
        if q[i] / cover[i] <= q[r] / cover[r] + TIE_TOLERANCE * scale:
            r = i
    smallest = 0.0
    for i in range(n):
        smallest = min(smallest, q[i])
    if smallest >= 0.0:
        return SOLVED, 0, basis

    # first tableau; variables: w_i is i, z_i is n + i, z0 is 2n
    T, basic, nonbasic = stack_array((n + 2, n)), stack_array(n, np.int64), stack_array(n + 1, np.int64)
    row, column = (
        stack_array(2 * n + 1, np.int64),
        stack_array(2 * n + 1, np.int64),
    )  # row of each basic variable, column of each non-basic one; −1 otherwise
    _fill_tableau(M, q, cover, T)
    for i in range(n):
        basic[i], row[i], column[i] = i, i, -1
    for i in range(n + 1):
        nonbasic[i], row[n + i], column[n + i] = n + i, -1, i

    c = n
    pivots = 0
    while True:
        # pivot
        leaving = basic[r]
        _exchange(T, r, c)
        basic[r], nonbasic[c] = nonbasic[c], leaving
        row[basic[r]], column[basic[r]] = r, -1
        column[leaving], row[leaving] = c, -1
        pivots += 1
        if leaving != 2 * n:
            if pivots >= max_pivots:
                return PIVOT_LIMIT, pivots, basis
            # the complement of the leaving variable enters
            entering = leaving + n if leaving < n else leaving - n
            c = column[entering]
            r = _leaving_row(T, c, row, column, TIE_TOLERANCE * scale)
            if r >= 0:
                continue
            if T[n + 1, row[2 * n]] > ARTIFICIAL_ZERO * scale:
                return RAY, pivots, basis
        for i in range(n):  # after an apparent ray the last leaving variable replaces the artificial one
            basis[i] = row[n + i] >= 0 or n + i == leaving
        return SOLVED, pivots, basis


@compiled
def _exchange(T: Array, r: int, c: int) -> None:
    """Swap the basic variable of row r with the non-basic one of column c."""
    width, n = T.shape
    pivot, entering = T[c, r], stack_array(n)
    # the pivot column becomes that of the leaving variable, a unit vector
    for i in range(n):
        entering[i], T[c, i] = T[c, i], 0.0
    entering[r], T[c, r] = 0.0, 1.0
    # divide row r by the pivot and subtract it from the others
    for j in range(width):
        share = T[j, r] / pivot
        for i in range(n):
            T[j, i] -= share * entering[i]
        T[j, r] = share


@compiled
def _leaving_row(T: Array, c: int, row: Array, column: Array, tie: float) -> int:
    """Lexicographic ratio test: return the row that first blocks the entering column, −1 if no row does (a ray)."""
    n = T.shape[1]
    entering, values, ratio = T[c], T[n + 1], stack_array(n)
    candidates, best = stack_array(n, np.bool_), np.inf
    # ratios of the entries above the threshold
    threshold = PIVOT_TOLERANCE * max(magnitude(entering[:n]), 1.0)
    for i in range(n):
        each = values[i] / max(entering[i], threshold)
        ratio[i] = each if entering[i] > threshold else np.inf
        best = min(best, ratio[i])
    if best == np.inf:
        return -1
    # rows with equal ratios; z0 leaves as soon as it can
    count, last = 0, -1
    for i in range(n):
        candidates[i] = ratio[i] <= best + tie
        count += candidates[i]
        last = i if candidates[i] else last
    artificial = row[2 * n]
    if artificial >= 0 and candidates[artificial]:
        return artificial
    # compare rows of B⁻¹ column by column until one is the smallest
    for w in range(n):
        if count == 1:
            break
        best = np.inf
        for i in range(n):
            if candidates[i]:
                best = min(best, _inverse_entry(T, i, w, row, column) / entering[i])
        for i in range(n):
            if candidates[i]:
                if _inverse_entry(T, i, w, row, column) / entering[i] > best + TIE_TOLERANCE * max(1.0, abs(best)):
                    candidates[i] = False
                    count -= 1
                else:
                    last = i
    return last


@compiled
def _inverse_entry(T: Array, i: int, w: int, row: Array, column: Array) -> float:
    """Return entry (i, w) of B⁻¹, from the tableau column of slack w."""
    if column[w] >= 0:
        return T[column[w], i]
    return 1.0 if row[w] == i else 0.0
