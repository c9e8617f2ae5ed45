"""Levels of tasks in error coordinates.

Joint accelerations are v̇_a = p + W⁻¹ y: p and the weights W are those of the last posture task, or those of joints that come
to rest. Reflections from the right bring the rows of all levels on (y, i) to a triangle, one level after the other, so that

    e = Λ c − β,     c = (z, i_z):  y = Qᵀ z,  i = Q_iᵀ i_z

has one error for each coordinate: e_l is what level l has chosen, given the levels above. The smallest errors are e = 0 where
no limit binds. Behind the levels of the tasks follow the posture (the rest of z), then forces of least norm (the rest of i_z).
The coordinates that contacts and closures hold are fixed. Rows of a level that others of it or above determine leave.
"""

from typing import NamedTuple

import numpy as np

from idyn.library.kernels import compiled, stack_array
from idyn.solvers.linalg import apply_transposed, axpy, copy, dot, long_dot, scale
from idyn.solvers.pool import Pool, indices, matrix, vector, zero_matrix, zeros
from idyn.solvers.rows import NEGLIGIBLE, compress, reduce_rows, substitute
from idyn.tasks.held import Held, fill_factors
from idyn.terms.stages import Dynamics
from idyn.types import Array

REST = 10.0
"""Rate at which joints come to rest that no task moves [1/s]."""

SINGULAR = 1e-8
"""Share of a row of a task that counts as none: a row that asks the joints for 10⁸ times its own acceleration leaves."""

Tasks = tuple[Array, Array, Array, Array]
"""(A (r, nv) of motions or (r, 3n) of forces, asked − drift (r), square roots of the weights (r), end of each level's rows)"""


Metric = tuple[Array, Array, int]
"""(p (na), diagonal of W⁻¹ (na), level of the posture or −1)."""


class Levels(NamedTuple):
    """Levels of one tick. D coordinates c; their errors in order of priority at `place`."""

    middle: Array  # p (na)
    stretch: Array  # diagonal of W⁻¹ (na)
    H: Array  # reflectors of y (na, na)
    H_i: Array  # reflectors of i (internal, internal)
    counts: tuple[int, int, int]  # number of held coordinates z, of reflectors of y, of reflectors of i
    fixed: Array  # held coordinates z
    pushes: Array  # unactuated rows of the forces: slopes by c (nu, D), and at c = 0 in the last column
    L: Array  # Λ (D, D), lower triangular
    beta: Array  # β (D)
    place: Array  # of each error in order of priority (D)
    ends: Array  # end of the errors of each level: of the tasks, posture, forces
    damped: int  # number of rows that are damped


@compiled
def levels_of(
    d: Dynamics, pool: Pool, held: Held, metric: Metric, tasks: Tasks, forces: Tasks, scale: tuple[float, float]
) -> Levels:
    """Return the levels. scale: mass of the robot, by which rows of forces are divided; see `TaskLimits.singular`"""
    (mass, singular), (middle, stretch, posture) = scale, metric
    na, internal, count = len(held.base[0]) - 1, len(held.P) - len(held.order), len(tasks[3])
    base = _base(d, held, (middle, stretch), matrix(pool, len(held.base), na + 1))
    # rows of forces: internal forces first
    F, least = zero_matrix(pool, internal + na + 1, len(forces[0])), zeros(pool, count + 1)
    H_i, pivots, level_i = matrix(pool, internal, internal), indices(pool, internal), indices(pool, internal)
    ranks = indices(pool, count + 1)
    _fill_force_rows(held, forces, base, mass, F, least)
    _reduce_forces(F, forces[3], least, H_i, (pivots, level_i, ranks))
    # rows of motions
    H, level_z, pivots_z = matrix(pool, na, na), indices(pool, na), indices(pool, na)
    X = zero_matrix(pool, na + 1, len(held.rows) + len(tasks[0]) + F.shape[1] + len(base))
    ends, fixed, scales = indices(pool, count), vector(pool, na), vector(pool, count)
    _stack((d, held), tasks, (middle, stretch, posture), (F, forces[3], ranks, pivots), base, least, (X, ends, scales))
    kept, rank = _reduce_motions(X, len(held.rows), ends, least, H, (level_z, pivots_z, fixed))
    passive, last = ends[count - 1] if count > 0 else len(held.rows), ranks[count]
    D = na - kept + internal
    for j in range(rank, na):
        level_z[j] = posture if posture >= 0 else count
    for i in range(last, internal):
        level_i[i] = count + 1
    L, beta = zero_matrix(pool, D, D), zeros(pool, D)
    for j in range(kept, na):
        L[j - kept, j - kept] = 1.0
        if j < rank:
            beta[j - kept] = X[na, pivots_z[j]]
            copy(X[kept : j + 1, pivots_z[j]], L[j - kept, : j + 1 - kept])
    for i in range(internal):
        row = na - kept + i
        L[row, row] = 1.0
        if i < last:
            beta[row] = X[na, passive + i]
            copy(X[kept:na, passive + i], L[row, : na - kept])
            copy(F[: i + 1, pivots[i]], L[row, na - kept : row + 1])
    pushes = zero_matrix(pool, len(base), D + 1)
    for i in range(len(base)):
        pushes[i, D] = -X[na, passive + last + i]
        copy(X[kept:na, passive + last + i], pushes[i, : na - kept])
    place, closes = indices(pool, D), indices(pool, count + 2)
    _fill_priorities(level_z[kept:], level_i, place, closes)
    damped = _damp(L, beta, scales, level_z[kept:rank], singular)
    return Levels(middle, stretch, H, H_i, (kept, rank, last), fixed[:kept], pushes, L, beta, place, closes, damped)


