"""Safety of the torque: fault detection, torque and rate limits, blend-in of the first commands, fallback without a torque."""

import math
from typing import Annotated, Literal

import msgspec
import numpy as np

from controllers.command import LimitedBy
from controllers.config.loading import Settings
from controllers.config.numbers import Numbers
from controllers.config.tables import within
from controllers.feedback import MOTION, Motion, Pid, pull
from controllers.robot.damping import damping_gains
from idyn.errors import InputError
from idyn.library.kernels import compiled, entry
from idyn.library.records import ArrayRecord, Indices, Vector, written
from idyn.model.robot import Robot
from idyn.model.so3 import tilt
from idyn.model.tree import Limits
from idyn.solvers.linalg import copy, fill
from idyn.terms.dynamics import NOTHING
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


class SafetyNumbers(Numbers, settings=SafetySettings):
    """Numbers of the settings."""


class Last(ArrayRecord):
    """The last state and the last command."""

    q: Vector  # of the last state without a jump, NaN without one (nq)
    v: Vector  # (nv)
    a: Indices  # of the actuated velocities (na)
    q_index: Indices  # of the actuated positions, −1 for joints of several axes (na)
    tau: Vector  # last commanded torque [N·m] (na)
    first: Vector  # torque applied before the first command [N·m] (na)
    angles: Vector  # of the actuated joints, as measured [rad] (na)
    speeds: Vector  # [rad/s] (na)
    tau_max: Vector  # torque limits [N·m] (na)
    rates: Vector  # largest rates of the torques [N·m/s] (na)
    age: float  # time since the first command [s]
    floating: bool  # whether the base is free
    begun: bool  # whether there was a first command
    blends: bool  # whether torques are blended in
    commanded: bool  # whether there is a last command
    jumps: int  # number of states in a row that cannot follow the last one
    limits: SafetyNumbers

    def __init__(self, settings: SafetySettings, robot: Robot, limits: Limits) -> None:
        self.put(**{name: np.zeros(robot.na) for name in ("tau", "first", "angles", "speeds")}, q=np.zeros(robot.nq))
        self.put(v=np.zeros(robot.nv), a=robot.tree.a, q_index=robot.tree.q_index, floating=robot.floating)
        self.put(tau_max=limits.tau_max, rates=torque_rates(settings, limits), limits=SafetyNumbers(settings))


Arrays = tuple[Array, Array, Array]
Beside = tuple[Pid, Motion, int, Array]
WITHOUT: Beside = Pid((0.0, 0.0, 0.0, 0.0), np.zeros((1, 0))), (NOTHING,) * 4, 0, NOTHING


class Safety:
    """Applies `SafetySettings`. Stores the last commanded torque, the last state and the time since the first command.

    last: last commanded torque, before the server's torque gate [N·m] (na); None before the first
    """

    def __init__(self, settings: SafetySettings, robot: Robot, limits: Limits, stance: Array, dt: float) -> None:
        """stance: configuration for which joints are damped (nq); dt: control period [s]"""
        self._settings = settings
        self._robot = robot
        self._damping = damping_gains(settings.damping, robot, stance, dt)
        self._limits = limits
        self.record = Last(settings, robot, limits)
        self.reset()

    def reset(self) -> None:
        """Forget earlier commands; the next torque counts as the first."""
        self.last: Array | None = None
        self._jump = ""  # why the last state cannot follow the one before
        self.record.q.fill(np.nan)
        self.record.put(age=0.0, begun=False, blends=False, commanded=False, jumps=0)

    def fault(self, why: int, joint: int, value: float) -> str:
        """Return why a state must not be controlled; '' if it is within the limits. Arguments: results of `fault_of`

        A joint that moved by half a turn more than its speed explains is a fault, as when an encoder wraps. Two such states in
        a row are one until `reset`.
        """
        s, names = self._settings, self._robot.joint_names
        if why == JUMPS and joint >= 0:
            self._jump = f"{JUMP.format(joint=names[joint], value=value)}; expected angles that count turns"
        if why in (WITHIN, JUMPS):
            return self._jump if why else ""
        if why == FAST:
            return f"joint {names[joint]} at {value:.1f} rad/s, limit {s.max_joint_speed:g}"
        if why == TILTED:
            return f"base tilted by {value:.2f} rad, limit {s.max_tilt:g}"
        return f"base turns at {value:.1f} rad/s, limit {s.max_base_speed:g}"

    def damping(self, state: State | Kinematics) -> Array:
        """Return −D q̇ within the torque limits [N·m] (na); NaN counts as 0."""
        tau = np.nan_to_num(-self._damping * state.v[self._robot.tree.a])
        return np.clip(tau, -self._limits.tau_max, self._limits.tau_max)

    def send(self, tau: Array) -> None:
        """Record a commanded torque that `limit` did not compute; the next rate limit is relative to it."""
        self.last = tau
        self.record.tau[:] = tau
        self.record.put(commanded=True)

    def limit(
        self, tau: Array, dt: float, applied: Array | None, beside: Beside = WITHOUT, feedback: Array | None = None
    ) -> tuple[Array, Array]:
        """Return τ and what is added to it within torque and rate limits, blended in at the start [N·m] (na), and the
        `LimitedBy` bits (na).

        applied: torque that the motors applied last [N·m] (na); None: the last commanded torque is used instead
        beside: PID on torque with the arguments `motion` and `late` of `pull`, and a torque (na or 0: none); both are added
        feedback: output: what is added [N·m] (na)
        Raises InputError if `applied` has the wrong size.
        """
        if applied is not None and len(applied) != len(tau):
            raise InputError("tau_applied", f"expected the torques of {len(tau)} joints, got {len(applied)}")
        pid, motion, late, more = beside
        limited, bits = np.empty(len(tau)), np.empty(len(tau), np.int64)
        given = tau, NOTHING if applied is None else applied, more
        out = np.empty(len(tau)) if feedback is None else feedback, limited, bits
        _limit((self.record, pid), given, motion, out, dt, late)
        self.last = limited
        return limited, bits


