"""Safety of the torque: fault detection, torque and rate limits, blend-in of the first commands, fallback without a torque."""

import math
from typing import Annotated, Literal

import msgspec
import numpy as np

from controllers.command import LimitedBy
from controllers.config.loading import Settings
from controllers.config.tables import within
from controllers.robot.damping import damping_gains
from idyn.errors import InputError
from idyn.library.kernels import compiled, entry
from idyn.library.records import Indices, Vector, written
from idyn.model.robot import Robot
from idyn.model.so3 import tilt
from idyn.model.tree import Limits
from idyn.types import Array, Kinematics, State

TORQUE, RATE = int(LimitedBy.TORQUE), int(LimitedBy.RATE)


RATE_TIME = 7.3e-3  # time in which a torque may rise to its limit by default [s]: 1000 N·m/s for 7.3 N·m, as of `quadruped`
JUMP = "{joint} moved {value:.3g} rad further than its speed explains"  # message of a joint that cannot follow its last angle


class SafetySettings(Settings, frozen=True):
    """Limits in addition to those of the robot model."""

    # largest rate of change of a torque, relative to the torque that was applied last [N·m/s]; inf: no limit; None: tau_max /
    # `RATE_TIME` of each joint, no limit for joints without tau_max
    torque_rate: Annotated[float, within(0.001, np.inf, "N·m/s")] | None = None
    # time over which the first torques are blended in from the applied ones, if the robot reports those [s]
    first_command_guard: Annotated[float, within(0, 60, "s")] = 0.25
    # command if no finite torque was computed: 'hold': the last torque; 'damping': joint damping
    fallback: Literal["hold", "damping"] = "damping"
    # ticks without a finite torque before the robot is stopped; 50 with one make up for one without
    unanswered: Annotated[int, msgspec.Meta(ge=1)] = 50
    # damping torque per joint speed [N·m·s/rad]; less for joints with a small inertia, see `damping_gains`
    damping: Annotated[float, within(0, 1e4, "N·m·s/rad")] = 0.1
    max_tilt: Annotated[float, within(0.01, np.inf, "rad")] = 1.0  # largest tilt of the base from upright [rad]; beyond: fault
    # largest angular speed of the base [rad/s]; beyond: fault
    max_base_speed: Annotated[float, within(0.01, np.inf, "rad/s")] = 6.0
    # largest speed of an actuated joint [rad/s]; beyond: fault
    max_joint_speed: Annotated[float, within(0.01, np.inf, "rad/s")] = 30.0


def torque_rates(settings: SafetySettings, limits: Limits) -> Array:
    """Return the largest rates of the torques [N·m/s] (na)."""
    if settings.torque_rate is None:
        return limits.tau_max / RATE_TIME
    return np.full(len(limits.tau_max), settings.torque_rate)


def slowest_rate(limits: Limits) -> float:
    """Return the smallest default rate of a joint's torque [N·m/s]."""
    return float(torque_rates(SafetySettings(), limits).min(initial=np.inf))


