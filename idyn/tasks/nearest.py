"""Solution of one tick of tasks: the motion and forces with the least errors, level by level, within the limits.

Nothing binds: e = 0. Else limits join one by one, the most violated first, until none is violated; before them those that the
forces of the last tick had reached.
"""

from typing import NamedTuple

import numpy as np

from idyn.library.kernels import compiled, stack_array
from idyn.solvers.linalg import dot, fill, long_dot, magnitude
from idyn.solvers.pool import Pool, empty, vector, zeros
from idyn.solvers.staircase import SOFT, Active, admit, join, no_rows, restore
from idyn.tasks.held import Closing, Held, closing, hold
from idyn.tasks.levels import Levels, Tasks, coupled, levels_of, metric_of
from idyn.tasks.limits import (
    Answer,
    Limits,
    count_limits,
    fill_answer,
    fill_coordinates,
    fill_limit,
    fill_slacks,
    limit_size,
    of_forces,
)
from idyn.tasks.plan import Equations, Plan
from idyn.terms.stages import Dynamics
from idyn.types import Array

FEASIBLE = 1e-9
"""Violation of a limit that counts as zero, relative to the larger of 1 and the limit."""

FARTHEST = 1e6
"""Where a limit binds, targets of a level beyond this are taken as their direction [m/s², rad/s², N]: the nearest point is
nearly the same, and rounding stays below the limits."""

RELAXED, SOFTLY = 1e-6, 1e-3
"""Violation beyond which a limit is named as one that cannot be met; where the levels are not strict, a larger one."""

MOST_TURNS = 500
"""Most rows that join or leave."""


Arrays = tuple[Array, ...]
Pair = tuple[Array, Array]


Found = tuple[int, int, bool, int]
"""Number of the active limits, dimension of the choice of forces, whether the levels are strict, number of the active limits
that are violated, and so named."""


class Tick(NamedTuple):
    """What the solution of one tick depends on."""

    held: Held
    levels: Levels
    closed: Closing
    limits: Limits


@compiled
def tick_of(d: Dynamics, plan: Plan, contact: Pair, tasks: Tasks, pushes: Tasks, limits: Limits) -> Tick:
    """Return the tick of some contact modes. contact: (kinds of the modes (n), friction per normal force (n, 2))"""
    pool, scale, held = plan.pool, (plan.mass, plan.singular), hold(d, plan.pool, contact[0], contact[1])
    levels = levels_of(d, pool, held, metric_of(d, pool, tasks, pushes[3]), tasks, pushes, scale)
    return Tick(held, levels, closing(d, pool), limits)


@compiled
def tasks_of(pool: Pool, A: Array, values: Array, ends: Array) -> Tasks:
    """Return equations of tasks as `Tasks`. A, values: see `Equations`; ends: of the levels"""
    wanted = vector(pool, len(A))
    for i in range(len(A)):
        wanted[i] = values[0, i] - values[1, i]
    return A, wanted, values[2], ends


@compiled
def fill_row(d: Dynamics, tick: Tick, number: int, row: Array) -> None:
    """Fill the row of a limit on the coordinates c."""
    rows = stack_array(len(d.given.v)), stack_array(len(d.J))
    fill_limit(d, tick.limits, tick.closed, number, rows)
    fill_coordinates(d, tick.held, tick.levels, rows, row)


@compiled
def _add_row(d: Dynamics, tick: Tick, s: Active, number: int, room: Array) -> bool:
    """Fill row `size` with a limit. room: slacks at e = 0. Return False if no coordinate changes it, or no row is left."""
    q, g = s.size[0], stack_array(s.N.shape[1])
    if q == len(s.c):
        return False
    fill_row(d, tick, number, g)
    length = np.sqrt(dot(g, g))
    if length == 0.0:
        return False
    s.numbers[q], s.c[q] = number, -room[number] * limit_size(tick.limits, number) / length
    _fill_errors_row(tick.levels, g, length, s)
    return True


@compiled
def _fill_errors_row(levels: Levels, g: Array, length: float, s: Active) -> None:
    """Fill row `size` with Λ⁻ᵀ g/length in order of priority, and the squared lengths of its terms in each level."""
    q, L, terms = s.size[0], levels.L, stack_array(len(g))
    fill(terms, 1.0)
    fill(s.sizes[q], 0.0)
    for j in range(len(g)):
        g[j] /= length
    for j in range(len(g) - 1, -1, -1):
        if coupled(levels, j):
            g[j] /= L[j, j]
            terms[j] /= abs(L[j, j])
            row, factor = L[j], g[j]
            for k in range(j):
                term = factor * row[k]
                g[k] -= term
                terms[k] += abs(term)
        level, place = 0, levels.place[j]
        while s.ends[level] <= place:
            level += 1
        s.N[q, place] = g[j] * s.stretch[place]
        term = terms[j] * s.stretch[place]
        s.sizes[q, level] += term * term


@compiled
def _fill_answer(d: Dynamics, tick: Tick, e: Array, stretch: Array, answer: Answer, slacks: Array) -> None:
    """Fill the answer at c = Λ⁻¹ (e + β), and the slacks of all limits. e: in units of `stretch`"""
    levels, c = tick.levels, stack_array(len(e))
    for j in range(len(c)):
        c[j] = e[levels.place[j]] * stretch[levels.place[j]] + levels.beta[j]
        if coupled(levels, j):
            c[j] = (c[j] - long_dot(levels.L[j, :j], c[:j])) / levels.L[j, j]
    fill_answer(d, tick.held, levels, tick.closed, c, answer)
    fill_slacks(d, tick.limits, answer, slacks)