@compiled
def unexplained(since: float, to: float, speeds: tuple[float, float], dt: float) -> float:
    """Return by how much further a joint moved than its speeds explain: |q − q₀| − max(|q̇₀|, |q̇|) dt."""
    return abs(to - since) - max(abs(speeds[0]), abs(speeds[1])) * dt


WITHIN, JUMPS, FAST, TILTED, TURNS = range(5)
"""Why a state must not be controlled."""


@compiled
def fault_of(last: Last, q: Array, v: Array, dt: float) -> tuple[int, int, float]:
    """Return why a state must not be controlled, the joint (−1: none) and its speed or motion, or tilt or angular speed of the
    base [rad, rad/s]. Fill angles and speeds of the joints of one axis.

    q, v: measured; dt: time since the last state [s], 0: there is none
    """
    fastest, speed, jumped, jump, limits = -1, 0.0, -1, math.pi, last.limits
    for k in range(len(last.a)):
        i, at = last.a[k], last.q_index[k]
        now = last.speeds[k] = v[i]
        if fastest < 0 or abs(now) > speed:
            fastest, speed = k, abs(now)
        if at >= 0:
            last.angles[k] = q[at]
            further = unexplained(last.q[at], q[at], (last.v[i], now), dt)
            if further > jump and dt != 0.0:
                jumped, jump = k, further
    if jumped >= 0:
        last.jumps += 1
    elif last.jumps < 2:
        last.jumps = 0
        copy(q, last.q)
        copy(v, last.v)
    if last.jumps > 0:
        return JUMPS, jumped, jump
    if speed > limits.max_joint_speed:
        return FAST, fastest, speed
    if last.floating and tilt(q[3:7]) > limits.max_tilt:
        return TILTED, -1, tilt(q[3:7])
    spin = math.sqrt(v[3] * v[3] + v[4] * v[4] + v[5] * v[5]) if last.floating else 0.0
    return (TURNS if spin > limits.max_base_speed else WITHIN), -1, spin


@entry((Last, Pid), (Vector, Vector, Vector), MOTION, written((Vector, Vector, Indices)), float, int)
def _limit(of: tuple[Last, Pid], given: Arrays, motion: Motion, out: Arrays, dt: float, late: int) -> None:
    """Fill feedback, torques, clipped to ±tau_max and to the torque before ± rate · dt, and the `LimitedBy` bits (na). ±tau_max
    takes precedence.

    given: (τ (na), torque applied last (na or 0: unknown), torque that is added to the feedback (na or 0: none))
    motion, late: see `pull`, of no size without feedback; out: (feedback, torques, bits); dt: since the last command [s]
    """
    (last, pid), (tau, applied, more), (added, limited, bits) = of, given, out
    fill(added, 0.0)
    if len(motion[0]):
        pull(pid, motion, dt, late, added)
    for k in range(len(more)):
        added[k] += more[k]
    if not last.begun:
        last.begun, last.blends = True, len(applied) > 0
        copy(applied, last.first[: len(applied)])
    last.age += dt
    guard = last.limits.first_command_guard
    share = last.age / guard if last.blends and last.age < guard else 1.0
    limits_rate = dt > 0.0 and (len(applied) > 0 or last.commanded)
    for k in range(len(tau)):
        t, most = tau[k] + added[k], last.tau_max[k]
        bits[k] = 0
        # τ ← (1 − t/T) τ_first + (t/T) τ for t < T = first_command_guard
        if share < 1.0:
            t = (1.0 - share) * last.first[k] + share * t
        clipped = min(max(t, -most), most)
        if clipped != t:
            bits[k] |= TORQUE
        limited[k] = clipped
        if limits_rate:
            before, step = applied[k] if len(applied) else last.tau[k], last.rates[k] * dt
            rated = min(max(clipped, before - step), before + step)
            limited[k] = min(max(rated, -most), most)  # `before` may exceed the limit
            if limited[k] != clipped:
                bits[k] |= RATE
        last.tau[k] = limited[k]
    last.commanded = True