class Safety:
    """Applies `SafetySettings`. Stores the last commanded torque, the last state and the time since the first command.

    last: last commanded torque, before the server's torque gate [N·m] (na); None before the first
    """

    def __init__(self, settings: SafetySettings, robot: Robot, limits: Limits, stance: Array, dt: float) -> None:
        """stance: configuration for which joints are damped (nq); dt: control period [s]"""
        self._settings = settings
        self._robot = robot
        self._damping = damping_gains(settings.damping, robot, stance, dt)
        self._limits, self._rates = limits, torque_rates(settings, limits)
        self._free = robot.floating
        self.reset()

    def reset(self) -> None:
        """Forget earlier commands; the next torque counts as the first."""
        self.last: Array | None = None
        self._first: Array | None = None
        self._begun = False
        self._age = 0.0
        self._seen: tuple[Array, Array] | None = None  # q, v of the last state without a jump
        self._jump, self._jumps = "", 0  # why the last state cannot follow it, and the number of such states in a row

    def fault(self, state: State | Kinematics, dt: float = 0.0) -> str:
        """Return why this state must not be controlled; '' if it is within the limits.

        dt: time since the last state [s]; 0: there is none
        A joint that moved by half a turn more than its speed explains is a fault, as when an encoder wraps. Two such states in
        a row are one until `reset`.
        """
        s, tree, now = self._settings, self._robot.tree, (state.q, state.v)
        before = now if self._seen is None or dt == 0.0 else self._seen
        joint, speed, tilted, spin, jumped, jump = _motion((*now, tree.a), self._free, (*before, tree.q_index), dt)
        if jump > math.pi:
            why = f"{JUMP.format(joint=self._robot.joint_names[jumped], value=jump)}; expected angles that count turns"
            self._jump, self._jumps = why, self._jumps + 1
        elif self._jumps < 2:
            self._seen, self._jump, self._jumps = (state.q.copy(), state.v.copy()), "", 0
        if self._jump:
            return self._jump
        if speed > s.max_joint_speed:
            return f"joint {self._robot.joint_names[joint]} at {speed:.1f} rad/s, limit {s.max_joint_speed:g}"
        if tilted > s.max_tilt:
            return f"base tilted by {tilted:.2f} rad, limit {s.max_tilt:g}"
        if spin > s.max_base_speed:
            return f"base turns at {spin:.1f} rad/s, limit {s.max_base_speed:g}"
        return ""

    def damping(self, state: State | Kinematics) -> Array:
        """Return −D q̇ within the torque limits [N·m] (na); NaN counts as 0."""
        tau = np.nan_to_num(-self._damping * state.v[self._robot.tree.a])
        return np.clip(tau, -self._limits.tau_max, self._limits.tau_max)

    def record(self, tau: Array) -> None:
        """Record a commanded torque that `limit` did not compute; the next rate limit is relative to it."""
        self.last = tau

    def limit(self, tau: Array, dt: float, applied: Array | None) -> tuple[Array, Array]:
        """Return τ within torque and rate limits, blended in at the start [N·m] (na), and the `LimitedBy` bits (na).

        applied: torque that the motors applied last [N·m] (na); None: the last commanded torque is used instead
        Raises InputError if `applied` has the wrong size.
        """
        if applied is not None and len(applied) != len(tau):
            raise InputError("tau_applied", f"expected the torques of {len(tau)} joints, got {len(applied)}")
        before = self.last if applied is None else applied
        if not self._begun:
            self._begun, self._first = True, applied
        self._age += dt
        # τ ← (1 − t/T) τ_first + (t/T) τ for t < T = first_command_guard
        guard = self._settings.first_command_guard
        if self._first is not None and self._age < guard:
            share = self._age / guard
            tau = (1 - share) * self._first + share * tau
        period = dt if before is not None and dt > 0.0 else np.inf
        limited, bits = np.empty(len(tau)), np.zeros(len(tau), dtype=np.int64)
        given = tau, self._limits.tau_max, self._rates, tau if before is None else before
        _limit(given, period, (limited,), (bits,))
        self.last = limited
        return limited, bits


@compiled
def unexplained(since: float, to: float, speeds: tuple[float, float], dt: float) -> float:
    """Return by how much further a joint moved than its speeds explain: |q − q₀| − max(|q̇₀|, |q̇|) dt."""
    return abs(to - since) - max(abs(speeds[0]), abs(speeds[1])) * dt


@entry((Vector, Vector, Indices), bool, (Vector, Vector, Indices), float)
def _motion(
    measured: tuple[Array, Array, Array], free: bool, before: tuple[Array, Array, Array], dt: float
) -> tuple[int, float, float, float, int, float]:
    """Return index (−1: no joints) and speed of the fastest actuated joint, tilt and angular speed of the base [rad, rad/s],
    index and size of the largest unexplained motion of a joint of one axis [rad].

    measured: q (nq), v (nv), indices of the actuated velocities (na)
    free: whether the base is free; tilt and angular speed are 0 otherwise
    before: q, v of a state before, indices of the actuated positions, −1 for joints of several axes (na); dt: time since [s]
    """
    (q, v, a), (q0, v0, at), joint, speed, jumped, jump = measured, before, -1, 0.0, 0, 0.0
    for k in range(len(a)):
        now = v[a[k]]
        if joint < 0 or abs(now) > speed:
            joint, speed = k, abs(now)
        if at[k] >= 0:
            further = unexplained(q0[at[k]], q[at[k]], (v0[a[k]], now), dt)
            if further > jump:
                jumped, jump = k, further
    if not free:
        return joint, speed, 0.0, 0.0, jumped, jump
    return joint, speed, tilt(q[3:7]), np.sqrt(v[3] * v[3] + v[4] * v[4] + v[5] * v[5]), jumped, jump


@entry((Vector, Vector, Vector, Vector), float, written((Vector,)), written((Indices,)))
def _limit(given: tuple[Array, Array, Array, Array], period: float, torques: tuple[Array], why: tuple[Array]) -> None:
    """Fill τ, clipped to ±tau_max and to `before` ± rate · period, and the `LimitedBy` bits (na). ±tau_max takes precedence.

    given: (τ, tau_max, rate, before), each (na)
    period: since the last command [s]; inf: no limit of the rate
    """
    (tau, tau_max, rate, before), (limited,), (bits,) = given, torques, why
    for k in range(len(tau)):
        t = min(max(tau[k], -tau_max[k]), tau_max[k])
        if t != tau[k]:
            bits[k] |= TORQUE
        step = rate[k] * period
        rated = min(max(t, before[k] - step), before[k] + step)
        rated = min(max(rated, -tau_max[k]), tau_max[k])  # `before` may exceed the limit
        if rated != t:
            bits[k] |= RATE
        limited[k] = rated