@compiled
def coupled(levels: Levels, j: int) -> bool:
    """Return whether row j of Λ has entries beside its diagonal, which is 1 otherwise: whether it is one of the tasks."""
    (kept, rank, last), free = levels.counts, len(levels.middle) - levels.counts[0]
    return bool(j < rank - kept or free <= j < free + last)


@compiled
def _damp(L: Array, beta: Array, scales: Array, level_of: Array, singular: float) -> int:
    """Damp the rows of motions that hardly change their own coordinate [Nakamura and Hanafusa 1986]. Return how many these are.
    scales: of the levels; level_of: level of each row; singular: see `TaskLimits.singular`

    A row costs (l c − r)², r: what the coordinates before it leave, l = Λ_jj. With l below a share s of its level's scale it
    costs (l c − r)² + λ² c², λ = s/2 √(1 − l²/s²), which is (l′ c − r′)² and a constant, l′² = l² + λ², r′ = r l/l′.
    It asks c = r′/l′, at most 1.15 r/s.
    """
    count, c = 0, stack_array(len(level_of))
    for j in range(len(level_of)):
        left, l, least = beta[j] - long_dot(L[j, :j], c[:j]), abs(L[j, j]), singular * scales[level_of[j]]
        if l < least < np.inf:
            damped = np.sqrt(l * l + 0.25 * (least * least - l * l))
            beta[j] -= (1.0 - l / damped) * left
            left *= l / damped
            L[j, j] = damped if L[j, j] > 0.0 else -damped
            count += 1
        c[j] = left / L[j, j]
    return count


@compiled
def metric_of(d: Dynamics, pool: Pool, tasks: Tasks, closes: Array) -> Metric:
    """Return p, W⁻¹ and the level of the posture: the last level, if it asks for each joint and nothing else, as rows of forces
    beside or below it may move joints; −1 for joints that come to rest below all levels. closes: end of the rows of forces of
    each level"""
    (A, wanted, roots, ends), g = tasks, d.given
    a, first, posture = g.model.a, len(A) - len(g.model.a), -1
    middle, stretch = vector(pool, len(a)), vector(pool, len(a))
    for k in range(len(a)):
        middle[k], stretch[k] = -REST * g.v[a[k]], 1.0
    for level in range(len(ends)):
        before = ends[level - 1] if level > 0 else 0
        forces = closes[len(ends) - 1] - (closes[level - 1] if level > 0 else 0)
        if ends[level] == len(A) and before == first and ends[level] > before and forces == 0:
            posture = level
    if posture < 0:
        return middle, stretch, posture
    for k in range(len(a)):
        for j in range(A.shape[1]):
            if (A[first + k, j] != 0.0) != (j == a[k]):
                return middle, stretch, -1
    for k in range(len(a)):
        middle[k], stretch[k] = wanted[first + k] / A[first + k, a[k]], 1.0 / (roots[first + k] * abs(A[first + k, a[k]]))
    return middle, stretch, posture


