"""The estimator: pose and velocity of a free base, and the feet that touch, from an IMU, joint sensors and torques."""

from math import inf

import numpy as np

from controllers.estimation.filter import begin, observe_attitude, observe_feet, observe_rest, predict_motion
from controllers.estimation.memory import (
    GYRO_BIAS,
    EstimatorSettings,
    EstimatorState,
    fill_forces,
    is_at_rest,
    place_feet,
    touch,
)
from idyn.errors import ConfigError, InputError
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Matrix, Vector, written
from idyn.model.robot import Robot
from idyn.model.so3 import mounting
from idyn.solvers.linalg import dot
from idyn.types import Array, Record, State


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


Arrays = tuple[Array, ...]

LONGEST = 0.1  # after a longer time without a measurement the estimate begins anew [s]
UNIT = 0.01  # largest deviation of the length of a quaternion from 1


class Measurement(Record, frozen=True):
    """What the own sensors of a robot say at one instant."""

    t: float  # time [s]
    angles: Array  # of the actuated joints [rad] (na)
    speeds: Array  # of the actuated joints [rad/s] (na)
    torques: Array  # of the actuated joints, which acted since the last measurement [N·m] (na)
    attitude: Array  # of the IMU, quaternion x, y, z, w (4)
    gyro: Array  # rate in the axes of the IMU [rad/s] (3)
    accelerometer: Array  # mean specific force since the last measurement [m/s²] (3)


class Estimate(Record, frozen=True):
    """The estimated state."""

    state: State  # q (nq) and v (nv) of the robot
    touching: Array  # whether each foot touches (n)
    probability: Array  # how likely that is (n)
    slipped: Array  # whether it slipped just now (n)
    force: Array  # contact forces in the world [N] (n, 3)
    deviations: Array  # standard deviations of attitude [rad], velocity [m/s] and position [m] of the IMU, in the world (9)


class Estimator:
    """Estimates the state of one robot, measurement by measurement."""

    def __init__(self, settings: EstimatorSettings, robot: Robot) -> None:
        """Raises ConfigError for a robot without a free base on feet, or with joints of several axes."""
        if not (robot.floating and len(robot.spheres.keys) and robot.one_axis_each):
            raise ConfigError("estimator", "expected a robot with a free base, feet, and joints of one axis each")
        if settings.release >= settings.touch:
            raise ConfigError("estimator.release", f"expected a number < touch ({settings.touch}), got {settings.release}")
        self._robot, self._state = robot, EstimatorState(settings, robot)
        self._rotation, self._unmount = mounting(settings.imu_quat, "estimator.imu_quat")
        self._along = np.array_equal(self._rotation, np.eye(3))  # the IMU's axes are the base's
        self._last: float | None = None

    def in_base(self, attitude: Array, gyro: Array, accelerometer: Array) -> tuple[Array, Array, Array]:
        """Return readings of the IMU, see `Measurement`, as those of one whose axes are the base's."""
        if self._along:
            return attitude, gyro, accelerometer
        return self._unmount @ attitude, self._rotation @ gyro, self._rotation @ accelerometer

    def reset(self) -> None:
        """Forget all measurements: the next one is the first, of a robot at rest."""
        self._last = None

    def update(self, given: Measurement) -> Estimate:
        """Return the estimate at a measurement. The first one, and one after a gap, counts as that of a robot at rest above the
        origin, with heading 0.

        Raises InputError for arrays of a wrong size, numbers that are not finite, or a time that does not increase.
        """
        x, robot, n = self._state, self._robot, len(self._state.feet)
        dt = 0.0 if self._last is None else given.t - self._last
        anew = self._last is None or dt > LONGEST
        if not 0.0 < dt < inf and not (anew and abs(given.t) < inf):
            raise InputError("t", f"expected a finite time after {self._last}, got {given.t}")
        joints, (q, v) = (given.angles, given.speeds, given.torques), (robot.neutral(), np.zeros(robot.nv))
        try:
            imu = self.in_base(given.attitude, given.gyro, given.accelerometer)
            sound = advance(x, imu, joints, (q, v), dt, anew)
        except (TypeError, ValueError):  # arrays of other types or sizes
            sound = False
        if not sound:
            self._refuse(given)
        self._last = given.t
        terms = robot.terms(q, v)
        arrays = terms.M.T, terms.h, terms.axes, v, terms.placements
        places, (touching, probability) = np.empty((n, 3)), np.empty((2, n))
        final, speeds, deviations = q.copy(), v.copy(), np.empty(GYRO_BIAS)
        out = places, touching, probability, final, speeds, deviations
        correct(x, arrays, joints, out, dt, anew)
        return Estimate(
            state=State(q=final, v=speeds),
            touching=touching > 0.0,
            probability=probability,
            slipped=x.slipped > 0.0,
            force=x.force.copy(),
            deviations=deviations,
        )

    def _refuse(self, given: Measurement) -> None:
        """Raise InputError for the first field that is wrong."""
        na = self._robot.na
        sizes = {"angles": na, "speeds": na, "torques": na, "attitude": 4, "gyro": 3, "accelerometer": 3}
        for name, size in sizes.items():
            value = np.asarray(getattr(given, name))
            if value.dtype != np.float64 or value.shape != (size,) or not np.isfinite(value).all():
                raise InputError(name, f"expected {size} finite numbers (float64), got {value}")
        raise InputError("attitude", f"expected a unit quaternion, got the length {np.linalg.norm(given.attitude):.3g}")


