"""The smallest errors within the limits: level by level, the least ‖e_l‖ with N e ≥ c.

Dual active set [Goldfarb & Idnani 1983] with strict levels. The active rows are kept as a staircase: each is orthogonalised,
from the lowest level up, against the rows before it that ended there, and ends at the first level where a part of its own
remains; below it the row is zero. So a limit disturbs the lowest level that can give way. B = C N are the rows of the
staircase, of unit length in their level:

    e_l = Σ β_k B_kl,   β_k = C_k c − B_k,above · e_above      λ^l = Σ β_k C_k      over the rows k that end at level l

A limit is active if its first multiplier, from the highest level down, is positive. Above all levels stands one of slacks, one
for each row: limits that nothing meets together give way there by the least sum of squares.
"""

from typing import NamedTuple

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
from idyn.terms.stages import Dynamics
from idyn.types import Array

FEASIBLE = 1e-9
"""Violation of a limit that counts as zero, relative to the larger of 1 and the limit."""

INDEPENDENT = 1e-7
"""Share of its part in a level below which what remains of a row is rounding."""

SOFT, STEP = 1e-4, 10.0
"""Where the turns do not suffice, as limits nearly contradict each other, all levels are one: cost of the first one's errors
relative to that of slacks, and the ratio of the units of neighbouring levels."""

ROUNDING = 1e-12
"""Share of its terms below which a sum is zero."""

DEPENDENT = 1e-10
"""Share of a row below which another one does not contain it."""

MOST_TURNS = 500
"""Most rows that join or leave."""


class Active(NamedTuple):
    """Active limits: Q rows at most, the first `size[0]` in use."""

    soft: Array  # 0; or `SOFT` where all levels are one, in one element
    stretch: Array  # units of the errors (D)
    ends: Array  # of the errors of each level (T)
    numbers: Array  # of the limits (Q)
    size: Array  # number of rows in use, one element
    N: Array  # rows on the errors, of unit length on the coordinates (Q, D)
    sizes: Array  # squared lengths of the terms of N in each level, before they cancel (Q, T)
    c: Array  # (Q)
    B: Array  # staircase (Q, D)
    C: Array  # (Q, Q)
    level: Array  # where a row ends, −1: slacks (Q)
    beta: Array  # β (Q)
    e: Array  # errors (D)
    missed: Array  # slacks (Q)
    multipliers: Array  # of the slacks and of each level (1 + T, Q)


@compiled
def _join(s: Active, q: int) -> float:
    """Orthogonalise row q against those before it and set where it ends. Return the squared length of its part there."""
    b, coefficients, first = s.B[q], s.C[q], 0
    for i in range(len(b)):
        b[i] = s.N[q, i]
    fill(coefficients, 0.0)
    coefficients[q] = 1.0
    for level in range(len(s.ends) - 1, -1, -1):
        first, last = s.ends[level - 1] if level > 0 else 0, s.ends[level]
        before = max(dot(b[first:last], b[first:last]), s.sizes[q, level])
        for _ in range(2):
            for k in range(q):
                if s.level[k] == level:
                    part = dot(b[first:last], s.B[k, first:last]) + s.soft[0] * dot(coefficients, s.C[k])
                    axpy(-part, s.B[k, :last], b[:last])
                    axpy(-part, s.C[k, : k + 1], coefficients[: k + 1])
        square = dot(b[first:last], b[first:last]) + s.soft[0] * dot(coefficients, coefficients)
        if square > INDEPENDENT * INDEPENDENT * before:
            _scale_row(s, q, level, square)
            return square
        fill(b[first:last], 0.0)
    for _ in range(2):
        for k in range(q):
            if s.level[k] < 0:
                axpy(-dot(coefficients, s.C[k]), s.C[k, : k + 1], coefficients[: k + 1])
    square = dot(coefficients, coefficients)
    _scale_row(s, q, -1, square)
    return square


@compiled
def _scale_row(s: Active, q: int, level: int, square: float) -> None:
    length = np.sqrt(square)
    for i in range(s.B.shape[1]):
        s.B[q, i] /= length
    for k in range(q + 1):
        s.C[q, k] /= length
    s.level[q] = level


@compiled
def _settle(s: Active) -> None:
    """Fill errors, slacks and multipliers of the active rows as equations."""
    q = s.size[0]
    fill(s.e, 0.0)
    fill(s.missed, 0.0)
    for level in range(-1, len(s.ends)):
        first, last = s.ends[level - 1] if level > 0 else 0, s.ends[level] if level >= 0 else 0
        found = s.multipliers[level + 1]
        fill(found, 0.0)
        for k in range(q):
            if s.level[k] != level:
                continue
            value, size = -dot(s.B[k, :first], s.e[:first]), 0.0
            for i in range(first):
                size += abs(s.B[k, i] * s.e[i])
            for j in range(k + 1):
                value += s.C[k, j] * (s.c[j] - (s.missed[j] if level >= 0 else 0.0))
                size += abs(s.C[k, j] * s.c[j])
            s.beta[k] = value if abs(value) > ROUNDING * size else 0.0
            axpy(s.beta[k], s.C[k, : k + 1], found[: k + 1])
        for k in range(q):
            if s.level[k] == level and level >= 0:
                axpy(s.beta[k], s.B[k, first:last], s.e[first:last])
            elif s.level[k] == level:
                axpy(s.beta[k], s.C[k, : k + 1], s.missed[: k + 1])
    for k in range(q if s.soft[0] > 0.0 else 0):
        axpy(s.soft[0] * s.beta[k], s.C[k, : k + 1], s.missed[: k + 1])


