"""Solution of one tick of tasks: the motion and forces with the least errors, level by level, within the limits.

Nothing binds: e = 0. Else limits join one by one, the most violated first, until none is violated; before them those that the
forces of the last tick had reached.
"""

import numpy as np

from idyn.library.kernels import compiled, entry
from idyn.library.records import Indices, Matrix, Vector, written
from idyn.solvers.linalg import axpy, dot, fill, forward
from idyn.tasks.held import Closing, Held, closing, hold
from idyn.tasks.levels import Levels, Tasks, levels_of
from idyn.tasks.limits import (
    Answer,
    Limits,
    count_limits,
    fill_answer,
    fill_coordinates,
    fill_limit,
    fill_slacks,
    limit_size,
)
from idyn.tasks.staircase import SOFT, Active, admit, join, no_rows, restore
from idyn.terms.stages import Dynamics
from idyn.types import Array

FEASIBLE = 1e-9
"""Violation of a limit that counts as zero, relative to the larger of 1 and the limit."""

MOST_TURNS = 500
"""Most rows that join or leave."""


@compiled
def _add_row(
    d: Dynamics,
    limits: Limits,
    parts: tuple[Held, Levels, Closing],
    s: Active,
    number: int,
    rows: tuple[Array, Array],
    room: float,
) -> bool:
    """Fill row `size` with a limit. room: its slack at e = 0. Return False if no coordinate changes it, or no row is left."""
    (held, levels, closed), q, g = parts, s.size[0], np.empty(s.N.shape[1])
    if q == len(s.c):
        return False
    fill_limit(d, limits, closed, number, rows)
    fill_coordinates(d, held, levels, rows, g)
    length = np.sqrt(dot(g, g))
    if length == 0.0:
        return False
    s.numbers[q], s.c[q] = number, -room * limit_size(limits, number) / length
    _fill_errors_row(levels, g, length, s)
    return True


@compiled
def _fill_errors_row(levels: Levels, g: Array, length: float, s: Active) -> None:
    """Fill row `size` with Λ⁻ᵀ g/length in order of priority, and the squared lengths of its terms in each level."""
    q, L, terms = s.size[0], levels.L, np.empty(len(g))
    fill(terms, 1.0)
    fill(s.sizes[q], 0.0)
    for j in range(len(g)):
        g[j] /= length
    for j in range(len(g) - 1, -1, -1):
        g[j] /= L[j, j]
        terms[j] /= abs(L[j, j])
        axpy(-g[j], L[j, :j], g[:j])
        for k in range(j):
            terms[k] += abs(g[j] * L[j, k])
        level, place = 0, levels.place[j]
        while s.ends[level] <= place:
            level += 1
        s.N[q, place] = g[j] * s.stretch[place]
        s.sizes[q, level] += (terms[j] * s.stretch[place]) ** 2


@compiled
def _coordinates(levels: Levels, e: Array, stretch: Array, c: Array) -> None:
    """Fill c = Λ⁻¹ (e + β). e: in units of `stretch`"""
    for j in range(len(c)):
        c[j] = e[levels.place[j]] * stretch[levels.place[j]] + levels.beta[j]
    forward(levels.L, c)


CONTACT = (Indices, Matrix)
ROWS = (Matrix, Vector, Vector, Indices)
LIMITS = (Matrix, Vector, Vector, Vector, Vector, Matrix, Vector, Vector)

Arrays = tuple[Array, ...]


@entry(Dynamics, CONTACT, ROWS, ROWS, LIMITS, written((Vector, Vector, Indices, Matrix, Vector)), float)
def solve_tasks(
    d: Dynamics, contact: Arrays, tasks: Tasks, forces: Tasks, given: Arrays, out: Arrays, mass: float
) -> tuple[int, int, bool]:
    """Fill the motion and forces nearest to the tasks within the limits. Return the number of active limits, the dimension of
    the choice of forces, and whether the levels are strict.

    contact: (kind of each mode (n), friction per normal force of contacts that slide (n, 2))
    tasks: (A (r, nv), asked − drift (r), square roots of the weights (r), end of the rows of each level)
    forces: the contact tasks in the same form, A (r, 3n); given: `Limits` but for their first field
    out: (v̇ (nv), f (3n), numbers of the active limits (Q), their multipliers of each level (levels, Q), their slacks (Q))
    """
    motion, force, numbers, hinders, missed = out
    held, closed, limits = hold(d, contact[0], contact[1]), closing(d), Limits(contact[0], *given)
    levels = levels_of(d, held, tasks, forces, mass)
    D, choice, answer = len(levels.beta), len(held.P) - len(held.order), Answer(motion, force, np.empty(len(limits.most)))
    c, room = np.empty(D), np.empty(count_limits(limits))
    _coordinates(levels, np.zeros(D), np.ones(D), c)
    fill_answer(d, held, levels, closed, c, answer)
    fill_slacks(d, limits, answer, room)
    if _most_violated(room) < 0:
        return 0, choice, True
    parts, s = (held, levels, closed), no_rows(D, levels.ends, len(numbers), 0.0)
    exact = _descend(d, limits, parts, s, answer, (c, room))
    if not exact:
        s = no_rows(D, levels.ends, len(numbers), SOFT)
        _descend(d, limits, parts, s, answer, (c, room))
    fill_slacks(d, limits, answer, room)
    for k in range(s.size[0]):
        numbers[k], missed[k] = s.numbers[k], min(room[s.numbers[k]], 0.0)
        for level in range(len(hinders)):
            hinders[level, k] = s.multipliers[level + 1 if exact else 1, k]
    return s.size[0], choice, exact


