"""The program of one tick for given contact modes: equations of each level and limits, for the coordinates of the held motion.

Rows of the limits, in the order of `idyn.tasks.limits.names_of`: facets of the contact modes, torques, joint accelerations,
distances between links.
Equations of forces are divided by the mass. After the levels of the tasks: joints that no task moves come to rest; the forces
are as small as possible.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from idyn.differentiation.arrays import axpy
from idyn.jit.compiled import INDICES, MATRIX, REAL, VECTOR, compiled
from idyn.jit.entry import Borrowed, Output, entry_point
from idyn.solvers.linalg import fill_rows
from idyn.tasks.follow import REST, ROWS
from idyn.tasks.limited.held import HeldMotion
from idyn.tasks.modes import ModeRows
from idyn.terms.stages import Dynamics
from idyn.types import Array

Arrays = tuple[Array, ...]


class Program(NamedTuple):
    """Level by level, the x with the smallest ‖A x − b‖² within lower ≤ G x ≤ upper.

    equations: (b, A), weighted by the square roots of the weights, in the order of the levels (r, 1 + size)
    ends: end of the rows of each level; G (k, size), lower, upper (k); ±inf: no limit
    """

    equations: Array
    ends: Array
    G: Array
    lower: Array
    upper: Array


def program_of(
    d: Dynamics, held: HeldMotion, modes: ModeRows, tasks: tuple[Arrays, Arrays], limits: Arrays, mass: float
) -> Program:
    """Return the program of a tick.

    tasks: of motion and of forces, each (A, wanted, roots, ends), see `idyn.tasks.follow`, with an end for each level
    limits: (least, largest accelerations, largest torques), each (na); then (rows (k, nv), least (k)) of `LinkDistances`
    """
    (motion, forces), na, n3, width = tasks, len(limits[0]), len(modes.B), held.values.shape[1]
    levels, facets = len(motion[3]), len(modes.least)
    count, rows = facets + 2 * na + len(limits[4]), len(motion[0]) + len(forces[0]) + na + n3
    out = Program(np.empty((rows, width)), np.empty(levels + 2, np.int64), np.empty((count, width - 1)), *np.empty((2, count)))
    _fill_program()(d.fields, (held.values, modes.facets, modes.least), motion, forces, limits, tuple(out), mass)
    return out


@cache
def _fill_program() -> Callable[..., None]:
    out = Output(MATRIX, INDICES, MATRIX, VECTOR, VECTOR)
    limits = Borrowed(VECTOR, VECTOR, VECTOR, MATRIX, VECTOR)
    return entry_point(fill_program, Dynamics.TYPE, Borrowed(MATRIX, MATRIX, VECTOR), ROWS, ROWS, limits, out, REAL)


@compiled
def fill_program(
    d: Dynamics,
    held: tuple[Array, Array, Array],
    motion: tuple[Array, ...],
    forces: tuple[Array, ...],
    limits: tuple[Array, ...],
    out: tuple[Array, ...],
    mass: float,
) -> None:
    """Fill a `Program`. held: (values of the `HeldMotion`, facets, least forces); the others are those of `program_of`"""
    (values, facets, least), (slowest, fastest, most, apart, nearest) = held, limits
    equations, ends, G, lower, upper = out
    (n3, nv), a = d.J.shape, d.given.model.a
    row, first, second = 0, 0, 0
    fill_rows(equations, 0.0)
    for level in range(len(motion[3])):
        for i in range(first, motion[3][level]):
            _fill_equation((motion[0][i], values[:nv]), motion[2][i], motion[1][i], equations[row])
            row += 1
        for i in range(second, forces[3][level]):
            _fill_equation((forces[0][i], values[nv : nv + n3]), forces[2][i] / mass, forces[1][i], equations[row])
            row += 1
        first, second, ends[level] = motion[3][level], forces[3][level], row
    for k in range(len(a)):
        axpy(1.0, values[a[k]], equations[row + k])
        equations[row + k, 0] = -REST * d.given.v[a[k]] - values[a[k], 0]
    ends[len(ends) - 2] = row = row + len(a)
    for i in range(n3):
        axpy(1.0 / mass, values[nv + i], equations[row + i])
        equations[row + i, 0] = -equations[row + i, 0]
    ends[len(ends) - 1] = row + n3
    # limits
    bound = np.zeros((len(least), values.shape[1]))
    for k in range(len(least)):
        for i in range(n3):
            if facets[k, i] != 0.0:
                axpy(facets[k, i], values[nv + i], bound[k])
        _fill_limit(bound[k], (least[k], np.inf), k, (G, lower, upper))
    for k in range(len(a)):
        _fill_limit(values[nv + n3 + k], (-most[k], most[k]), len(least) + k, (G, lower, upper))
        _fill_limit(values[a[k]], (slowest[k], fastest[k]), len(least) + len(a) + k, (G, lower, upper))
    bound = np.zeros((len(nearest), values.shape[1]))
    for k in range(len(nearest)):
        for j in range(nv):
            axpy(apart[k, j], values[j], bound[k])
        _fill_limit(bound[k], (nearest[k], np.inf), len(least) + 2 * len(a) + k, (G, lower, upper))


@compiled
def _fill_equation(affine: tuple[Array, Array], root: float, wanted: float, equation: Array) -> None:
    """Fill an equation A · value = wanted for the coordinates, which is zero. affine: (A, offsets and slopes of the value)"""
    A, values = affine
    for j in range(len(A)):
        if A[j] != 0.0:
            axpy(root * A[j], values[j], equation)
    equation[0] = root * wanted - equation[0]


@compiled
def _fill_limit(value: Array, between: tuple[float, float], k: int, out: tuple[Array, Array, Array]) -> None:
    """Fill row k of the limits, from offset and slope of the limited value."""
    G, lower, upper = out
    for j in range(len(value) - 1):
        G[k, j] = value[1 + j]
    lower[k], upper[k] = between[0] - value[0], between[1] - value[0]
