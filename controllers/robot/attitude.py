"""Attitude of a free body from its unit quaternion xyzw in the world frame, q[3:7] of a floating base."""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.types import Array


@compiled
def up(quaternion: Array) -> Array:
    """Return the world's z axis in the body frame (3)."""
    x, y, z, w = quaternion
    return np.array([2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)])


@compiled
def tilt(quaternion: Array) -> float:
    """Return the angle between the z axes of body and world [rad]."""
    x, y = quaternion[0], quaternion[1]
    upright = 1.0 - 2.0 * (x * x + y * y)
    return np.arccos(min(max(upright, -1.0), 1.0))


@compiled
def yaw(quaternion: Array) -> float:
    """Return the heading of the body's x axis in the horizontal plane [rad]."""
    x, y, z, w = quaternion
    return np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


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