@compiled
def _most_violated(slacks: Array) -> int:
    """Return the number of the most violated limit, −1 if there is none."""
    worst, least = -1, -FEASIBLE
    for number in range(len(slacks)):
        if slacks[number] < least:
            worst, least = number, slacks[number]
    return worst


@compiled
def _descend(
    d: Dynamics,
    limits: Limits,
    parts: tuple[Held, Levels, Closing],
    s: Active,
    answer: Answer,
    at: tuple[Array, Array],
) -> bool:
    """Fill the answer. at: (coordinates c (D); slacks at e = 0). Return False if the turns do not suffice."""
    (c, room), (held, levels, closed), turns, slacks = at, parts, 0, np.empty(len(at[1]))
    rows = np.empty(len(d.given.v)), np.empty(len(d.J))
    _begin(d, limits, parts, s, room, rows)
    while turns < MOST_TURNS:
        turns += 1 + restore(s)
        _coordinates(levels, s.e, s.stretch, c)
        fill_answer(d, held, levels, closed, c, answer)
        fill_slacks(d, limits, answer, slacks)
        for k in range(s.size[0]):
            slacks[s.numbers[k]] = 0.0
        worst = _most_violated(slacks)
        if worst < 0:
            return True
        if not _add_row(d, limits, parts, s, worst, rows, room[worst]):
            return False
        turns += admit(s, s.c[s.size[0]] - dot(s.N[s.size[0]], s.e))
    return False


NEAR = 1e-6
"""Slack at the forces of the last tick, as a share of the normal force, below which a limit probably binds again."""


@compiled
def _begin(
    d: Dynamics,
    limits: Limits,
    parts: tuple[Held, Levels, Closing],
    s: Active,
    room: Array,
    rows: tuple[Array, Array],
) -> None:
    """Let the limits of forces join that were at their limits in the last tick."""
    g, per = d.given, 1 + len(limits.corners)
    if not g.remembers:
        return
    last, slacks = Answer(g.v, np.empty(len(g.last)), limits.most), np.empty(len(room))
    for i in range(len(g.last)):
        last.force[i] = g.last[i] / g.dt
    fill_slacks(d, limits, last, slacks)
    for number in range(len(limits.kinds) * per):
        normal = last.force[3 * (number // per) + 2]
        near = normal > 0.0 and abs(slacks[number]) < NEAR * max(1.0, normal)
        if near and _add_row(d, limits, parts, s, number, rows, room[number]):
            join(s, s.size[0])
            s.size[0] += s.level[s.size[0]] >= 0


@entry(Dynamics, CONTACT, ROWS, ROWS, LIMITS, (Indices, Matrix, Matrix), written((Matrix,)), float)
def fill_rows_of(
    d: Dynamics, contact: Arrays, tasks: Tasks, forces: Tasks, given: Arrays, which: Arrays, out: tuple[Array], mass: float
) -> int:
    """Fill the rows on the coordinates of some limits, and of rows on v̇ and on f. Return the number of coordinates.

    which: (numbers of limits (k), rows on v̇ (r, nv), rows on f (r, 3n)); out: tuple of the rows (k + r, ·), wide enough
    """
    (numbers, motions, pushes), (found,) = which, out
    held, closed, limits = hold(d, contact[0], contact[1]), closing(d), Limits(contact[0], *given)
    levels = levels_of(d, held, tasks, forces, mass)
    D, rows = len(levels.beta), (np.empty(len(d.given.v)), np.empty(len(d.J)))
    for k in range(len(numbers)):
        fill_limit(d, limits, closed, numbers[k], rows)
        fill_coordinates(d, held, levels, rows, found[k, :D])
    for r in range(len(motions)):
        fill_coordinates(d, held, levels, (motions[r], pushes[r]), found[len(numbers) + r, :D])
    return D
