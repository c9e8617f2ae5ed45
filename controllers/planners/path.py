"""Where to go: waypoints, or a constant command, into a planar base velocity (forward, left, turn)."""

import math

import numpy as np

from controllers.config.loading import NonNegative, Settings
from idyn.errors import ConfigError
from idyn.jit.compiled import compiled
from idyn.jit.records import ArrayRecord, Indices, Matrix, Vector
from idyn.types import Array

NEXT, DONE = 0, 1
"""Where in a path's progress is what."""


class PathSettings(Settings, frozen=True):
    """What the base is to do in the plane.

    waypoints: visited one after the other [m] (n, 2), world frame; without any, `velocity` is kept
    repeat: begin again at the first waypoint; otherwise stop at the last
    speed: forward, on the way to a waypoint [m/s]; turn: fastest turn [rad/s]
    tolerance: a waypoint nearer than this is reached [m]
    heading: the base goes forward only when the waypoint is less than this off its heading, else it turns in place [rad]
    turn_gain: turn per heading error [1/s]
    velocity: forward [m/s], left [m/s], turn [rad/s], when there are no waypoints
    duration: of that command [s]
    acceleration: with which velocities change [m/s²]; turn_acceleration: [rad/s²]
    """

    waypoints: tuple[tuple[float, float], ...] = ()
    repeat: bool = False
    speed: NonNegative = 0.2
    turn: NonNegative = 0.5
    tolerance: float = 0.03
    heading: float = 0.7
    turn_gain: NonNegative = 3.0
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    duration: NonNegative = math.inf
    acceleration: float = 0.5
    turn_acceleration: float = 2.0


class Path(ArrayRecord):
    """Follows `PathSettings`, whose names its fields have.

    waypoints (n, 2), velocity (3); facing: cosine of `heading`; accelerations: forward, left, turn (3); progress: number of the
    next waypoint, and whether there is no way left to go (2)
    """

    waypoints: Matrix
    velocity: Vector
    accelerations: Vector
    progress: Indices
    repeat: bool
    speed: float
    turn: float
    tolerance: float
    facing: float
    turn_gain: float
    duration: float

    def __init__(self, settings: PathSettings, where: str = "reference.path") -> None:
        """Raises ConfigError for values that make no path."""
        for field in ("tolerance", "heading", "acceleration", "turn_acceleration"):
            if not getattr(settings, field) > 0:
                raise ConfigError(f"{where}.{field}", f"expected > 0, got {getattr(settings, field)}")
        for field, value in (("waypoints", settings.waypoints), ("velocity", settings.velocity)):
            if not np.isfinite(np.array(value)).all():
                raise ConfigError(f"{where}.{field}", f"expected finite numbers, got {value}")
        if not (math.isfinite(settings.heading) and math.cos(settings.heading) < 1.0):
            raise ConfigError(f"{where}.heading", f"expected a finite angle, not 0 nor whole turns, got {settings.heading}")
        waypoints, velocity = np.array(settings.waypoints, np.float64).reshape(-1, 2), np.array(settings.velocity, np.float64)
        s, accelerations = settings, np.array([settings.acceleration, settings.acceleration, settings.turn_acceleration])
        self.put(waypoints=waypoints, velocity=velocity, accelerations=accelerations, progress=np.zeros(2, dtype=np.int64))
        self.put(repeat=s.repeat, duration=s.duration, facing=math.cos(s.heading), turn_gain=s.turn_gain)
        self.put(speed=s.speed, turn=s.turn, tolerance=s.tolerance)

    def reset(self) -> None:
        """Begin with the first waypoint."""
        self.progress[:] = 0

    @property
    def next(self) -> int:
        """Number of the next waypoint."""
        return int(self.progress[NEXT])

    @property
    def done(self) -> bool:
        """Whether there is no way left to go."""
        return bool(self.progress[DONE])

    def command(self, t: float, x: float, y: float, yaw: float) -> Array:
        """Base velocity forward, left [m/s] and turn [rad/s] (3) at time t [s] with the base at (x, y) [m], heading yaw."""
        return np.array(command(self.fields, t, (x, y, yaw)))


TYPE = Path.TYPE


@compiled
def command(path, t, pose):
    """As `Path.command`, for the base's x, y, yaw."""
    n, progress, stop = len(path.waypoints), path.progress, (0.0, 0.0, 0.0)
    if n == 0:
        progress[DONE] = t >= path.duration
        return stop if progress[DONE] else (path.velocity[0], path.velocity[1], path.velocity[2])
    for _ in range(n):  # once round at most: all of them may be near
        if progress[DONE] or _way_left(path, pose) >= path.tolerance:
            break
        _advance(path)
    if progress[DONE]:
        return stop
    goal = path.waypoints[progress[NEXT]]
    error = np.arctan2(goal[1] - pose[1], goal[0] - pose[0]) - pose[2]
    error -= 2.0 * np.pi * np.round(error / (2.0 * np.pi))
    turn = min(max(path.turn_gain * error, -path.turn), path.turn)
    ahead, speed = max(0.0, (np.cos(error) - path.facing) / (1.0 - path.facing)), path.speed
    if progress[NEXT] + 1 == n and not path.repeat:
        speed = min(speed, np.sqrt(2.0 * path.accelerations[0] * _way_left(path, pose)))  # so as to stop there
    return speed * ahead, 0.0, turn


@compiled
def _way_left(path, pose):
    goal = path.waypoints[path.progress[NEXT]]
    return np.hypot(goal[0] - pose[0], goal[1] - pose[1])


@compiled
def _advance(path):
    progress = path.progress
    last = progress[NEXT] + 1 == len(path.waypoints)
    progress[DONE] = last and not path.repeat
    progress[NEXT] = 0 if last else progress[NEXT] + 1
