"""Strict levels of weighted least squares within limits.

    for each level in turn:  minimise ‖A x − b‖²  subject to  lower ≤ G x ≤ upper,  A′ x = A′ x* of all levels above

Limits that no x meets are widened by the smallest sum of squares. Kernels advance through levels in which no limit binds;
DAQP solves the others, and the solution is made exact on its active set.
"""

from typing import NamedTuple

import numpy as np

from idyn.library.kernels import compiled, entry
from idyn.library.records import Indices, Mask, Matrix, Vector, written
from idyn.solvers.linalg import axpy, copy, dot, fill
from idyn.solvers.qp import solve_qp
from idyn.solvers.rows import solve_and_span
from idyn.tasks.held import Program
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
    """

    x: Array
    Z: Array
    below: Array
    marks: Array  # present level, number of rows of Z, rank of the present level
    active: Array  # rows of G that bind in each level (levels, k)


@entry(
    (Matrix, Indices, Matrix, Vector, Vector),
    written((Vector, Matrix, Matrix, Indices, Mask)),
    written((Vector, Vector, Vector, Vector, Vector)),
    (Vector, Vector),
    int,
)
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
    level, scale, columns, at = state.marks[LEVEL], 0.0, _columns(state), np.empty(len(reduced))
    first = program.ends[level - 1] if level > 0 else 0
    for i in range(len(rest)):
        equation = program.equations[first + i]
        A = equation[1:]
        for j in range(len(A)):
            scale = max(scale, abs(A[j]))
        rest[i] = equation[0] - dot(A, state.x)
        _coordinates(A, columns, at)
        for z in range(len(reduced)):
            reduced[z, i] = at[z]
    return scale


@compiled
def _columns(state: State) -> Array:
    """Return the basis of what the levels so far leave free, as columns (size, free)."""
    free, size = state.marks[FREE], len(state.x)
    columns = np.empty((size, free))
    for z in range(free):
        for j in range(size):
            columns[j, z] = state.Z[z, j]
    return columns


@compiled
def _coordinates(row: Array, columns: Array, out: Array) -> None:
    """Fill row · z for each column z. The loop over all columns at once is vectorised; each sum has the order of `dot`."""
    fill(out, 0.0)
    for j in range(len(row)):
        axpy(row[j], columns[j], out)


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
    unit, columns = max(scale, 1e-12), _columns(state)
    for i in range(free):
        f[i] = -dot(reduced[i], rest) / unit**2
        for j in range(free):
            H[i * free + j] = dot(reduced[i], reduced[j]) / unit**2
    for i in range(k):
        at = dot(program.G[i], state.x)
        lower[i], upper[i] = max(program.lower[i] - at, -LARGEST), min(program.upper[i] - at, LARGEST)
        _coordinates(program.G[i], columns, G[i * free : (i + 1) * free])
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
    G, k = program.G, len(room)
    values, within = np.empty(k), True
    for first in range(0, k, 4):  # four rows at once: a sum waits for its last term
        a, b, c, d = first, min(first + 1, k - 1), min(first + 2, k - 1), min(first + 3, k - 1)
        s0 = s1 = s2 = s3 = 0.0
        for j in range(len(x)):
            s0, s1, s2, s3 = s0 + G[a, j] * x[j], s1 + G[b, j] * x[j], s2 + G[c, j] * x[j], s3 + G[d, j] * x[j]
        values[a], values[b], values[c], values[d] = s0, s1, s2, s3
    for i in range(k):
        within = within and not (values[i] < program.lower[i] - room[i] or values[i] > program.upper[i] + room[i])
    return within


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


RIDGES = (1e-8, 1e-6)
"""Terms ½ ridge ‖z‖² of the programs for DAQP, in units of the level's largest entry squared: of the first attempt, and of the
second one if DAQP finds no solution. Of 834 programs of 200 random ticks of a go2, DAQP solved all but 30 with 1e-9, all but 9
with 1e-8, and all with 1e-6."""


class Resolution(NamedTuple):
    """x: the solution (size); active: rows of G whose limit prevents a smaller error of a level (levels, k)"""

    x: Array
    active: Array
    relaxed: Array  # indices of the rows of G that no x can meet together


NO_ROWS, NOTHING = np.zeros(0, np.int64), np.zeros(0)


def resolve(program: Program) -> Resolution:
    """Return the lexicographic solution."""
    (k, size), relaxed = program.G.shape, NO_ROWS
    marks, (Z, below) = np.empty(3, np.int64), np.empty((2, size, size))
    state = np.zeros(size), Z, below, marks, np.zeros((len(program.ends), k), np.bool_)
    qp, diagonal = (np.empty(size * size), np.empty(size), np.empty(k * size), np.empty(k), np.empty(k)), np.arange(size)
    answer, code = (NOTHING, NOTHING), START
    while met := proceed(tuple(program), state, qp, answer, code):
        if met == OUTSIDE:
            (program, relaxed), code = _attainable(program), WIDENED
            continue
        (H, f, G, lower, upper), free, code = qp, int(marks[FREE]), NO_SOLUTION
        square = H[: free * free].reshape(free, free)
        for ridge in RIDGES:
            square[diagonal[:free], diagonal[:free]] += ridge
            solution = solve_qp(square, f[:free], G[: k * free].reshape(k, free), lower, upper)
            if solution.status.ok and solution.multipliers is not None:
                answer, code = (solution.x, solution.multipliers), SOLUTION
                break
    return Resolution(state[0], state[4], relaxed)


def _attainable(program: Program) -> tuple[Program, Array]:
    """Return a program with limits that some x meets: widened by the smallest sum of squares where necessary; and the widened
    rows."""
    _, _, G, lower, upper = program
    (k, size), room = G.shape, FEASIBLE * _scale(lower, upper)
    scale = 1.0 / np.maximum(np.sqrt((G * G).sum(axis=1)), 1e-12)
    bounds = np.maximum(lower * scale, -LARGEST), np.minimum(upper * scale, LARGEST)  # finite, as DAQP expects
    scaled = np.ascontiguousarray(G * scale[:, None]), *bounds
    solution = solve_qp(np.eye(size), np.zeros(size), *scaled)
    at = G @ solution.x
    if solution.status.ok and bool((at >= lower - room).all() and (at <= upper + room).all()):
        return program, NO_ROWS
    # min ‖s‖² + ε‖x‖²  subject to  lower ≤ G x + s ≤ upper
    H = np.diag(np.concatenate([np.full(size, 1e-8), np.ones(k)]))
    solution = solve_qp(H, np.zeros(size + k), np.hstack([scaled[0], np.eye(k)]), *scaled[1:])
    reached = G @ (solution.x[:size] if solution.status.ok else np.zeros(size))
    missed = np.maximum(lower - reached, reached - upper)
    slack = 1e-7 * np.maximum(1.0, np.abs(reached))
    widened = program._replace(lower=np.minimum(lower, reached - slack), upper=np.maximum(upper, reached + slack))
    return widened, np.flatnonzero(missed > room)


def solved(A: Array, b: Array, scale: float) -> Array:
    """Return the least-squares solution of A z = b of least norm. scale: size of entries of A that are not zero"""
    columns = A.shape[1]
    if not A.size or scale == 0.0:
        return np.zeros(columns)
    z, basis = np.empty(columns), np.empty((columns, columns))
    solve_and_span((np.array(A.T, order="C"), np.array(b)), (z, basis), scale)
    return z


def _scale(lower: Array, upper: Array) -> Array:
    low, high = (np.where(np.isfinite(each), np.abs(each), 0.0) for each in (lower, upper))
    return np.maximum(np.maximum(low, high), 1.0)
