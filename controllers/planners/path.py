"""Path following: computes a planar base velocity (forward, left, turn) from waypoints or from a constant command."""

import math

import numpy as np

from controllers.config.loading import NonNegative, Settings
from controllers.config.numbers import Numbers
from idyn.errors import ConfigError
from idyn.library.kernels import compiled, entry
from idyn.library.records import ArrayRecord, Indices, Matrix, Vector
from idyn.solvers.linalg import fill
from idyn.types import Array

Triple = tuple[float, float, float]

NEXT, DONE = 0, 1  # indices into `Path.progress`
FACING = math.cos(0.7)  # heading error beyond which the base turns in place. Below it, the speed grows with the alignment
TURN_GAIN = 3.0  # turn rate per heading error [1/s]

TRIM_GAIN, TRIM_LEAST, TRIM_SHARE = 1.0, 0.05, 0.25
"""Correction of the planned velocity: integral gain [1/s], bound at rest [m/s, rad/s], and its increase per wanted velocity."""

TURN_ACCELERATION = 2.0  # largest change of the turn rate [rad/s²]


class PathSettings(Settings, frozen=True):
    """Planar motion of the base."""

    # visited in this order, world frame [m] (n, 2); without waypoints, `velocity` is commanded
    waypoints: tuple[tuple[float, float], ...] = ()
    repeat: bool = False  # start again at the first waypoint; false: stop at the last
    speed: NonNegative = 0.2  # forward speed towards a waypoint [m/s]
    turn: NonNegative = 0.5  # largest turn rate [rad/s]
    tolerance: float = 0.03  # a waypoint nearer than this is reached [m]
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)  # forward [m/s], left [m/s], turn [rad/s], without waypoints
    duration: NonNegative = math.inf  # duration of that command [s]
    acceleration: float = 0.5  # largest change of the velocity [m/s²]


class PathNumbers(Numbers, settings=PathSettings):
    """Numbers of the settings."""


class Path(ArrayRecord):
    """Path follower."""

    waypoints: Matrix  # of the settings (n, 2)
    steering: Vector  # whether `velocity` of `steer` replaces the path (1 or 0), then that velocity (4)
    trim: Vector  # correction of the planned velocity, see `corrected` (3)
    velocity: Vector  # of the settings (3)
    accelerations: Vector  # limits forward, left, turn (3)
    progress: Indices  # index of the next waypoint, and whether the path is finished (2)
    settings: PathNumbers

    def __init__(self, settings: PathSettings, where: str = "reference.path") -> None:
        """Raises ConfigError for invalid settings."""
        s = settings
        for field in ("tolerance", "acceleration"):
            if not getattr(s, field) > 0:
                raise ConfigError(f"{where}.{field}", f"expected > 0, got {getattr(s, field)}")
        for field in ("waypoints", "velocity"):
            if not np.isfinite(np.array(getattr(s, field))).all():
                raise ConfigError(f"{where}.{field}", f"expected finite numbers, got {getattr(s, field)}")
        self.put(waypoints=np.array(s.waypoints, np.float64).reshape(-1, 2), velocity=np.array(s.velocity, np.float64))
        self.put(accelerations=np.array([s.acceleration, s.acceleration, TURN_ACCELERATION]), progress=np.zeros(2, np.int64))
        self.put(steering=np.zeros(4), trim=np.zeros(3), settings=PathNumbers(settings))

    def steer(self, velocity: Array) -> None:
        """Follow this velocity instead of the waypoints and `velocity`, until `reset`: forward, left, turn (3)."""
        self.steering[0], self.steering[1:] = 1.0, velocity

    def reset(self) -> None:
        """Start again at the first waypoint."""
        self.progress[:], self.steering[:], self.trim[:] = 0, 0.0, 0.0


def turned(yaw: float) -> Array:
    """Return the rotation by an angle in the plane (2, 2)."""
    c, s = np.cos(yaw), np.sin(yaw)
    return np.array([[c, -s], [s, c]])


@entry(Path, float, (float,) * 3)
def command(path: Path, t: float, pose: Triple) -> Triple:
    """Return the base velocity forward, left [m/s] and turn [rad/s] at time t [s].

    pose: x, y [m] and yaw [rad] of the base
    """
    n, progress, stop, steering = len(path.waypoints), path.progress, (0.0, 0.0, 0.0), path.steering
    if steering[0] > 0.0:
        progress[DONE] = steering[1] == 0.0 and steering[2] == 0.0 and steering[3] == 0.0
        return steering[1], steering[2], steering[3]
    if n == 0:
        progress[DONE] = t >= path.settings.duration
        return stop if progress[DONE] else (path.velocity[0], path.velocity[1], path.velocity[2])
    # skip waypoints that are reached, each at most once: all of them may be near
    for _ in range(n):
        if progress[DONE] or _distance(path, pose) >= path.settings.tolerance:
            break
        _advance(path)
    if progress[DONE]:
        return stop
    # turn by the heading error, wrapped to ±π
    goal = path.waypoints[progress[NEXT]]
    error = np.arctan2(goal[1] - pose[1], goal[0] - pose[0]) - pose[2]
    error -= 2.0 * np.pi * np.round(error / (2.0 * np.pi))
    turn = min(max(TURN_GAIN * error, -path.settings.turn), path.settings.turn)
    # forward speed by the alignment with the goal; v² ≤ 2 a d before the last waypoint
    ahead, speed = max(0.0, (np.cos(error) - FACING) / (1.0 - FACING)), path.settings.speed
    if progress[NEXT] + 1 == n and not path.settings.repeat:
        speed = min(speed, np.sqrt(2.0 * path.accelerations[0] * _distance(path, pose)))
    return speed * ahead, 0.0, turn


@entry(Path, (float,) * 3, Vector, Vector, float)
def corrected(path: Path, wanted: Triple, planned: Array, v: Array, dt: float) -> Triple:
    """Return the velocity to plan so that the base comes to move at `wanted`: integral feedback of the difference between the
    expected and the measured velocity. None towards waypoints, which the measured base approaches anyway.

    planned: velocity of the plan, which includes the present correction (3); v: measured velocity (nv); dt: control period [s]
    """
    trim = path.trim
    if path.progress[DONE] or (len(path.waypoints) > 0 and path.steering[0] == 0.0):
        fill(trim, 0.0)
        return wanted
    for k in range(3):
        missing = planned[k] - trim[k] - v[k if k < 2 else 5]
        bound = TRIM_LEAST + TRIM_SHARE * abs(wanted[k])
        trim[k] = min(max(trim[k] + TRIM_GAIN * dt * missing, -bound), bound)
    return wanted[0] + trim[0], wanted[1] + trim[1], wanted[2] + trim[2]


@compiled
def _distance(path: Path, pose: Triple) -> float:
    """Return the distance to the next waypoint [m]."""
    goal = path.waypoints[path.progress[NEXT]]
    return np.hypot(goal[0] - pose[0], goal[1] - pose[1])


@compiled
def _advance(path: Path) -> None:
    """Select the following waypoint. After the last one: the first with `repeat`, else the path is finished."""
    progress = path.progress
    last = progress[NEXT] + 1 == len(path.waypoints)
    progress[DONE] = last and not path.settings.repeat
    progress[NEXT] = 0 if last else progress[NEXT] + 1
