"""Obstacles: what prevents a smaller error of a task that is not met.

The error would fall along the gradient Aᵀ W (A x − b). Something prevents this: rows that contacts hold, limits that are
active, tasks of higher levels, and other tasks of the same level. The gradient is written as a sum over their rows, the
smallest combination that gives it; those with a large share are named.
"""

from typing import NamedTuple

import numpy as np

from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Indices, Matrix, Vector, written
from idyn.prediction.finish import Finish
from idyn.solvers.linalg import axpy, copy, copy_rows, dot, fill, scale
from idyn.solvers.pool import Pool, empty, indices, matrix, vector, zeros
from idyn.solvers.rows import NEGLIGIBLE, reduce_rows, reflect, solve_rows, unreflect
from idyn.tasks.held import OPEN, fill_held, sticks
from idyn.tasks.limits import fill_coordinates
from idyn.tasks.motion import NORMAL
from idyn.tasks.nearest import Pair, Tick, fill_row, tasks_of, tick_of
from idyn.tasks.outcomes import MET
from idyn.tasks.plan import COUNT, FIRST, KIND, Equations, Plan, equations_in, limits_of
from idyn.tasks.tick import APART, fill_friction
from idyn.terms.inputs import Arrays
from idyn.terms.stages import Dynamics
from idyn.types import Array

HINDERS = 1e-6
"""Share of the largest multiplier of its level beyond which a limit counts as active."""

LEAST = 1e-9
"""Gradient that counts as zero, relative to what is asked."""

FREE = 1e-7
"""Share of the gradient that limits and other tasks prevent, below which they do not count."""

OTHERS = (
    "closed chains",
    "no contact force acts on the base this way",
    "the contacts do not transmit this force",
    "the robot is nearly singular",
)
"""Obstacles besides limits, tasks and contacts."""


class Part(NamedTuple):
    """A task: A x + drift = asked, x: v̇ or f."""

    A: Array  # (r, nv), or (r, 3n)
    asked: Array  # (r)
    drift: Array  # (r)
    roots: Array  # square roots of the weights (r)
    x: Array
    level: int
    of_force: bool


@entry(Finish, Plan, APART, (Indices, Matrix), (Vector, Indices, Matrix), int, written((Vector,)))
def find_shares(f: Finish, plan: Plan, apart: Pair, modes: Pair, found: Arrays, k: int, out: Arrays) -> bool:
    """Fill the shares of all obstacles of task k. Return False if the records hold the data of another tick.

    modes: (kinds (n), directions of sliding (n, 2)); found: (block of `Equations`, numbers of the active limits (l), their
        multipliers in each level (levels, l)); apart: see `limits_of`
    out: tuple of the shares (l + tasks + n + 4): of active limits, tasks, contacts, `OTHERS`
    """
    (kinds, directions), (block, active, multipliers), (shares,), d = modes, found, out, f.problem.dynamics
    pool, friction = plan.pool, stack_array(directions.shape)
    at = equations_in(block, plan.rows, plan.pushes, len(d.given.v), len(kinds))
    if at.tick[0] != d.given.ticks:
        return False
    empty(pool)
    fill(shares, 0.0)
    fill_friction(d, plan, modes, friction)
    tasks, forces = tasks_of(pool, at.A, at.values, plan.ends), tasks_of(pool, at.F, at.pushes, plan.ends_of_forces)
    tick, part = tick_of(d, plan, (kinds, friction), tasks, forces, limits_of(plan, kinds, apart, True)), _part(plan, at, k)
    damped, gradient, own = tick.levels.damped[0] > 0, vector(pool, len(part.x)), len(active) + len(plan.table)
    _fill_gradient(part, gradient)
    size, steep = np.sqrt(dot(part.asked, part.asked)), np.sqrt(dot(gradient, gradient))
    if steep < LEAST * size:
        shares[len(shares) - 1] = damped
        return True
    _add_held(d, plan, (tick, kinds), part, (size, shares[own:]))
    _add_active(d, plan, (tick, at), k, (active, multipliers), (gradient, shares[:own]))
    largest = 0.0
    for share in shares:
        largest = max(largest, share)
    shares[len(shares) - 1] = (largest if largest > 0.0 else 1.0) if damped and not part.of_force else 0.0
    return True


@compiled
def _part(plan: Plan, at: Equations, k: int) -> Part:
    """Return task k."""
    first, last, of_force, level = (
        plan.table[k, FIRST],
        plan.table[k, FIRST] + plan.table[k, COUNT],
        plan.table[k, KIND] >= NORMAL,
        0,
    )
    A, values, x, ends = (
        (at.F, at.pushes, at.force, plan.ends_of_forces) if of_force else (at.A, at.values, at.motion, plan.ends)
    )
    while level < len(ends) - 1 and ends[level] <= first:
        level += 1
    return Part(A[first:last], values[0, first:last], values[1, first:last], values[2, first:last], x, level, of_force)


@compiled
def _fill_gradient(part: Part, gradient: Array) -> None:
    """Fill Aᵀ W (A x + drift − asked)."""
    fill(gradient, 0.0)
    for i in range(len(part.A)):
        error = dot(part.A[i], part.x) + part.drift[i] - part.asked[i]
        axpy(part.roots[i] * part.roots[i] * error, part.A[i], gradient)


