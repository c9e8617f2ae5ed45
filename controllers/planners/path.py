"""Where to go: waypoints, or a constant command, into a planar base velocity (forward, left, turn)."""

import math

import numpy as np

from controllers.config.loading import NonNegative, Settings
from idyn.errors import ConfigError
from idyn.jit.compiled import compiled
from idyn.jit.records import ArrayRecord, Indices, Matrix, Vector

Triple = tuple[float, float, float]

NEXT, DONE = 0, 1
"""Where in a path's progress is what."""

FACING = math.cos(0.7)
"""Cosine of the heading error beyond which the base turns in place; it goes forward only when it faces the waypoint."""

TURN_GAIN = 3.0
"""Turn per heading error [1/s]."""

TURN_ACCELERATION = 2.0
"""With which the turn changes [rad/s²]."""


class PathSettings(Settings, frozen=True):
    """What the base is to do in the plane.

    waypoints: visited one after the other [m] (n, 2), world frame; without any, `velocity` is kept
    repeat: begin again at the first waypoint; otherwise stop at the last
    speed: forward, on the way to a waypoint [m/s]; turn: fastest turn [rad/s]
    tolerance: a waypoint nearer than this is reached [m]
    velocity: forward [m/s], left [m/s], turn [rad/s], when there are no waypoints
    duration: of that command [s]
    acceleration: with which velocities change [m/s²]
    """

    waypoints: tuple[tuple[float, float], ...] = ()
    repeat: bool = False
    speed: NonNegative = 0.2
    turn: NonNegative = 0.5
    tolerance: float = 0.03
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    duration: NonNegative = math.inf
    acceleration: float = 0.5


class Path(ArrayRecord):
    """Follows `PathSettings`, whose names its fields have.

    waypoints (n, 2), velocity (3); accelerations: forward, left, turn (3); progress: number of the next waypoint, and whether
    there is no way left to go (2)
    """

    waypoints: Matrix
    velocity: Vector
    accelerations: Vector
    progress: Indices
    repeat: bool
    speed: float
    turn: float
    tolerance: float
    duration: float

    def __init__(self, settings: PathSettings, where: str = "reference.path") -> None:
        """Raises ConfigError for values that make no path."""
        s = settings
        for field in ("tolerance", "acceleration"):
            if not getattr(s, field) > 0:
                raise ConfigError(f"{where}.{field}", f"expected > 0, got {getattr(s, field)}")
        for field in ("waypoints", "velocity"):
            if not np.isfinite(np.array(getattr(s, field))).all():
                raise ConfigError(f"{where}.{field}", f"expected finite numbers, got {getattr(s, field)}")
        self.put(waypoints=np.array(s.waypoints, np.float64).reshape(-1, 2), velocity=np.array(s.velocity, np.float64))
        self.put(accelerations=np.array([s.acceleration, s.acceleration, TURN_ACCELERATION]), progress=np.zeros(2, np.int64))
        self.put(repeat=s.repeat, speed=s.speed, turn=s.turn, tolerance=s.tolerance, duration=s.duration)

    def reset(self) -> None:
        """Begin with the first waypoint."""
        self.progress[:] = 0


@compiled
def command(path: Path, t: float, pose: Triple) -> Triple:
    """Base velocity forward, left [m/s] and turn [rad/s] at time t [s] with the base at x, y [m] and heading yaw."""
    n, progress, stop = len(path.waypoints), path.progress, (0.0, 0.0, 0.0)
    if n == 0:
        progress[DONE] = t >= path.duration
        return stop if progress[DONE] else (path.velocity[0], path.velocity[1], path.velocity[2])
    # on to the first waypoint that is not reached yet; once round at most: all of them may be near
    for _ in range(n):
        if progress[DONE] or _way_left(path, pose) >= path.tolerance:
            break
        _advance(path)
    if progress[DONE]:
        return stop
    # turn by the heading error, wrapped to ±π
    goal = path.waypoints[progress[NEXT]]
    error = np.arctan2(goal[1] - pose[1], goal[0] - pose[0]) - pose[2]
    error -= 2.0 * np.pi * np.round(error / (2.0 * np.pi))
    turn = min(max(TURN_GAIN * error, -path.turn), path.turn)
    # forward the faster the better the base faces the goal, and v² ≤ 2 a d before the last one
    ahead, speed = max(0.0, (np.cos(error) - FACING) / (1.0 - FACING)), path.speed
    if progress[NEXT] + 1 == n and not path.repeat:
        speed = min(speed, np.sqrt(2.0 * path.accelerations[0] * _way_left(path, pose)))
    return speed * ahead, 0.0, turn


@compiled
def _way_left(path: Path, pose: Triple) -> float:
    """Distance to the next waypoint [m]."""
    goal = path.waypoints[path.progress[NEXT]]
    return np.hypot(goal[0] - pose[0], goal[1] - pose[1])


@compiled
def _advance(path: Path) -> None:
    """The next waypoint is the one after, the first one again, or none."""
    progress = path.progress
    last = progress[NEXT] + 1 == len(path.waypoints)
    progress[DONE] = last and not path.repeat
    progress[NEXT] = 0 if last else progress[NEXT] + 1
