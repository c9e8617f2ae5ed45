"""Motions of the joints from one posture to the next, at rest at their ends."""

from collections.abc import Callable

import numpy as np
from scipy.interpolate import CubicSpline

from controllers.planners.trajectory import smooth_step
from controllers.robot.kinematics import angles_for_base_shift
from idyn.model.robot import Robot
from idyn.types import Array, Record

PEAK = 15.0 / 8.0
"""Largest speed of a quintic, relative to its mean speed."""

KNOTS = 41
"""Inverse-kinematics solutions along the rise."""

Sample = tuple[Array, Array, Array]
"""Angles [rad], speeds [rad/s] and accelerations [rad/s²] of the joints (na)."""


class Motion(Record, frozen=True):
    """A motion of the joints.

    start, goal: angles [rad] (na); speeds: at the start [rad/s] (na)
    begin, lasts: time of the start, duration [s]
    path: θ(x, n): n-th derivative of the angles between start, x = 0, and goal, x = 1; None: a straight line
    """

    start: Array
    goal: Array
    speeds: Array
    begin: float
    lasts: float
    path: Callable[[float, int], Array] | None = None

    def at(self, t: float) -> Sample:
        """Return the motion at time t [s]; before it begins as at its start."""
        x, dx, ddx = smooth_step(max(t - self.begin, 0.0), self.lasts)
        if self.path is None:
            along = self.goal - self.start
            q, v, a = self.start + x * along, dx * along, ddx * along
        else:
            first = self.path(x, 1)
            q, v, a = self.path(x, 0), dx * first, dx * dx * self.path(x, 2) + ddx * first
        h, dh, ddh = _fading(min(max(t - self.begin, 0.0) / self.lasts, 1.0))
        return q + self.lasts * h * self.speeds, v + dh * self.speeds, a + ddh / self.lasts * self.speeds


def _fading(s: float) -> tuple[float, float, float]:
    """Return the quintic with slope 1 at s = 0 that is 0 at both ends and flat at s = 1, and its derivatives."""
    return s - 6 * s**3 + 8 * s**4 - 3 * s**5, 1 - 18 * s**2 + 32 * s**3 - 15 * s**4, -36 * s + 96 * s**2 - 60 * s**3


def duration(start: Array, goal: Array, speed: float) -> float:
    """Return the time in which the fastest joint moves from start to goal with this largest speed [rad/s], ≥ 0.1 s."""
    return max(PEAK * float(np.abs(goal - start).max()) / speed, 0.1)


def rise(robot: Robot, stance: Array, depth: float) -> Callable[[float, int], Array]:
    """Return θ(x, n) of a base that rises from `depth` [m] below the stance, x = 0, to the stance, x = 1, over standing feet.

    Raises ConfigError if the legs do not fold as far.
    """
    share = np.linspace(0.0, 1.0, KNOTS)
    down = np.array([0.0, 0.0, -depth])
    angles = [angles_for_base_shift(robot, stance, (1.0 - x) * down, "reference.depth") for x in share]
    spline = CubicSpline(share, np.array(angles))
    return lambda x, n: np.asarray(spline(x, n))
