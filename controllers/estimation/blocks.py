"""Kernels of rotations, and of blocks of three rows and columns of a covariance."""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.jit.stack import stack_array
from idyn.types import Array

SMALL = 1e-9
"""Rotation angles below this have no axis [rad]."""


@compiled
def fill_rotation(E: Array, turn: Array) -> None:
    """Fill exp(turn×)."""
    x, y, z = turn[0], turn[1], turn[2]
    angle = np.sqrt(x * x + y * y + z * z)
    s, c = (1.0, 0.5) if angle < SMALL else (np.sin(angle) / angle, (1.0 - np.cos(angle)) / angle**2)
    E[0, 0], E[0, 1], E[0, 2] = 1.0 - c * (y * y + z * z), c * x * y - s * z, c * x * z + s * y
    E[1, 0], E[1, 1], E[1, 2] = c * x * y + s * z, 1.0 - c * (x * x + z * z), c * y * z - s * x
    E[2, 0], E[2, 1], E[2, 2] = c * x * z - s * y, c * y * z + s * x, 1.0 - c * (x * x + y * y)


@compiled
def turn_world(E: Array, R: Array) -> None:
    """R ← E R."""
    for j in range(3):
        a, b, c = R[0, j], R[1, j], R[2, j]
        for i in range(3):
            R[i, j] = E[i, 0] * a + E[i, 1] * b + E[i, 2] * c


@compiled
def turn_body(R: Array, turn: Array) -> None:
    """R ← R exp(turn×)."""
    E = stack_array((3, 3))
    fill_rotation(E, turn)
    for i in range(3):
        a, b, c = R[i, 0], R[i, 1], R[i, 2]
        for j in range(3):
            R[i, j] = a * E[0, j] + b * E[1, j] + c * E[2, j]


@compiled
def add(P: Array, target: int, source: int, B: Array, rows: bool) -> None:
    """Add B times the source's rows of P to the target's rows; or the same for columns."""
    for j in range(len(P)):
        if rows:
            a, b, c = P[source, j], P[source + 1, j], P[source + 2, j]
            for i in range(3):
                P[target + i, j] += B[i, 0] * a + B[i, 1] * b + B[i, 2] * c
        else:
            a, b, c = P[j, source], P[j, source + 1], P[j, source + 2]
            for i in range(3):
                P[j, target + i] += B[i, 0] * a + B[i, 1] * b + B[i, 2] * c


@compiled
def fill_scaled(B: Array, factor: float) -> None:
    for i in range(3):
        for j in range(3):
            B[i, j] = factor if i == j else 0.0


@compiled
def fill_cross(B: Array, a: Array, factor: float) -> None:
    """B = factor · a×."""
    B[0, 0] = B[1, 1] = B[2, 2] = 0.0
    B[0, 1], B[0, 2], B[1, 2] = -factor * a[2], factor * a[1], -factor * a[0]
    B[1, 0], B[2, 0], B[2, 1] = factor * a[2], -factor * a[1], factor * a[0]


@compiled
def fill_turned(B: Array, R: Array, factor: float) -> None:
    """B = factor · R."""
    for i in range(3):
        for j in range(3):
            B[i, j] = factor * R[i, j]


@compiled
def fill_crossed(B: Array, a: Array, R: Array, factor: float) -> None:
    """B = factor · a× R."""
    for j in range(3):
        x, y, z = R[0, j], R[1, j], R[2, j]
        B[0, j], B[1, j] = factor * (a[1] * z - a[2] * y), factor * (a[2] * x - a[0] * z)
        B[2, j] = factor * (a[0] * y - a[1] * x)


@compiled
def put_cross(column: Array, first: int, a: Array, b: Array) -> None:
    """Write a × b from `first` on."""
    column[first] = a[1] * b[2] - a[2] * b[1]
    column[first + 1] = a[2] * b[0] - a[0] * b[2]
    column[first + 2] = a[0] * b[1] - a[1] * b[0]
