"""Rotations and cross products. A quaternion x, y, z, w of unit length is the attitude of a body, q[3:7] of a floating base."""

import numpy as np

from idyn.errors import ConfigError
from idyn.library.kernels import compiled, entry
from idyn.library.records import Vector
from idyn.types import Array

Three = tuple[float, float, float]


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
