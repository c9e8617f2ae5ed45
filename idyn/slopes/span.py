"""Directions of contact impulses in orthogonal coordinates, those that move the robot first."""

from typing import NamedTuple

from idyn.jit.compiled import compiled
from idyn.slopes.dense import axpy, split
from idyn.solvers.vectors import fill_rows
from idyn.types import Array


class Span(NamedTuple):
    """Columns of a basis in orthogonal coordinates.

    factor: Yᵀ B = L Q₁ᵀ, L transposed, its rows in the order `order` (m, nu); rank: of L
    moves: B Q (3n, m): the first `rank` columns move the robot, the others are internal forces
    """

    factor: Array
    order: Array
    moves: Array
    rank: int


@compiled
def fill_span(lines: Array, Y: Array, factor: Array, order: Array, Q: Array, moves: Array) -> int:
    """Fill the arrays of a `Span` for columns (contact, S, T, N). Return its rank."""
    fill_rows(factor, 0.0)
    for c in range(len(factor)):
        for r in range(3):
            if lines[c, 1 + r] != 0.0:
                axpy(lines[c, 1 + r], Y[3 * int(lines[c, 0]) + r], factor[c])
    rank = split(factor, order, Q)
    fill_rows(moves, 0.0)
    for c in range(len(factor)):
        for r in range(3):
            if lines[c, 1 + r] != 0.0:
                axpy(lines[c, 1 + r], Q[c], moves[3 * int(lines[c, 0]) + r])
    return rank
