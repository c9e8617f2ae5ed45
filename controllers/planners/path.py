"""Where to go: waypoints, or a constant command, into a planar base velocity (forward, left, turn)."""

import math

import numpy as np

from controllers.config import NonNegative, Settings
from idyn.errors import ConfigError
from idyn.types import Array


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


class Path:
    """Follows `PathSettings`; owns the number of the next waypoint."""

    def __init__(self, settings: PathSettings, where: str = "reference.path") -> None:
        for field in ("tolerance", "heading", "acceleration", "turn_acceleration"):
            if not getattr(settings, field) > 0:
                raise ConfigError(f"{where}.{field}", f"expected > 0, got {getattr(settings, field)}")
        for field, value in (("waypoints", settings.waypoints), ("velocity", settings.velocity)):
            if not np.isfinite(np.array(value)).all():
                raise ConfigError(f"{where}.{field}", f"expected finite numbers, got {value}")
        self._settings = settings
        self._velocity = np.array(settings.velocity)
        self._stop = np.zeros(3)
        self.acceleration = np.array([settings.acceleration, settings.acceleration, settings.turn_acceleration])
        self.reset()

    def reset(self) -> None:
        """Begin with the first waypoint."""
        self.next = 0
        self.done = False

    def command(self, t: float, x: float, y: float, yaw: float) -> Array:
        """Base velocity forward, left [m/s] and turn [rad/s] (3) at time t [s] with the base at (x, y) [m], heading yaw."""
        s = self._settings
        if not s.waypoints:
            self.done = t >= s.duration
            return self._stop if self.done else self._velocity
        for _ in s.waypoints:  # once round at most: all of them may be near
            if self.done or math.dist((x, y), s.waypoints[self.next]) >= s.tolerance:
                break
            self._advance()
        if self.done:
            return self._stop
        goal = s.waypoints[self.next]
        error = math.remainder(math.atan2(goal[1] - y, goal[0] - x) - yaw, math.tau)
        turn = min(max(s.turn_gain * error, -s.turn), s.turn)
        ahead = max(0.0, (math.cos(error) - math.cos(s.heading)) / (1.0 - math.cos(s.heading)))
        speed = s.speed
        if self.next + 1 == len(s.waypoints) and not s.repeat:
            speed = min(speed, math.sqrt(2.0 * s.acceleration * math.dist((x, y), goal)))  # so as to stop there
        return np.array([speed * ahead, 0.0, turn])

    def _advance(self) -> None:
        last = self.next + 1 == len(self._settings.waypoints)
        self.done = last and not self._settings.repeat
        self.next = 0 if last else self.next + 1
