"""Obstacles: what prevents a smaller error of a task that is not met.

The error would fall along the gradient Aᵀ W (A x − b). Something prevents this: rows that contacts hold, limits that are
active, tasks of higher levels, and other tasks of the same level. The gradient is written as a sum over their rows, the
smallest combination that gives it; those with a large share are named.
"""

import numpy as np

from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Indices, Matrix, Vector, written
from idyn.prediction.finish import Finish
from idyn.solvers.linalg import apply_transposed, axpy, copy, copy_rows, dot, fill, magnitude, scale
from idyn.solvers.pool import Pool, empty, indices, matrix, vector, zeros
from idyn.solvers.rows import NEGLIGIBLE, reduce_rows, reflect, solve_rows, unreflect
from idyn.tasks.held import closing, fill_held, hold, split
from idyn.tasks.levels import levels_of, metric_of
from idyn.tasks.limits import Limits, fill_coordinates
from idyn.tasks.motion import Part
from idyn.tasks.nearest import Pair, Tick, fill_row, tasks_of
from idyn.tasks.outcomes import MET
from idyn.tasks.plan import Equations, Plan, equations_in, part_of
from idyn.tasks.tick import APART, fill_friction
from idyn.terms.inputs import Arrays
from idyn.terms.stages import Dynamics
from idyn.types import Array

HINDERS = 1e-6
"""Share of the largest multiplier of its level beyond which a limit counts as active."""

LEAST = 1e-9
"""Share below which a sum counts as zero: gradients, relative to what is asked; rows, to those on v̇ or f."""

FREE = 1e-7
"""Share of the gradient that limits and other tasks prevent, below which they do not count."""

OTHERS = (
    "closed chains",
    "no contact force acts on the base this way",
    "the contacts do not transmit this force",
    "the robot is nearly singular",
)
"""Obstacles besides limits, tasks and contacts."""


@entry(Finish, Plan, APART, (Indices, Matrix), (Vector, Indices, Matrix), int, written((Vector,)))
def find_shares(f: Finish, plan: Plan, apart: Pair, modes: Pair, found: Arrays, k: int, out: Arrays) -> bool:
    """Fill the shares of all obstacles of task k. Return False if the records hold the data of another tick.

    modes: (kinds (n), directions of sliding (n, 2)); found: (block of `Equations`, numbers of the active limits (l), their
        multipliers in each level (levels, l)); apart: see `Limits`
    out: tuple of the shares (l + tasks + n + 4): of active limits, tasks, contacts, `OTHERS`
    """
    (kinds, directions), (block, active, multipliers), (shares,), d = modes, found, out, f.problem.dynamics
    pool, friction, square, largest = plan.pool, stack_array(directions.shape), 0.0, 0.0
    at = equations_in(block, plan.rows, plan.pushes, len(d.given.v), len(kinds))
    if at.tick[0] != d.given.ticks:
        return False
    empty(pool)
    fill(shares, 0.0)
    fill_friction(d, plan, modes, friction)
    tick, task = _tick_of(d, plan, (kinds, friction), at, apart), part_of(plan, at, k)
    damped, rows, pulls = at.tick[1] > 0.0, _rows_of(d, pool, tick, task), _pulls(pool, task)
    # the gradient on x, and as far as contacts and dynamics permit to follow it
    gradient, free = stack_array(len(task.x)), vector(pool, rows.shape[1])
    apply_transposed(task.A, pulls, gradient)
    apply_transposed(rows, pulls, free)
    steep, size = dot(gradient, gradient), np.sqrt(dot(task.asked, task.asked))
    if steep < (LEAST * size) ** 2:
        shares[len(shares) - 1] = damped
        return True
    for row in task.A:
        square += dot(row, row)
    of_tasks = len(active) + len(plan.table)
    if dot(free, free) > FREE**2 * square * steep:
        _fill_from_active(d, plan, (tick, at), k, (active, multipliers), (free, shares[:of_tasks]))
    _fill_from_held(d, pool, (tick, kinds), task, (rows, pulls), (size, shares[of_tasks:]))
    for share in shares:
        largest = max(largest, share)
    if damped and not task.of_force:
        shares[len(shares) - 1] = largest if largest > 0.0 else 1.0
    return True


@compiled
def _tick_of(d: Dynamics, plan: Plan, contact: Pair, at: Equations, apart: Pair) -> Tick:
    """Return the tick without levels of tasks: any orthonormal coordinates of the metric that are not held do. contact: see
    `idyn.tasks.nearest.tick_of`"""
    pool, held = plan.pool, hold(d, plan.pool, contact[0], contact[1])
    middle, stretch, _ = metric_of(d, pool, tasks_of(pool, at.A, at.values, plan.ends), plan.ends_of_forces)
    none, nothing = tasks_of(pool, at.A[:0], at.values, plan.ends[:0]), tasks_of(pool, at.F[:0], at.pushes, plan.ends[:0])
    levels = levels_of(d, pool, held, (middle, stretch, -1), none, nothing, (plan.mass, 0.0))
    return Tick(held, levels, closing(d, pool), Limits(plan, contact[0], apart[0], apart[1], True))