@entry(EstimatorState, (Vector, Vector, Vector), (Vector, Vector, Vector), written((Vector, Vector)), float, bool)
def advance(x: EstimatorState, imu: Arrays, joints: Arrays, out: Arrays, dt: float, anew: bool) -> bool:
    """Move on to the next measurement, or begin with it. Return False, and change nothing, for malformed data.

    imu: (attitude (4), rate (3), specific force (3)); joints: (angles, speeds, torques), each (na)
    out: (q, v) with the base at the origin, to be filled (nq), (nv)
    """
    (attitude, gyro, accelerometer), (angles, speeds, torques), na = imu, joints, len(x.a)
    if not (len(attitude) == 4 and len(gyro) == len(accelerometer) == 3):
        return False
    if not (len(angles) == len(speeds) == len(torques) == na):
        return False
    total = dot(gyro, gyro) + dot(accelerometer, accelerometer)
    total += dot(angles, angles) + dot(speeds, speeds) + dot(torques, torques)
    length, R = np.sqrt(dot(attitude, attitude)), stack_array((3, 3))
    if not (np.isfinite(total) and abs(length - 1.0) < UNIT):
        return False
    fill_attitude(R, attitude, length)
    if anew:
        forward = np.sqrt(R[0, 0] ** 2 + R[1, 0] ** 2)
        x.north[0], x.north[1] = (R[0, 0] / forward, R[1, 0] / forward) if forward > 0.0 else (1.0, 0.0)
    face_north(x, R)
    if anew:
        begin(x, R, gyro)
    else:
        predict_motion(x, gyro, accelerometer, dt)
        observe_attitude(x, R)
    for k in range(na):
        out[0][x.places[k]], out[1][x.a[k]] = angles[k], speeds[k]
    fill_base(x, out[0], out[1])
    return True


@entry(
    EstimatorState,
    (Matrix, Vector, Matrix, Vector, Matrix),
    (Vector, Vector, Vector),
    written((Matrix, *[Vector] * 5)),
    float,
    bool,
)
def correct(x: EstimatorState, terms: Arrays, joints: Arrays, out: Arrays, dt: float, anew: bool) -> None:
    """Use the legs.

    terms: (M, h, axes, v, placements) with the base at the origin; joints: see `advance`
    out: to be filled: places of the feet (n, 3), whether they touch (n), how likely that is (n), q (nq), v (nv), standard
        deviations of attitude, velocity and position (9)
    """
    (M, h, axes, v, placements), (places, touching, probability, q, speeds, deviations) = terms, out
    place_feet(x, axes, placements, v, places)
    fill_forces(x, (M, h, axes, v), places, joints[2], dt, anew)
    if anew:
        put_on_ground(x, places)
    touch(x, touching, probability)
    observe_feet(x, places, touching, dt)
    if is_at_rest(x, touching, v):
        observe_rest(x)
    fill_base(x, q, speeds)
    for r in range(3):
        q[r] = x.p[r] - dot(x.R[r], x.imu)
    for i in range(len(deviations)):
        deviations[i] = np.sqrt(x.P[i, i])
