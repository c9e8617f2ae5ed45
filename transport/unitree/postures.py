"""Motions between postures, by targets for the feedback of the motors."""

import numpy as np

from idyn.types import Array
from transport.unitree.low_level import MotorCommand
from transport.unitree.low_state import LowState

KP, KD = 60.0, 3.0
"""Gains of the motors between postures [N·m/rad, N·m·s/rad]."""

SOFT_S = 0.3
"""Time over which the gains rise at the start of a motion [s]."""

SPEED = 1.5
"""Mean speed of the joint that moves farthest [rad/s]."""

LEAST_S = 1.0
"""Shortest time of a motion [s]."""


class PostureMotion:
    """A motion from a measured posture to another one, which it then holds.

    seconds: time of the motion [s]
    """

    def __init__(self, start: LowState, goal: Array, *, soft: bool) -> None:
        """goal: angles [rad] (na); soft: let the gains rise from 0"""
        self._start, self._goal, self._began, self._soft = start.q, goal, start.at, soft
        self.seconds = max(LEAST_S, float(np.abs(goal - start.q).max()) / SPEED)

    def command(self, now: float) -> MotorCommand:
        """Return the command at a time of the monotonic clock [s]."""
        passed = now - self._began
        s = min(max(passed / self.seconds, 0.0), 1.0)
        share, rate = s**3 * (10.0 - 15.0 * s + 6.0 * s * s), 30.0 * (s * (1.0 - s)) ** 2 / self.seconds
        gain = min(passed / SOFT_S, 1.0) if self._soft else 1.0
        way, ones = self._goal - self._start, np.ones_like(self._goal)
        return MotorCommand(q=self._start + share * way, v=rate * way, tau=0.0 * ones, kp=gain * KP * ones, kd=KD * ones)

    def is_over(self, now: float) -> bool:
        """Return whether the motion has ended."""
        return now - self._began >= self.seconds
