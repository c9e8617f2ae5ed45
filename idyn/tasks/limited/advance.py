"""Kernels of `idyn.tasks.limited.levels`: levels of weighted least squares, solved one after the other until a limit binds."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from idyn.differentiation.arrays import axpy
from idyn.jit.compiled import INDICES, MASK, MATRIX, VECTOR, WHOLE, compiled
from idyn.jit.entry import Borrowed, Output, entry_point
from idyn.solvers.linalg import copy, dot, fill
from idyn.solvers.rows import solve_and_span
from idyn.tasks.limited.program import Program
from idyn.types import Array

FEASIBLE = 1e-9
"""Violation of a limit that counts as zero, relative to the larger of 1 and the limit."""

LARGEST = 1e30
"""Limit that DAQP takes for none."""

START, WIDENED, NO_SOLUTION, SOLUTION = range(4)
"""Codes that `proceed` is called with: first; first after the limits were widened; with the result of DAQP."""

DONE, BOUND, OUTSIDE = range(3)
"""Codes that `proceed` returns: solved; a limit binds; x = 0 violates a limit."""

LEVEL, FREE, RANK = range(3)
"""Places in `State.marks`."""


class State(NamedTuple):
    """A solution after some levels.

    x (size); Z: basis of what the levels so far leave free, as rows (size, size); below: of what the present level leaves, in
    the coordinates of Z (size, size)
    marks: present level, number of rows of Z, rank of the present level; active: rows of G that bind in each level (levels, k)
    """

    x: Array
    Z: Array
    below: Array
    marks: Array
    active: Array


@cache
def proceeding() -> Callable[..., int]:
    """Return `proceed` for calls from Python."""
    program, answer = Borrowed(MATRIX, INDICES, MATRIX, VECTOR, VECTOR), Borrowed(VECTOR, VECTOR)
    state, qp = Output(VECTOR, MATRIX, MATRIX, INDICES, MASK), Output(VECTOR, VECTOR, VECTOR, VECTOR, VECTOR)
    return entry_point(proceed, program, state, qp, answer, WHOLE)


@compiled
def proceed(
    given: tuple[Array, ...], memory: tuple[Array, ...], qp: tuple[Array, ...], answer: tuple[Array, Array], code: int
) -> int:
    """Solve the levels from the present one on. Return DONE, OUTSIDE, or BOUND: then `qp` is filled, and the next call goes on
    with its solution.

    given: a `Program`; memory: a `State`; qp: (H, f, G, lower, upper) of min ½ zᵀHz + fᵀz, lower ≤ G z ≤ upper, the matrices in
    the first elements of vectors
    answer: (z, multipliers) of the last `qp`; code: after NO_SOLUTION the level is left as it is
    """
    program, state = Program(*given), State(*memory)
    (k, size), marks = program.G.shape, state.marks
    room = np.empty(k)
    for i in range(k):
        room[i] = FEASIBLE * max(_size(program.lower[i]), _size(program.upper[i]), 1.0)
    if code == START and not _within(program, state.x, room):
        return OUTSIDE
    if code < NO_SOLUTION:
        marks[LEVEL], marks[FREE], marks[RANK] = 0, size, 0
        for i in range(size):
            for j in range(size):
                state.Z[i, j] = 1.0 if i == j else 0.0
    elif code == NO_SOLUTION:
        _descend(state)
    else:
        _settle(program, state, room, answer)
    while marks[LEVEL] < len(program.ends):
        if marks[FREE] == 0:
            return DONE
        if not _advance(program, state, room, qp):
            return BOUND
    return DONE


@compiled
def _size(limit: float) -> float:
    """Return the size of a limit; 0 for none."""
    return abs(limit) if np.isfinite(limit) else 0.0


@compiled
def _open_level(program: Program, state: State, reduced: Array, rest: Array) -> float:
    """Fill (A Z)ᵀ (free, r) and b − A x of the present level (r). Return the largest entry of A."""
    level, scale = state.marks[LEVEL], 0.0
    first = program.ends[level - 1] if level > 0 else 0
    for i in range(len(rest)):
        equation = program.equations[first + i]
        A = equation[1:]
        for j in range(len(A)):
            scale = max(scale, abs(A[j]))
        rest[i] = equation[0] - dot(A, state.x)
        for z in range(len(reduced)):
            reduced[z, i] = dot(A, state.Z[z])
    return scale


@compiled
def _rows_of(program: Program, level: int) -> int:
    return program.ends[level] - (program.ends[level - 1] if level > 0 else 0)


@compiled
def _advance(program: Program, state: State, room: Array, qp: tuple[Array, ...]) -> bool:
    """Solve the present level without limits and go on to the next one; if a limit binds, fill `qp` and return False."""
    marks, rows = state.marks, _rows_of(program, state.marks[LEVEL])
    free, (k, _) = marks[FREE], program.G.shape
    reduced, rest, step, moved = np.empty((free, rows)), np.empty(rows), np.empty(free), state.x.copy()
    scale = _open_level(program, state, reduced, rest)
    marks[RANK] = _solve_free((reduced, rest), scale, step, state.below)
    for z in range(free):
        axpy(step[z], state.Z[z], moved)
    if _within(program, moved, room):
        copy(moved, state.x)
        _descend(state)
        return True
    H, f, G, lower, upper = qp
    unit = max(scale, 1e-12)
    for i in range(free):
        f[i] = -dot(reduced[i], rest) / unit**2
        for j in range(free):
            H[i * free + j] = dot(reduced[i], reduced[j]) / unit**2
    for i in range(k):
        at = dot(program.G[i], state.x)
        lower[i], upper[i] = max(program.lower[i] - at, -LARGEST), min(program.upper[i] - at, LARGEST)
        for z in range(free):
            G[i * free + z] = dot(program.G[i], state.Z[z])
    return False


@compiled
def _solve_free(equations: tuple[Array, Array], scale: float, z: Array, below: Array) -> int:
    """Fill the least-squares solution z of least norm (columns) and the null space, as the first rows of `below`. Return the
    rank. equations: (Aᵀ (columns, r), b (r)), not overwritten; scale: size of entries of A that are not zero"""
    A, b = equations
    columns, basis = len(z), np.empty((len(z), len(z)))
    if A.size == 0 or scale == 0.0:
        for i in range(columns):
            z[i] = 0.0
            for j in range(columns):
                below[i, j] = 1.0 if i == j else 0.0
        return 0
    rank = solve_and_span((A.copy(), b.copy()), (z, basis), scale)
    for i in range(columns - rank):
        for j in range(columns):
            below[i, j] = basis[j, i]
    return rank


@compiled
def _within(program: Program, x: Array, room: Array) -> bool:
    for i in range(len(room)):
        value = dot(program.G[i], x)
        if value < program.lower[i] - room[i] or value > program.upper[i] + room[i]:
            return False
    return True


@compiled
def _descend(state: State) -> None:
    """Go on to the next level."""
    marks = state.marks
    free, left = marks[FREE], marks[FREE] - marks[RANK]
    before = state.Z[:free].copy()
    for i in range(left):
        fill(state.Z[i], 0.0)
        for z in range(free):
            axpy(state.below[i, z], before[z], state.Z[i])
    marks[FREE] = left
    marks[LEVEL] += 1


@compiled
def _settle(program: Program, state: State, room: Array, answer: tuple[Array, Array]) -> None:
    """Finish a level with the solution (z, multipliers) of its `qp`, made exact on the binding rows. Mark those that prevent a
    smaller error."""
    (found, multipliers), level = answer, state.marks[LEVEL]
    rows, free, size = _rows_of(program, level), state.marks[FREE], len(state.x)
    reduced, rest, moved, z = np.empty((free, rows)), np.empty(rows), np.empty(size), np.empty(free)
    scale = _open_level(program, state, reduced, rest)
    binding = np.flatnonzero(np.abs(multipliers) > 1e-9)
    bound = np.empty((free, len(binding)))
    _on_face(program, state, (binding, multipliers, bound), (reduced, rest, scale), z)
    copy(state.x, moved)
    for j in range(free):
        axpy(z[j], state.Z[j], moved)
    if not _within(program, moved, room):
        copy(found, z)
        copy(state.x, moved)
        for j in range(free):
            axpy(z[j], state.Z[j], moved)
    # gradient Aᵀ (A z − b)
    for i in range(rows):
        rest[i] = -rest[i]
    for j in range(free):
        axpy(z[j], reduced[j], rest)
    square, unit = 0.0, max(scale, 1e-12)
    for j in range(free):
        square += dot(reduced[j], rest) ** 2
    gradient = np.sqrt(square)
    for c in range(len(binding)):
        s = 0.0
        for j in range(free):
            s += bound[j, c] ** 2
        hinders = abs(multipliers[binding[c]]) * np.sqrt(s) * unit**2
        state.active[level, binding[c]] = gradient > 1e-9 * unit and hinders > 1e-6 * gradient
    copy(moved, state.x)
    _descend(state)


@compiled
def _on_face(
    program: Program, state: State, binding: tuple[Array, Array, Array], equations: tuple[Array, Array, float], z: Array
) -> None:
    """Fill the z with the smallest error of the level with the binding rows at their limits.

    binding: (rows, multipliers (k), their coefficients for z, to be filled (free, ·)); equations: see `_open_level`
    """
    (active, multipliers, bound), (reduced, rest, scale) = binding, equations
    free, rows = reduced.shape
    values, largest, N = np.empty(len(active)), 0.0, np.empty((free, free))
    for c in range(len(active)):
        i = active[c]
        values[c] = (program.lower[i] if multipliers[i] < 0.0 else program.upper[i]) - dot(program.G[i], state.x)
        for j in range(free):
            bound[j, c] = dot(program.G[i], state.Z[j])
            largest = max(largest, abs(bound[j, c]))
    left = free - _solve_free((bound, values), largest, z, N)
    remaining, others, step, spare = np.zeros((left, rows)), rest.copy(), np.empty(left), np.empty((left, left))
    for j in range(free):
        axpy(-z[j], reduced[j], others)
        for i in range(left):
            axpy(N[i, j], reduced[j], remaining[i])
    _solve_free((remaining, others), scale, step, spare)
    for i in range(left):
        axpy(step[i], N[i], z)
