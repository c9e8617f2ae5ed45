"""The path of a swinging foot: retargeted at any time, continuous in position, velocity and acceleration."""

import numpy as np

from idyn.types import Array

SETTLED = 0.06
"""Time before touchdown from which the target no longer changes [s]."""


class Swing:
    """Position and heading of a foot in the air.

    x, v, a: forward, left, up [m] and heading [rad], with their velocities and accelerations (4)
    """

    def __init__(self, start: Array, goal: Array, duration: float, height: float) -> None:
        """start, goal: position and heading (4); height: of the highest point above start and goal [m]"""
        self._duration, self._height, self._goal = duration, height, goal.copy()
        self._from, self._since = (start, np.zeros(4), np.zeros(4)), 0.0
        self._coefficients = quintic(*self._from, goal, duration)
        self.x, self.v, self.a = self._from

    @property
    def goal(self) -> Array:
        """Where the foot lands: position and heading (4)."""
        return self._goal

    def aim(self, goal: Array, t: float) -> None:
        """Land at another goal (4), from the time t since lift-off on [s]; ignored shortly before touchdown."""
        left = self._duration - t
        if left < SETTLED or np.abs(goal - self._goal).max() < 1e-6:
            return
        x, v, a = self._along(t)
        self._goal, self._since = goal.copy(), t
        self._coefficients = quintic(x, v, a, goal, left)

    def move(self, t: float) -> None:
        """Set x, v, a to those at the time t since lift-off [s]; at the end the foot rests at the goal."""
        x, v, a = self._along(min(t, self._duration))
        s, T, h = min(t / self._duration, 1.0), self._duration, self._height
        # 64 h s³ (1 − s)³, of height h at s = 1/2
        x[2] += 64.0 * h * (s * (1.0 - s)) ** 3
        v[2] += 192.0 * h * (s * (1.0 - s)) ** 2 * (1.0 - 2.0 * s) / T
        a[2] += 384.0 * h * s * (1.0 - s) * (1.0 - 5.0 * s * (1.0 - s)) / (T * T)
        self.x, self.v, self.a = x, v, a

    def _along(self, t: float) -> tuple[Array, Array, Array]:
        s, c = t - self._since, self._coefficients
        powers = s ** np.arange(6.0)
        k = np.arange(6.0)
        x = powers @ c
        v = (k[1:] * powers[:5]) @ c[1:]
        a = (k[2:] * k[1:5] * powers[:4]) @ c[2:]
        return x, v, a


def quintic(x: Array, v: Array, a: Array, goal: Array, duration: float) -> Array:
    """Return the coefficients of 1, s, …, s⁵ from (x, v, a) at s = 0 to rest at `goal` at s = duration (6, n)."""
    T = duration
    d, w, b = goal - x - T * v - 0.5 * T * T * a, -v - T * a, -a
    return np.array(
        [
            x,
            v,
            0.5 * a,
            (10.0 * d - 4.0 * T * w + 0.5 * T * T * b) / T**3,
            (-15.0 * d + 7.0 * T * w - T * T * b) / T**4,
            (6.0 * d - 3.0 * T * w + 0.5 * T * T * b) / T**5,
        ]
    )
