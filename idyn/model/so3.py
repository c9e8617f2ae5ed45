"""Rotations and cross products. A quaternion x, y, z, w of unit length is the attitude of a body, q[3:7] of a floating base."""

from math import atan2

import numpy as np

from idyn.errors import ConfigError
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Matrix, Vector
from idyn.types import Array

Three = tuple[float, float, float]

HALF_TURN = 1e-6
"""Below this sine of the angle a rotation is none, or a half turn."""

ORTHONORMAL = 1e-6
"""Largest entry of R Rᵀ − 1 of a rotation matrix."""


@compiled
def cross(x: Array | Three, y: Array | Three) -> Three:
    """Return x × y."""
    return x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]


def skew(x: Array) -> Array:
    """Return the matrix of x × · (3, 3)."""
    return np.array([[0.0, -x[2], x[1]], [x[2], 0.0, -x[0]], [-x[1], x[0], 0.0]])


@entry(Vector)
def up(quaternion: Array) -> Array:
    """Return the world's z axis in the body frame (3)."""
    x, y, z, w = quaternion
    return np.array([2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)])


@entry(Vector)
def tilt(quaternion: Array) -> float:
    """Return the angle between the z axes of body and world [rad]."""
    x, y = quaternion[0], quaternion[1]
    upright = 1.0 - 2.0 * (x * x + y * y)
    return np.arccos(min(max(upright, -1.0), 1.0))


@entry(Vector)
def yaw(quaternion: Array) -> float:
    """Return the heading of the body's x axis in the horizontal plane [rad]."""
    x, y, z, w = quaternion
    return np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def mounting(quaternion: tuple[float, ...], where: str) -> tuple[Array, Array]:
    """Return the rotation from the axes of a sensor to those of its body (3, 3), and the orthogonal matrix (4, 4) that turns
    the attitude of the sensor into that of the body.

    quaternion: attitude of the sensor in the body, xyzw; where: path in the ConfigError that is raised unless it has length 1
    """
    x, y, z, w = quaternion
    if not abs(x * x + y * y + z * z + w * w - 1.0) < 1e-3:
        raise ConfigError(where, f"expected a rotation: a quaternion x, y, z, w of length 1, got {list(quaternion)}")
    x, y, z, w = unit = np.array(quaternion) / np.linalg.norm(quaternion)
    return rotation(unit), np.array([[w, -z, y, -x], [z, w, -x, -y], [-y, x, w, -z], [x, y, z, w]])


def rotation(quaternion: Array) -> Array:
    """Return the rotation matrix from body to world frame (3, 3)."""
    x, y, z, w = quaternion.tolist()
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


@entry(Matrix)
def is_rotation(R: Array) -> bool:
    """Return whether a matrix (3, 3) is a rotation: R Rᵀ = 1 and det R > 0."""
    det = 0.0
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        det += R[0, i] * (R[1, j] * R[2, k] - R[1, k] * R[2, j])
        for c in range(3):
            product = R[i, 0] * R[c, 0] + R[i, 1] * R[c, 1] + R[i, 2] * R[c, 2]
            if not abs(product - (1.0 if i == c else 0.0)) < ORTHONORMAL:
                return False
    return det > 0.0


@compiled
def rotation_error(target: Array, R: Array, out: Array) -> None:
    """Fill the rotation vector of R_target Rᵀ in the world [rad] (3), of length ≤ π. target: R_target (3, 3)"""
    D, trace = stack_array((3, 3)), -1.0
    for i in range(3):
        for c in range(3):
            D[i, c] = 0.0
            for k in range(3):
                D[i, c] += target[i, k] * R[c, k]
        trace += D[i, i]
    square = 0.0
    for c in range(3):
        i, j = (c + 1) % 3, (c + 2) % 3
        out[c] = 0.5 * (D[j, i] - D[i, j])
        square += out[c] * out[c]
    sine, cosine = np.sqrt(square), 0.5 * trace
    angle = atan2(sine, cosine)
    if sine > HALF_TURN:
        for c in range(3):
            out[c] *= angle / sine
    elif cosine < 0.0:
        # near π: column of the axis n with the longest part, from D + Dᵀ = 2 (cos + (1 − cos) n nᵀ)
        longest = 0
        for c in range(1, 3):
            if D[c, c] > D[longest, longest]:
                longest = c
        length, along = 0.0, 0.0
        for c in range(3):
            D[c, c] += 1.0
            part = D[c, longest] + D[longest, c]
            length += part * part
            along += out[c] * (D[c, longest] + D[longest, c])
        for c in range(3):
            out[c] = (angle if along >= 0.0 else -angle) * (D[c, longest] + D[longest, c]) / np.sqrt(length)