@compiled
def _put(d: Dynamics, tick: Tick, of_force: bool, row: Array, out: Array) -> None:
    """Fill the row on the coordinates c of a row on v̇ (nv) or f (3n)."""
    rows = stack_array(len(d.given.v)), stack_array(len(d.J))
    fill(rows[0], 0.0)
    fill(rows[1], 0.0)
    copy(row, rows[1] if of_force else rows[0])
    fill_coordinates(d, tick.held, tick.levels, rows, out)


@compiled
def _add_held(d: Dynamics, plan: Plan, at: tuple[Tick, Array], part: Part, out: tuple[float, Array]) -> None:
    """Fill the shares of contacts and of `OTHERS` (n + 4) in the error that is left if only contacts and dynamics restrict the
    task. at: with the kinds of the contact modes; out: (size of what is asked, shares)"""
    (tick, kinds), (size, shares), pool, r, D = at, out, plan.pool, len(part.A), len(at[0].levels.beta)
    rows, rest, H, largest = matrix(pool, r, D), vector(pool, r), matrix(pool, r, r), 0.0
    for i in range(r):
        rest[i] = part.roots[i] * (part.asked[i] - part.drift[i] - dot(part.A[i], part.x))
        _put(d, tick, part.of_force, part.A[i], rows[i])
        scale(part.roots[i], rows[i])
        for value in part.A[i]:
            largest = max(largest, part.roots[i] * abs(value))
    rank = reduce_rows(rows, zeros(pool, D), (0, D), H, 0, NEGLIGIBLE * largest)
    reflect(H, rank, rest)
    fill(rest[:rank], 0.0)
    unreflect(H, rank, rest)
    if not np.sqrt(dot(rest, rest)) > MET * max(1.0, size):
        return
    if part.of_force:
        shares[len(kinds) + 2] = 1.0
        return
    held, u, a = tick.held, d.given.model.u, d.given.model.a
    fixed = matrix(pool, len(held.P) + len(held.unreached), len(u) + len(a) + 1)
    group, gradient, count = indices(pool, len(fixed)), zeros(pool, fixed.shape[1]), 0
    fill_held(d, kinds, (held.unreached, held.bias), fixed)
    for i in range(len(kinds)):
        for _ in range(0 if kinds[i] == OPEN else 3 if sticks(d, kinds, i) else 1):
            group[count] = i
            count += 1
    for i in range(count, len(fixed)):
        group[i] = len(kinds) + (i >= len(held.P))
    for row in fixed:
        row[len(u) + len(a)] = 0.0
    for i in range(r):
        for j in range(len(u)):
            gradient[j] += part.roots[i] * rest[i] * part.A[i, u[j]]
        for j in range(len(a)):
            gradient[len(u) + j] += part.roots[i] * rest[i] * part.A[i, a[j]]
    _add_shares(pool, fixed, group, gradient, shares)


@compiled
def _add_active(d: Dynamics, plan: Plan, at: tuple[Tick, Equations], k: int, limits: Pair, out: Pair) -> None:
    """Fill the shares that active limits and other tasks have in task k.

    limits: (numbers (l), multipliers (levels, l)); out: (gradient of the task, shares (l + tasks))
    """
    (tick, equations), (active, multipliers), (gradient, shares), pool = at, limits, out, plan.pool
    D, most, count = len(tick.levels.beta), len(active) + plan.rows + plan.pushes, 0
    rows, group, free, part = matrix(pool, most, D), indices(pool, most), vector(pool, D), _part(plan, equations, k)
    _put(d, tick, part.of_force, gradient, free)
    size = 0.0
    for row in part.A:
        size += dot(row, row)
    if not dot(free, free) > FREE * FREE * size * dot(gradient, gradient):
        return
    for i in range(len(active)):
        hinders = False
        for level in range(part.level + 1):
            largest = 0.0
            for value in multipliers[level]:
                largest = max(largest, abs(value))
            hinders = hinders or abs(multipliers[level, i]) > HINDERS * largest
        if hinders:
            fill_row(d, tick, active[i], rows[count])
            group[count] = i
            count += 1
    for i in range(len(plan.table)):
        other = _part(plan, equations, i)
        for r in range(0 if i == k or other.level > part.level else 1 if other.level == part.level else len(other.A)):
            if other.level == part.level:
                pull = vector(pool, len(other.x))
                _fill_gradient(other, pull)
                _put(d, tick, other.of_force, pull, rows[count])
            else:
                _put(d, tick, other.of_force, other.A[r], rows[count])
            group[count] = len(active) + i
            count += 1
    _add_shares(pool, rows[:count], group, free, shares)


@compiled
def _add_shares(pool: Pool, rows: Array, group: Array, gradient: Array, shares: Array) -> None:
    """Fill the share of each group of rows: the length of its part of the gradient in the smallest combination of all rows that
    gives it, where each group has the length 1. Rows of a group are neighbours; they are overwritten."""
    (count, size), lengths = rows.shape, zeros(pool, len(shares))
    factors, part, copied, H = vector(pool, count), zeros(pool, size), matrix(pool, count, size), matrix(pool, count, count)
    for i in range(count):
        lengths[group[i]] += dot(rows[i], rows[i])
    for i in range(count):
        scale(1.0 / np.sqrt(lengths[group[i]]) if lengths[group[i]] > 0.0 else 0.0, rows[i])
    copy_rows(rows, copied)
    solve_rows((copied, gradient), factors, H, 0.0)
    for i in range(count):
        axpy(factors[i], rows[i], part)
        if i + 1 == count or group[i + 1] != group[i]:
            shares[group[i]] = np.sqrt(dot(part, part))
            fill(part, 0.0)
