"""Strict levels of weighted least squares within limits.

    for each level in turn:  minimise ‖A x − b‖²  subject to  lower ≤ G x ≤ upper,  A′ x = A′ x* of all levels above

Limits that no x meets are widened by the smallest sum of squares. Kernels advance through levels in which no limit binds
(`idyn.tasks.limited.advance`); DAQP solves the others, and the solution is made exact on its active set.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import MATRIX, REAL, VECTOR
from idyn.jit.entry import Output, entry_point
from idyn.solvers.qp import solve_qp
from idyn.solvers.rows import solve_and_span
from idyn.tasks.limited.advance import FEASIBLE, FREE, LARGEST, NO_SOLUTION, OUTSIDE, SOLUTION, START, WIDENED, proceeding
from idyn.tasks.limited.program import Program
from idyn.types import Array

RIDGES = (1e-8, 1e-6)
"""Terms ½ ridge ‖z‖² of the programs for DAQP, in units of the level's largest entry squared: of the first attempt, and of the
second one if DAQP finds no solution. Of 834 programs of 200 random ticks of a go2, DAQP solved all but 30 with 1e-9, all but 9
with 1e-8, and all with 1e-6."""


class Resolution(NamedTuple):
    """x: the solution (size); active: rows of G whose limit prevents a smaller error of a level (levels, k)
    relaxed: indices of the rows of G that no x can meet together"""

    x: Array
    active: Array
    relaxed: Array


NO_ROWS, NOTHING = np.zeros(0, np.int64), np.zeros(0)


def resolve(program: Program) -> Resolution:
    """Return the lexicographic solution."""
    (k, size), relaxed = program.G.shape, NO_ROWS
    marks, (Z, below) = np.empty(3, np.int64), np.empty((2, size, size))
    state = np.zeros(size), Z, below, marks, np.zeros((len(program.ends), k), np.bool_)
    qp, diagonal = (np.empty(size * size), np.empty(size), np.empty(k * size), np.empty(k), np.empty(k)), np.arange(size)
    answer, code = (NOTHING, NOTHING), START
    while met := proceeding()(tuple(program), state, qp, answer, code):
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
    scaled = np.ascontiguousarray(G * scale[:, None]), *_finite(lower * scale, upper * scale)
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
    _solve()((np.array(A.T, order="C"), np.array(b)), (z, basis), scale)
    return z


@cache
def _solve() -> Callable[..., int]:
    return entry_point(solve_and_span, Output(MATRIX, VECTOR), Output(VECTOR, MATRIX), REAL)


def _scale(lower: Array, upper: Array) -> Array:
    low, high = (np.where(np.isfinite(each), np.abs(each), 0.0) for each in (lower, upper))
    return np.maximum(np.maximum(low, high), 1.0)


def _finite(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return bounds with finite numbers, as DAQP expects."""
    return np.maximum(lower, -LARGEST), np.minimum(upper, LARGEST)
