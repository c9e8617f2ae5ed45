"""Motors: saturation, first-order lag and quantisation between commanded and applied torque."""

import numpy as np

from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.robot.imperfections.settings import DriveSettings


class Actuators:
    """The motors of one run, with the state of the lag."""

    def __init__(self, settings: DriveSettings, robot: Robot, dt: float) -> None:
        """dt: period of the ticks [s]"""
        self._limit = np.inf if np.isinf(settings.strength) else settings.strength * robot.limits.tau_max
        self._share = 1.0 - float(np.exp(-2.0 * np.pi * settings.bandwidth * dt))
        self._quantum = settings.quantum
        self._lagged: Array | None = None

    def apply(self, command: Array) -> Array:
        """Return the applied torque of the next tick for a command [N·m] (na). The first command is applied without lag."""
        tau = np.clip(command, -self._limit, self._limit)
        if self._lagged is not None and self._share < 1.0:
            tau = self._lagged + self._share * (tau - self._lagged)
        self._lagged = tau
        return self._quantum * np.round(tau / self._quantum) if self._quantum > 0.0 else tau