@compiled
def _base(d: Dynamics, held: Held, metric: tuple[Array, Array], base: Array) -> Array:
    """Fill and return the unactuated rows (M_u v̇ + h_u + ρ J_uᵀ f⁻)/(1 + ρ): slopes by y, and at y = 0 in the last column."""
    (middle, stretch), g = metric, d.given
    u, a, nu, na, share = g.model.u, g.model.a, len(g.model.u), len(g.model.a), 1.0 / (1.0 + g.rho)
    for i in range(nu):
        row = base[i]
        for j in range(na):
            row[j] = g.M[u[i], a[j]]
        row[na] = held.bias[i]
        for k in range(nu):
            axpy(-g.M[u[i], u[k]], held.base[k, :na], row[:na])
            row[na] += g.M[u[i], u[k]] * held.base[k, na]
        row[na] = share * (row[na] + dot(row[:na], middle))
        for j in range(na):
            row[j] *= share * stretch[j]
    return base


@compiled
def _fill_force_rows(held: Held, forces: Tasks, base: Array, mass: float, F: Array, least: Array) -> None:
    """Fill the rows of forces as columns of F: factors of i, then of y, and the right side; and the length that counts as zero
    in each level."""
    (A, wanted, roots, ends), (nu, columns), level = forces, base.shape, 0
    internal = len(F) - columns
    push, inner, line = stack_array(nu), stack_array(internal), stack_array(columns)
    for r in range(len(A)):
        root = roots[r] / mass
        length = fill_factors(held, A[r], push, inner)
        apply_transposed(base, push, line)
        scale(root, line)
        scale(root, inner)
        copy(inner, F[:internal, r])
        copy(line, F[internal:, r])
        F[internal + columns - 1, r] = root * wanted[r] - line[columns - 1]
        while ends[level] <= r:
            level += 1
        least[level] = max(least[level], SINGULAR * root * length)


@compiled
def _reduce_forces(F: Array, ends: Array, least: Array, H: Array, out: tuple[Array, Array, Array]) -> None:
    """Reduce the rows of forces in the coordinates of internal forces, level by level. Rows that these do not change become
    rows on y alone. out: (row of each coordinate, its level, number of coordinates before each level)"""
    (pivots, level_of, ranks), internal, first, rank = out, len(H), 0, 0
    ranks[0] = 0
    for level in range(len(ends)):
        last = ends[level]
        start, rank = rank, reduce_rows(F[:internal], F[internal:], (first, last), H, rank, least[level])
        compress(F[:internal], F[internal:], (first, last), (start, rank))
        for j in range(start, rank):
            pivots[j], level_of[j] = first + j - start, level
        for i in range(first + rank - start, last):
            for j in range(start - 1, -1, -1):
                factor = F[j, i] / F[j, pivots[j]]
                for c in range(len(F)):
                    if c <= j or c >= internal:
                        F[c, i] -= factor * F[c, pivots[j]]
        ranks[level + 1], first = rank, last


@compiled
def _stack(
    at: tuple[Dynamics, Held],
    tasks: Tasks,
    metric: Metric,
    forces: tuple[Array, ...],
    base: Array,
    least: Array,
    out: tuple[Array, Array, Array],
) -> None:
    """Fill the rows on y as columns, right sides last: held rows; those of each level; then the other rows of forces and the
    unactuated rows, which the reflections only pass through. `least` becomes that of all.

    out: (X (na + 1, ·) of zeros, wide enough, end of the rows of each level, scale of each level: of its shortest row)
    """
    (A, wanted, roots, ends), (middle, stretch, posture), (F, closes, ranks, pivots) = tasks, metric, forces
    (d, held), (X, found, scale), u = at, out, at[0].given.model.u
    na, nu, internal, k = len(middle), len(base), len(F) - base.shape[1], len(held.rows)
    last = len(A) - na if posture >= 0 else len(A)
    line, row, first, begin, lengths = stack_array(na + 1), k, 0, 0, stack_array((2, nu))
    for i in range(nu):
        lengths[0, i] = 0.0
        for j in range(na):
            term = held.base[i, j] * stretch[j]
            lengths[0, i] += term * term
    for i in range(nu):  # directions of a base have the scale of the longest of three
        lengths[1, i], joint = lengths[0, i], d.given.model.dof_joint
        for c in range(nu):
            if joint[u[c]] == joint[u[i]] and c // 3 == i // 3:
                lengths[1, i] = max(lengths[1, i], lengths[0, c])
    for i in range(k):
        _put(held.rows[i], 1.0, (middle, stretch), X, i)
    for level in range(len(ends)):
        scale[level] = np.inf
        for i in range(first, min(ends[level], last)):
            length, size = _actuated(d, held, A[i], wanted[i], (stretch, lengths), line)
            _put(line, roots[i], (middle, stretch), X, row)
            least[level] = max(least[level], SINGULAR * roots[i] * length)
            scale[level] = min(scale[level], roots[i] * size)
            row += 1
        for i in range(begin + ranks[level + 1] - ranks[level], closes[level]):
            copy(F[internal:, i], X[:, row])
            row += 1
        first, begin, found[level] = ends[level], closes[level], row
    for i in range(ranks[len(ends)]):
        copy(F[internal:, pivots[i]], X[:, row])
        row += 1
    for i in range(nu):
        copy(base[i], X[:na, row + i])
        X[na, row + i] = -base[i, na]


