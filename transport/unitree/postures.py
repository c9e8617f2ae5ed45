"""Motions between postures."""

from typing import NamedTuple

import numpy as np

from idyn.types import Array
from transport.unitree.low_level import MotorCommand

KD = 3.0
"""Damping of the motors between postures, and at the end [N·m·s/rad]."""

SOFT_S = 0.3
"""Time over which the gains rise at the start of a motion [s]."""

SPEED = 1.5
"""Mean speed of the joint that moves farthest [rad/s]."""

LEAST_S = 1.0
"""Shortest time of a motion [s]."""


class Wanted(NamedTuple):
    """Angles [rad], speeds [rad/s] and accelerations [rad/s²] of the joints (na)."""

    q: Array
    v: Array
    a: Array


class PostureMotion:
    """A motion from one posture to another one, which it then holds. It starts and ends at rest.

    seconds: time of the motion [s]
    """

    def __init__(self, start: Array, began: float, goal: Array, *, kp: float, soft: bool = False, speed: float = SPEED) -> None:
        """start, goal: angles [rad] (na); began: by the robot's clock [s]; kp: of the motors [N·m/rad]
        soft: let the gains rise from 0; speed: see `SPEED`
        """
        self._start, self._way, self._began, self._kp, self._soft = start, goal - start, began, kp, soft
        self.seconds = max(LEAST_S, float(np.abs(self._way).max()) / speed)

    def wanted(self, now: float) -> Wanted:
        """Return the posture at a time of the robot's clock [s]."""
        T = self.seconds
        s = min(max((now - self._began) / T, 0.0), 1.0)
        share, rate = s**3 * (10.0 - 15.0 * s + 6.0 * s * s), 30.0 * (s * (1.0 - s)) ** 2 / T
        return Wanted(self._start + share * self._way, rate * self._way, 60.0 * s * (1 - s) * (1 - 2 * s) / T**2 * self._way)

    def command(self, now: float) -> MotorCommand:
        """Return the command at a time of the robot's clock [s]: targets for the motors' own feedback."""
        q, v, _ = self.wanted(now)
        gain = min((now - self._began) / SOFT_S, 1.0) if self._soft else 1.0
        ones = np.ones_like(q)
        return MotorCommand(q=q, v=v, tau=0.0 * ones, kp=gain * self._kp * ones, kd=KD * ones)
