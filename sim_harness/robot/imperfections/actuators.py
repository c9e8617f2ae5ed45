"""From commanded to applied torque: motors saturate, lag and count in steps."""

import numpy as np

from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.robot.imperfections.settings import DriveSettings


class Actuators:
    """The motors of one run; owns what they gave last."""

    def __init__(self, settings: DriveSettings, robot: Robot, dt: float) -> None:
        """dt: of the ticks [s]"""
        self._limit = np.inf if np.isinf(settings.strength) else settings.strength * robot.limits.tau_max
        self._share = 1.0 - float(np.exp(-2.0 * np.pi * settings.bandwidth * dt))
        self._quantum = settings.quantum
        self._lagged: Array | None = None

    def apply(self, command: Array) -> Array:
        """The torque during the next tick for a commanded one [N·m] (na). The first command is followed at once."""
        tau = np.clip(command, -self._limit, self._limit)
        if self._lagged is not None and self._share < 1.0:
            tau = self._lagged + self._share * (tau - self._lagged)
        self._lagged = tau
        return self._quantum * np.round(tau / self._quantum) if self._quantum > 0.0 else tau