@compiled
def _pulls(pool: Pool, task: Part) -> Array:
    """Return W (A x + drift − asked), whose product with Aᵀ is the gradient."""
    pulls = vector(pool, len(task.A))
    for i in range(len(pulls)):
        pulls[i] = task.roots[i] ** 2 * (dot(task.A[i], task.x) + task.drift[i] - task.asked[i])
    return pulls


@compiled
def _rows_of(d: Dynamics, pool: Pool, tick: Tick, task: Part) -> Array:
    """Return the rows of a task on the coordinates c; 0 for those that contacts hold, of which only rounding is left."""
    rows, out = (stack_array(len(d.given.v)), stack_array(len(d.J))), matrix(pool, len(task.A), len(tick.levels.beta))
    fill(rows[0], 0.0)
    fill(rows[1], 0.0)
    for i in range(len(out)):
        copy(task.A[i], rows[1] if task.of_force else rows[0])
        fill_coordinates(d, tick.held, tick.levels, rows, out[i])
        if dot(out[i], out[i]) < LEAST**2 * dot(task.A[i], task.A[i]):
            fill(out[i], 0.0)
    return out


@compiled
def _fill_from_held(d: Dynamics, pool: Pool, at: tuple[Tick, Array], task: Part, work: Pair, out: tuple[float, Array]) -> None:
    """Fill the shares of contacts and of `OTHERS` in the error that is left if only contacts and dynamics restrict the task.

    at: with the kinds of the contact modes; work: (`_rows_of`, `_pulls`), overwritten; out: (size of what is asked, shares
        (n + 4))
    """
    (tick, kinds), (rows, rest), (size, shares), r, longest = at, work, out, len(task.A), 0.0
    held, gradient, H = tick.held, stack_array(len(d.given.v)), matrix(pool, r, r)
    for i in range(r):
        scale(task.roots[i], rows[i])
        rest[i] /= task.roots[i]
        longest = max(longest, task.roots[i] ** 2 * dot(task.A[i], task.A[i]))
    rank = reduce_rows(rows, rows[:0], (0, rows.shape[1]), H, 0, NEGLIGIBLE * np.sqrt(longest))
    reflect(H, rank, rest)
    fill(rest[:rank], 0.0)
    unreflect(H, rank, rest)
    if dot(rest, rest) <= (MET * max(1.0, size)) ** 2:
        return
    if task.of_force:
        shares[len(kinds) + 2] = 1.0
        return
    m, width = len(held.P), len(d.given.v) + 1
    fixed, wanted = matrix(pool, m + len(held.unreached), width), vector(pool, width)
    group = indices(pool, len(fixed))
    fill_held(d, kinds, (held.unreached, held.bias), fixed)
    for i in range(len(fixed)):
        fixed[i, width - 1], group[i] = 0.0, held.of[i] if i < m and held.of[i] >= 0 else len(kinds) + (i >= m)
    for i in range(r):
        rest[i] *= task.roots[i]
    apply_transposed(task.A, rest, gradient)
    split(d, gradient, 0.0, wanted)
    _fill_shares(pool, fixed, group, wanted, shares)


@compiled
def _fill_from_active(d: Dynamics, plan: Plan, at: tuple[Tick, Equations], k: int, limits: Pair, out: Pair) -> None:
    """Fill the shares of active limits and other tasks in the gradient of task k.

    limits: (numbers (l), multipliers (levels, l)); out: (gradient on the coordinates c, overwritten; shares (l + tasks))
    """
    (tick, equations), (active, multipliers), (free, shares), pool = at, limits, out, plan.pool
    most, count, own = len(active) + plan.rows + plan.pushes, 0, part_of(plan, equations, k).level
    rows, group = matrix(pool, most, len(free)), indices(pool, most)
    for i in range(len(active)):
        hinders = False
        for level in range(own + 1):
            hinders = hinders or abs(multipliers[level, i]) > HINDERS * magnitude(multipliers[level])
        if hinders:
            fill_row(d, tick, active[i], rows[count])
            group[count] = i
            count += 1
    for i in range(len(plan.table)):
        other = part_of(plan, equations, i)
        if i == k or other.level > own:
            continue
        of_other, first = _rows_of(d, pool, tick, other), count
        if other.level == own:
            apply_transposed(of_other, _pulls(pool, other), rows[count])
            count += 1
        else:
            copy_rows(of_other, rows[count : count + len(of_other)])
            count += len(of_other)
        for row in range(first, count):
            group[row] = len(active) + i
    _fill_shares(pool, rows[:count], group, free, shares)


@compiled
def _fill_shares(pool: Pool, rows: Array, group: Array, gradient: Array, shares: Array) -> None:
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