@compiled
def solve_tasks(d: Dynamics, plan: Plan, contact: Pair, of: Equations, apart: Pair, limited: bool) -> Found:
    """Fill the motion and forces nearest to the tasks within the limits, and the active limits of the plan.

    plan: after `begin`; contact: (kind of each mode (n), friction per normal force of contacts that slide (n, 2))
    apart, limited: see `Limits`
    """
    numbers, multipliers, missed, pool = plan.active, plan.multipliers, plan.missed, plan.pool
    empty(pool)
    limits = Limits(plan, contact[0], apart[0], apart[1], limited)
    tasks, forces = tasks_of(pool, of.A, of.values, plan.ends), tasks_of(pool, of.F, of.pushes, plan.ends_of_forces)
    tick = tick_of(d, plan, contact, tasks, forces, limits)
    D, choice = len(tick.levels.beta), len(tick.held.P) - len(tick.held.order)
    answer, room = Answer(of.motion, of.force, vector(pool, len(plan.most))), vector(pool, count_limits(limits))
    none, unit = zeros(pool, D), vector(pool, D)
    fill(unit, 1.0)
    _fill_answer(d, tick, none, unit, answer, room)
    of.tick[1] = tick.levels.damped
    if _most_violated(room) < 0:
        return 0, choice, True, 0
    if _shorten(tasks[1], tasks[3]) + _shorten(forces[1], forces[3]) > 0:
        tick = tick_of(d, plan, contact, tasks, forces, limits)
        _fill_answer(d, tick, none, unit, answer, room)
    s = no_rows(pool, D, tick.levels.ends, len(numbers), 0.0)
    exact = _descend(d, tick, s, answer, room, plan.last)
    if not exact:
        s = no_rows(pool, D, tick.levels.ends, len(numbers), SOFT)
        _descend(d, tick, s, answer, room, plan.last)
    fill_slacks(d, tick.limits, answer, room)
    violated = 0
    for k in range(s.size[0]):
        numbers[k], missed[k] = s.numbers[k], room[s.numbers[k]] < -(RELAXED if exact else SOFTLY)
        violated += missed[k]
        for level in range(len(multipliers)):
            multipliers[level, k] = s.multipliers[level + 1 if exact else 1, k]
    return s.size[0], choice, exact, violated


@compiled
def _shorten(wanted: Array, ends: Array) -> int:
    """Shorten the targets of levels beyond `FARTHEST`. Return how many levels these are."""
    first, far = 0, 0
    for last in ends:
        largest = magnitude(wanted[first:last])
        for i in range(first, last if largest > FARTHEST else first):
            wanted[i] *= FARTHEST / largest
        first, far = last, far + (largest > FARTHEST)
    return far


@compiled
def _most_violated(slacks: Array) -> int:
    """Return the number of the most violated limit, −1 if there is none. A slack that is not a number violates."""
    worst, least = -1, -FEASIBLE
    for number in range(len(slacks)):
        if not slacks[number] >= least:
            worst, least = number, slacks[number]
    return worst


@compiled
def _descend(d: Dynamics, tick: Tick, s: Active, answer: Answer, room: Array, tau: Array) -> bool:
    """Fill the answer. room: slacks at e = 0; tau: torques of the last tick (na). Return False if the turns do not suffice."""
    turns, slacks = 0, stack_array(len(room))
    _begin(d, tick, s, room, tau)
    while turns < MOST_TURNS:
        turns += 1 + restore(s)
        _fill_answer(d, tick, s.e, s.stretch, answer, slacks)
        for k in range(s.size[0]):
            slacks[s.numbers[k]] = 0.0
        worst = _most_violated(slacks)
        if worst < 0:
            return True
        if not _add_row(d, tick, s, worst, room):
            return False
        turns += admit(s, s.c[s.size[0]] - long_dot(s.N[s.size[0]], s.e))
    return False


NEAR = 1e-6
"""Slack at the forces and torques of the last tick, as a share of the normal force or of the limit, below which a limit
probably binds again."""


@compiled
def _begin(d: Dynamics, tick: Tick, s: Active, room: Array, tau: Array) -> None:
    """Let the limits of forces and torques join that were at their limits in the last tick. tau: its torques (na)"""
    g, limits, per = d.given, tick.limits, 1 + len(tick.limits.plan.corners)
    if not g.remembers:
        return
    forces, slacks, of_contacts = stack_array(len(g.last)), stack_array(len(room)), len(limits.kinds) * per
    for row in range(len(g.last)):
        forces[row] = g.last[row] / g.dt
    last = Answer(g.v, forces, tau)
    fill_slacks(d, limits, last, slacks)
    for number in range(of_contacts + 4 * len(tau)):
        normal = last.force[3 * (number // per) + 2] if number < of_contacts else 1.0
        near = normal > 0.0 and abs(slacks[number]) < NEAR * max(1.0, normal)
        if near and of_forces(limits, number) and _add_row(d, tick, s, number, room):
            join(s, s.size[0])
            s.size[0] += s.level[s.size[0]] >= 0
