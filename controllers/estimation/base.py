"""Kernels between the filter's estimate and the state of the robot's base."""

import numpy as np

from controllers.estimation.memory import EstimatorState
from idyn.jit.compiled import compiled
from idyn.jit.stack import stack_array
from idyn.solvers.vectors import dot
from idyn.types import Array


@compiled
def fill_attitude(R: Array, quaternion: Array, length: float) -> None:
    """Fill the rotation matrix of a quaternion x, y, z, w of this length."""
    x, y, z, w = quaternion[0] / length, quaternion[1] / length, quaternion[2] / length, quaternion[3] / length
    R[0, 0], R[0, 1], R[0, 2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)
    R[1, 0], R[1, 1], R[1, 2] = 2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)
    R[2, 0], R[2, 1], R[2, 2] = 2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)


@compiled
def face_north(x: EstimatorState, R: Array) -> None:
    """Turn an attitude about the vertical, so that the heading at the start is 0."""
    for c in range(3):
        a, b = R[0, c], R[1, c]
        R[0, c], R[1, c] = x.north[0] * a + x.north[1] * b, x.north[0] * b - x.north[1] * a


@compiled
def fill_base(x: EstimatorState, q: Array, v: Array) -> None:
    """Fill the attitude in q, and in v the velocity of the base, linear, then angular, in its axes."""
    R = x.R
    # quaternion by its largest component
    squares = stack_array(4)
    squares[0], squares[1] = 1.0 + R[0, 0] - R[1, 1] - R[2, 2], 1.0 - R[0, 0] + R[1, 1] - R[2, 2]
    squares[2], squares[3] = 1.0 - R[0, 0] - R[1, 1] + R[2, 2], 1.0 + R[0, 0] + R[1, 1] + R[2, 2]
    i = int(np.argmax(squares))
    size = 2.0 * np.sqrt(squares[i])
    if i == 3:
        q[3], q[4], q[5] = (R[2, 1] - R[1, 2]) / size, (R[0, 2] - R[2, 0]) / size, (R[1, 0] - R[0, 1]) / size
        q[6] = squares[3] / size
    else:
        j, k = (i + 1) % 3, (i + 2) % 3
        q[3 + i], q[3 + j], q[3 + k] = squares[i] / size, (R[i, j] + R[j, i]) / size, (R[i, k] + R[k, i]) / size
        q[6] = (R[k, j] - R[j, k]) / size
    for c in range(3):
        v[3 + c] = x.last_gyro[c] - x.gyro_bias[c]
    for c in range(3):
        j, k = (c + 1) % 3, (c + 2) % 3
        v[c] = R[0, c] * x.v[0] + R[1, c] * x.v[1] + R[2, c] * x.v[2] - (v[3 + j] * x.imu[k] - v[3 + k] * x.imu[j])


@compiled
def put_on_ground(x: EstimatorState, places: Array) -> None:
    """Set the height at the start: the lowest foot touches the ground at height 0. places: of the feet, see `place_feet`"""
    lowest = np.inf
    for i in range(len(places)):
        lowest = min(lowest, places[i, 2] - x.radii[i])
    x.p[2] = -lowest
    for c in range(2):
        x.p[c] = dot(x.R[c], x.imu)  # the base above the origin