@compiled
def _leave(s: Active, k: int) -> None:
    """Remove row k."""
    q = s.size[0] - 1
    for row in range(k, q):
        s.numbers[row], s.c[row] = s.numbers[row + 1], s.c[row + 1]
        for i in range(s.N.shape[1]):
            s.N[row, i] = s.N[row + 1, i]
        for level in range(len(s.ends)):
            s.sizes[row, level] = s.sizes[row + 1, level]
    s.size[0] = q
    for row in range(k, q):
        _join(s, row)


@compiled
def _restore(s: Active) -> int:
    """Remove rows whose first multiplier is negative, and settle. Return how many left."""
    left = 0
    while True:
        _settle(s)
        worst = -1
        for level in range(len(s.multipliers)):
            least, largest = 0.0, 0.0
            for k in range(s.size[0]):
                largest = max(largest, abs(s.multipliers[level, k]))
            for k in range(s.size[0]):
                value = s.multipliers[level, k]
                if value < min(least, -ROUNDING * largest) and _is_first(s, level, k):
                    worst, least = k, value
            if worst >= 0:
                break
        if worst < 0:
            return left
        _leave(s, worst)
        left += 1


@compiled
def _is_first(s: Active, level: int, k: int) -> bool:
    """Return whether the multipliers of row k are zero above a level."""
    for above in range(level):
        largest = 0.0
        for j in range(s.size[0]):
            largest = max(largest, abs(s.multipliers[above, j]))
        if abs(s.multipliers[above, k]) > ROUNDING * largest:
            return False
    return True


@compiled
def _admit(s: Active, violation: float) -> int:
    """Let row `size` join; rows whose multiplier would fall below zero first leave before. violation: c − N e. Return how many
    left."""
    left = 0
    while True:
        q = s.size[0]
        square = _join(s, q)
        level, length, blocking = s.level[q], np.sqrt(square), -1
        for k in range(q):
            if (
                -s.C[q, k] * length > DEPENDENT
                and _is_first(s, level + 1, k)
                and (blocking < 0 or _sooner(s, level + 1, k, blocking))
            ):
                blocking = k
        ratio = max(s.multipliers[level + 1, blocking], 0.0) / (-s.C[q, blocking] * length) if blocking >= 0 else np.inf
        if ratio * square >= violation:
            s.size[0] = q + 1
            return left
        violation -= ratio * square
        for k in range(q):
            s.multipliers[level + 1, k] += ratio * s.C[q, k] * length
        for row in range(len(s.multipliers)):
            for k in range(blocking, q - 1):
                s.multipliers[row, k] = s.multipliers[row, k + 1]
        # the new row moves down with those behind the one that leaves
        s.size[0] = q + 1
        _leave(s, blocking)
        s.size[0] = q - 1
        left += 1


@compiled
def _sooner(s: Active, first: int, k: int, other: int) -> bool:
    """Return whether the multipliers of row k reach zero before those of another one: compared from row `first` on, as the new
    row joins."""
    q = s.size[0]
    for row in range(first, len(s.multipliers)):
        one, two = s.multipliers[row, k] / -s.C[q, k], s.multipliers[row, other] / -s.C[q, other]
        if abs(one - two) > ROUNDING * max(abs(one), abs(two)):
            return one < two
    return False


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
    parts, s = (held, levels, closed), _no_rows(levels, len(numbers), 0.0)
    exact = _descend(d, limits, parts, s, answer, (c, room))
    if not exact:
        s = _no_rows(levels, len(numbers), SOFT)
        _descend(d, limits, parts, s, answer, (c, room))
    fill_slacks(d, limits, answer, room)
    for k in range(s.size[0]):
        numbers[k], missed[k] = s.numbers[k], min(room[s.numbers[k]], 0.0)
        for level in range(len(hinders)):
            hinders[level, k] = s.multipliers[level + 1 if exact else 1, k]
    return s.size[0], choice, exact


@compiled
def _no_rows(levels: Levels, most: int, soft: float) -> Active:
    """Return memory for so many active rows."""
    D, T = len(levels.beta), len(levels.ends)
    ends, stretch = levels.ends, np.ones(D)
    if soft > 0.0:
        ends = np.array([D])
        for j in range(D):
            for level in range(T - 1):
                stretch[j] *= STEP if j >= levels.ends[level] else 1.0
        T = 1
    return Active(
        np.array([soft]),
        stretch,
        ends,
        np.empty(most, np.int64),
        np.zeros(1, np.int64),
        np.empty((most, D)),
        np.empty((most, T)),
        np.empty(most),
        np.empty((most, D)),
        np.zeros((most, most)),
        np.empty(most, np.int64),
        np.empty(most),
        np.zeros(D),
        np.zeros(most),
        np.zeros((1 + T, most)),
    )


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
        turns += 1 + _restore(s)
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
        turns += _admit(s, s.c[s.size[0]] - dot(s.N[s.size[0]], s.e))
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
            _join(s, s.size[0])
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