@compiled
def _put(line: Array, root: float, metric: tuple[Array, Array], X: Array, row: int) -> None:
    """Fill a row on y from one on v̇_a with its right side (na + 1)."""
    (middle, stretch), na = metric, len(metric[0])
    for j in range(na):
        X[j, row] = root * line[j] * stretch[j]
    X[na, row] = root * (line[na] - dot(line[:na], middle))


@compiled
def _actuated(
    d: Dynamics, held: Held, A: Array, wanted: float, scales: tuple[Array, Array], line: Array
) -> tuple[float, float]:
    """Fill the row on v̇_a, with its right side, of a row A v̇ = wanted. Return the length of its terms, before they cancel, and
    that of a row in a usual direction. scales: (diagonal of W⁻¹ (na), squared lengths of E W⁻¹, usual ones (2, nu))"""
    (stretch, lengths), u, a, square, usual = scales, d.given.model.u, d.given.model.a, 0.0, 0.0
    for j in range(len(a)):
        line[j] = A[a[j]]
        term = line[j] * stretch[j]
        square += term * term
    line[len(a)] = wanted
    for i in range(len(u)):
        if A[u[i]] != 0.0:
            axpy(-A[u[i]], held.base[i], line)
            square += A[u[i]] * A[u[i]] * lengths[0, i]
            usual += A[u[i]] * A[u[i]] * (lengths[1, i] - lengths[0, i])
    return np.sqrt(square), np.sqrt(square + usual)


@compiled
def _reduce_motions(X: Array, k: int, ends: Array, least: Array, H: Array, out: tuple[Array, ...]) -> tuple[int, int]:
    """Reduce the rows on y. Return the number of held coordinates z and that of all that rows determine. k: number of held rows
    out: (level of each coordinate z, its row, held coordinates)"""
    (level_of, pivots, fixed), na, size = out, len(H), 0.0
    for j in range(na):
        for i in range(k):
            size = max(size, abs(X[j, i]))
    kept = reduce_rows(X[:na], X[na:], (0, k), H, 0, NEGLIGIBLE * max(size, 1e-3))
    compress(X[:na], X[na:], (0, k), (0, kept))
    substitute(X, X[na], fixed[:kept])
    for j in range(kept):
        axpy(-fixed[j], X[j, k:], X[na, k:])
    rank, first = kept, k
    for level in range(len(ends)):
        start, rank = rank, reduce_rows(X[:na], X[na:], (first, ends[level]), H, rank, least[level])
        compress(X[:na], X[na:], (first, ends[level]), (start, rank))
        for j in range(start, rank):
            pivots[j], level_of[j] = first + j - start, level
        first = ends[level]
    return kept, rank


@compiled
def _fill_priorities(level_z: Array, level_i: Array, place: Array, ends: Array) -> None:
    """Fill the place of each error in order of priority, and the end of each level."""
    count, at = len(level_z), 0
    for level in range(len(ends)):
        for j in range(len(place)):
            if (level_z[j] if j < count else level_i[j - count]) == level:
                place[j] = at
                at += 1
        ends[level] = at
