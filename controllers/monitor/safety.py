"""Between the prediction and the motors: limits, the first-command guard, and what to do when there is no answer."""

from collections.abc import Callable
from functools import cached_property
from typing import Literal

import numpy as np

from controllers.command import LimitedBy
from controllers.config.loading import NonNegative, Settings
from controllers.robot.attitude import tilt
from idyn.errors import InputError
from idyn.jit.compiled import FLAG, INDICES, REAL, VECTOR, compiled
from idyn.jit.crossing import Filled, Lent, entrance
from idyn.model.robot import Robot
from idyn.model.tree import Limits
from idyn.types import Array, Kinematics, State

TORQUE, RATE = int(LimitedBy.TORQUE), int(LimitedBy.RATE)


class SafetySettings(Settings, frozen=True):
    """Limits on top of the robot's own.

    torque_rate: largest change of a torque [N·m/s], counted from the torque that was applied
    first_command_guard: time in which the first torques are blended in from those the motors had before, when the robot
        says what they were [s]
    fallback: without any finite answer 'hold' the last torque or 'damping'
    damping: torque per joint speed while damping [N·m·s/rad]
    max_tilt: of the base from upright [rad]; max_base_speed: angular [rad/s]; max_joint_speed: [rad/s]; beyond: fault
    """

    torque_rate: NonNegative = 1000.0
    first_command_guard: NonNegative = 0.25
    fallback: Literal["hold", "damping"] = "damping"
    damping: NonNegative = 0.1
    max_tilt: NonNegative = 1.0
    max_base_speed: NonNegative = 6.0
    max_joint_speed: NonNegative = 30.0


class Safety:
    """Applies `SafetySettings`; owns the last torque sent and the age of the command."""

    def __init__(self, settings: SafetySettings, robot: Robot, limits: Limits) -> None:
        self._settings = settings
        self._robot = robot
        self._limits = limits
        self._free = robot.floating
        self.reset()

    def reset(self) -> None:
        """The next torque is the first one."""
        self._last: Array | None = None
        self._first: Array | None = None
        self._begun = False
        self._age = 0.0

    @cached_property
    def _motion(self) -> Callable[..., tuple[int, float, float, float]]:
        return entrance(_motion, Lent(VECTOR, VECTOR, INDICES), FLAG)

    @cached_property
    def _limited(self) -> Callable[..., None]:
        return entrance(_limit, Lent(VECTOR, VECTOR, VECTOR), REAL, Filled(VECTOR), Filled(INDICES))

    @property
    def last(self) -> Array | None:
        """The last torque as `limit` gave it, before what gates come after [N·m] (na)."""
        return self._last

    def fault(self, state: State | Kinematics) -> str:
        """Why this state is beyond what may be controlled, '' when it is not."""
        s = self._settings
        joint, speed, tilted, spin = self._motion((state.q, state.v, self._robot.tree.a), self._free)
        if speed > s.max_joint_speed:
            return f"joint {self._robot.joint_names[joint]} at {speed:.1f} rad/s, limit {s.max_joint_speed:g}"
        if tilted > s.max_tilt:
            return f"base tilted by {tilted:.2f} rad, limit {s.max_tilt:g}"
        if spin > s.max_base_speed:
            return f"base turns at {spin:.1f} rad/s, limit {s.max_base_speed:g}"
        return ""

    def damping(self, state: State | Kinematics) -> Array:
        """−k q̇ within the torque limits [N·m] (na)."""
        tau = np.nan_to_num(-self._settings.damping * state.v[self._robot.tree.a])
        return np.clip(tau, -self._limits.tau_max, self._limits.tau_max)

    def sent(self, tau: Array) -> None:
        """A torque went out that `limit` did not give: the next rate limit counts from it."""
        self._last = tau

    def limit(self, tau: Array, dt: float, applied: Array | None) -> tuple[Array, Array]:
        """τ within torque and rate limits and blended in at first [N·m] (na), and the `LimitedBy` bits (na).

        applied: the torque the motors really had; without it the last one sent counts. Raises InputError for one of other
            joints.
        """
        if applied is not None and len(applied) != len(tau):
            raise InputError("tau_applied", f"expected the torques of {len(tau)} joints, got {len(applied)}")
        before = self._last if applied is None else applied
        if not self._begun:
            self._begun, self._first = True, applied
        self._age += dt
        guard = self._settings.first_command_guard
        if self._first is not None and self._age < guard:
            share = self._age / guard
            tau = (1 - share) * self._first + share * tau
        known = before is not None and dt > 0.0
        step = self._settings.torque_rate * dt if known else np.inf
        limited, bits = np.empty(len(tau)), np.zeros(len(tau), dtype=np.int64)
        self._limited((tau, self._limits.tau_max, tau if before is None else before), step, (limited,), (bits,))
        self._last = limited
        return limited, bits


@compiled
def _motion(measured: tuple[Array, Array, Array], free: bool) -> tuple[int, float, float, float]:
    """The fastest actuated joint (−1: there is none) and its speed [rad/s], the tilt of a free base [rad] and its angular speed
    [rad/s]. measured: q, v and which of its velocities are actuated"""
    (q, v, a), joint, speed = measured, -1, 0.0
    for k in range(len(a)):
        if joint < 0 or abs(v[a[k]]) > speed:
            joint, speed = k, abs(v[a[k]])
    if not free:
        return joint, speed, 0.0, 0.0
    return joint, speed, tilt(q[3:7]), np.sqrt(v[3] * v[3] + v[4] * v[4] + v[5] * v[5])


@compiled
def _limit(given: tuple[Array, Array, Array], step: float, torques: tuple[Array], why: tuple[Array]) -> None:
    """Fill τ clipped to ±tau_max and, within that, to `before` ± step; and `LimitedBy` bits, where there are any (na).

    given: τ, tau_max, before
    """
    (tau, tau_max, before), (limited,), (bits,) = given, torques, why
    for k in range(len(tau)):
        t = min(max(tau[k], -tau_max[k]), tau_max[k])
        if t != tau[k]:
            bits[k] |= TORQUE
        rated = min(max(t, before[k] - step), before[k] + step)
        rated = min(max(rated, -tau_max[k]), tau_max[k])  # what was before may have been beyond the limit
        if rated != t:
            bits[k] |= RATE
        limited[k] = rated
