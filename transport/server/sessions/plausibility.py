"""Whether a state can follow the one before: jumps that no robot makes are sensors, estimators or wires.

A single such state is passed over, the one before stands in for it; a second one in a row is a fault.
"""

import math

import numpy as np

from idyn.compiled import compiled
from idyn.robot import Robot
from idyn.types import Array, State
from transport.server.settings import PlausibilitySettings

NAMES = (
    ("joint_position", "{joint} moved {value:.3g} rad further than its speed explains"),
    ("joint_speed", "the speed of {joint} changed by {value:.3g} rad/s"),
    ("base_position", "the base moved {value:.3g} m further than its speed explains"),
    ("base_attitude", "the base turned {value:.3g} rad further than its rate explains"),
    ("base_velocity", "the velocity of the base changed by {value:.3g} m/s"),
    ("base_rate", "the rate of the base changed by {value:.3g} rad/s"),
)
"""Settings, and what is said where they are exceeded."""

OF_SPEEDS = np.array([False, True, False, False, True, True])


class Plausibility:
    """Judges one client's states; owns the last one that was believed."""

    def __init__(self, settings: PlausibilitySettings, robot: Robot) -> None:
        self._robot, self._free = robot, robot.floating
        once = np.array([getattr(settings, name) for name, _ in NAMES])
        self._most = once, np.where(OF_SPEEDS, 2.0 * once, once)
        self.reset()

    def reset(self) -> None:
        """The next state is a first one: it is believed."""
        self.last: State | None = None
        self._t_ns = 0
        self._doubts = False

    def judge(self, state: State, t_ns: int) -> str:
        """Why the state cannot follow the last one that was believed, '' when it can; then it is that one. t_ns: its time"""
        most, self._doubts = self._most[self._doubts], True
        if self.last is not None:
            robot, dt = self._robot, (t_ns - self._t_ns) * 1e-9
            moved = robot.joint_error(robot.joint_angles(self.last.q), robot.joint_angles(state.q))
            jumps = np.zeros(len(NAMES))
            joints = _joint_jumps(state.v, self.last.v, moved, robot.tree.a, dt, jumps)
            if self._free:
                _base_jumps(state.q, state.v, self.last.q, self.last.v, dt, jumps)
            if (k := _first_beyond(jumps, most)) < len(NAMES):
                joint = robot.joint_names[joints[k]] if k < len(joints) else ""
                return f"{NAMES[k][1].format(joint=joint, value=jumps[k])} in {1e3 * dt:.3g} ms"
        self.last, self._t_ns, self._doubts = state, t_ns, False
        return ""


@compiled
def _joint_jumps(v: Array, v0: Array, moved: Array, a: Array, dt: float, jumps: Array) -> tuple[int, int]:
    """Fills the first two of `jumps`, zero before, in the order of `NAMES`: the largest changes of joints; which joints made
    them. moved: the joints' way [rad] (na)"""
    furthest = fastest = 0
    for k in range(len(a)):
        speed, speed0 = v[a[k]], v0[a[k]]
        change = abs(speed - speed0)
        if not change <= jumps[1]:
            jumps[1], fastest = change, k
        further = abs(moved[k]) - max(abs(speed), abs(speed0)) * dt
        if further > jumps[0]:
            jumps[0], furthest = further, k
    return furthest, fastest


@compiled
def _base_jumps(q: Array, v: Array, q0: Array, v0: Array, dt: float, jumps: Array) -> None:
    """Fills the others."""
    jumps[2] = _length(q[:3] - q0[:3]) - max(_length(v[:3]), _length(v0[:3])) * dt
    half = min(abs(np.sum(q[3:7] * q0[3:7])), 1.0)
    jumps[3] = 2.0 * math.acos(half) - max(_length(v[3:6]), _length(v0[3:6])) * dt
    jumps[4], jumps[5] = _length(v[:3] - v0[:3]), _length(v[3:6] - v0[3:6])


@compiled
def _first_beyond(jumps: Array, most: Array) -> int:
    """Which is the first that is larger than it may be; len(jumps): none."""
    for k in range(len(jumps)):
        if not jumps[k] <= most[k]:
            return k
    return len(jumps)


@compiled
def _length(x: Array) -> float:
    return math.sqrt(np.sum(x * x))
