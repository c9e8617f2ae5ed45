"""Between the prediction and the motors: limits, the first-command guard, and what to do when there is no answer."""

from typing import Literal

import numpy as np

from controllers.command import LimitedBy
from controllers.config import Settings
from idyn.robot import Limits, Robot
from idyn.types import Array, State


class SafetySettings(Settings, frozen=True):
    """Limits on top of the robot's own.

    torque_rate: largest change of a torque [N·m/s], counted from the torque that was applied
    first_command_guard: time in which the first torques are blended in from those the motors had before, when the robot
        says what they were [s]
    fallback: without any finite answer 'hold' the last torque or 'damping'
    damping: torque per joint speed while damping [N·m·s/rad]
    max_tilt: of the base from upright [rad]; max_base_speed: angular [rad/s]; max_joint_speed: [rad/s]; beyond: fault
    """

    torque_rate: float = 1000.0
    first_command_guard: float = 0.25
    fallback: Literal["hold", "damping"] = "damping"
    damping: float = 0.1
    max_tilt: float = 1.0
    max_base_speed: float = 6.0
    max_joint_speed: float = 30.0


class Safety:
    """Applies `SafetySettings`; owns the last torque sent and the age of the command."""

    def __init__(self, settings: SafetySettings, robot: Robot, limits: Limits) -> None:
        self._settings = settings
        self._robot = robot
        self._limits = limits
        self.reset()

    def reset(self) -> None:
        """The next torque is the first one."""
        self._last: Array | None = None
        self._first: Array | None = None
        self._age = 0.0

    @property
    def last(self) -> Array | None:
        """The last torque that went out [N·m] (na)."""
        return self._last

    def fault(self, state: State) -> str:
        """Why this state is beyond what may be controlled, '' when it is not."""
        s = self._settings
        speeds = np.abs(state.v[self._robot.a])
        worst = int(np.argmax(speeds)) if len(speeds) else 0
        if len(speeds) and speeds[worst] > s.max_joint_speed:
            return f"joint {self._robot.joint_names[worst]} at {speeds[worst]:.1f} rad/s, limit {s.max_joint_speed:g}"
        if self._robot.base != "free_flyer":
            return ""
        tilt = float(np.arccos(np.clip(1 - 2 * (state.q[3] ** 2 + state.q[4] ** 2), -1.0, 1.0)))
        if tilt > s.max_tilt:
            return f"base tilted by {tilt:.2f} rad, limit {s.max_tilt:g}"
        spin = float(np.sqrt(state.v[3:6] @ state.v[3:6]))
        if spin > s.max_base_speed:
            return f"base turns at {spin:.1f} rad/s, limit {s.max_base_speed:g}"
        return ""

    def damping(self, state: State) -> Array:
        """−k q̇ within the torque limits [N·m] (na)."""
        tau = -self._settings.damping * state.v[self._robot.a]
        return np.clip(tau, -self._limits.tau_max, self._limits.tau_max)

    def limit(self, tau: Array, dt: float, applied: Array | None) -> tuple[Array, Array]:
        """τ within torque and rate limits and blended in at first [N·m] (na), and the `LimitedBy` bits (na).

        applied: the torque the motors really had; without it the last one sent counts.
        """
        before = self._last if applied is None else applied
        if self._last is None:
            self._first = applied
        self._age += dt
        guard = self._settings.first_command_guard
        if self._first is not None and self._age < guard:
            share = self._age / guard
            tau = (1 - share) * self._first + share * tau
        limited = np.clip(tau, -self._limits.tau_max, self._limits.tau_max)
        bits = (limited != tau) * int(LimitedBy.TORQUE)
        if before is not None and dt > 0.0:
            step = self._settings.torque_rate * dt
            rated = np.clip(limited, before - step, before + step)
            bits = bits | (rated != limited) * int(LimitedBy.RATE)
            limited = rated
        self._last = limited
        return limited, bits
