"""How a free body is turned, by its unit quaternion xyzw in the world, q[3:7] of a floating base."""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.types import Array


@compiled
def up(quaternion: Array) -> Array:
    """The world's z axis in the body's frame (3)."""
    x, y, z, w = quaternion
    return np.array([2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)])


@compiled
def tilt(quaternion: Array) -> float:
    """Angle between the body's z axis and the world's [rad]."""
    x, y = quaternion[0], quaternion[1]
    upright = 1.0 - 2.0 * (x * x + y * y)
    return np.arccos(min(max(upright, -1.0), 1.0))


@compiled
def yaw(quaternion: Array) -> float:
    """Heading of the body's x axis in the plane [rad]."""
    x, y, z, w = quaternion
    return np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def rotation(quaternion: Array) -> Array:
    """From the body's frame to the world's (3, 3)."""
    x, y, z, w = quaternion.tolist()
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
