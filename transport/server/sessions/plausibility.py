"""Whether a state can follow the one before: jumps that no robot makes are sensors, estimators or wires.

A single such state is passed over, the one before stands in for it; a second one in a row is a fault.
"""

import math

import numpy as np

from idyn.jit.compiled import INDICES, REAL, VECTOR, compiled
from idyn.jit.crossing import Lent, entrance
from idyn.model.robot import Robot
from idyn.types import Array
from transport.protocol.state_input import Measured
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

CHANGE, BOUNDS = Lent(*[VECTOR] * 6, INDICES), Lent(VECTOR)
"""Of two states: q, v, those before, where the joints are [rad] and where they were (na), the actuated velocities (na)."""

Change = tuple[Array, Array, Array, Array, Array, Array, Array]

IS_SPEED = np.array([False, True, False, False, True, True])


class Plausibility:
    """Judges one client's states; owns the last one that was believed."""

    def __init__(self, settings: PlausibilitySettings, robot: Robot) -> None:
        self._robot = robot
        once = np.array([getattr(settings, name) for name, _ in NAMES if robot.floating or name.startswith("joint")])
        self._bounds = once, np.where(IS_SPEED[: len(once)], 2.0 * once, once)
        self._one_axis_each = bool((robot.tree.q_index >= 0).all())
        self._zeros = np.zeros(robot.na)
        self._within = entrance(_within, CHANGE, REAL, BOUNDS)
        self.reset()

    def reset(self) -> None:
        """The next state is a first one: it is believed."""
        self.last: Measured | None = None
        self._t_ns = 0
        self._rejected = False

    def judge(self, measured: Measured, t_ns: int) -> str:
        """Why a state cannot follow the last one that was believed, '' when it can; then it is that one. t_ns: its time"""
        most, self._rejected = self._bounds[self._rejected], True
        if self.last is not None:
            robot, dt = self._robot, (t_ns - self._t_ns) * 1e-9
            now, last = measured.state, self.last.state
            to, since = measured.angles, self.last.angles
            if not self._one_axis_each:
                to, since = robot.joint_error(since, to), self._zeros
            change = now.q, now.v, last.q, last.v, to, since, robot.tree.a
            if not self._within(change, dt, (most,)):
                jumps = np.zeros(len(most))
                joints = _jumps(change, dt, jumps)
                k = int((~(jumps <= most)).argmax())
                joint = robot.joint_names[joints[k]] if k < len(joints) else ""
                return f"{NAMES[k][1].format(joint=joint, value=jumps[k])} in {1e3 * dt:.3g} ms"
        self.last, self._t_ns, self._rejected = measured, t_ns, False
        return ""


@compiled
def _within(change: Change, dt: float, bounds: tuple[Array]) -> bool:
    """Whether no change is larger than it may be."""
    (most,) = bounds
    jumps = np.zeros(len(most))
    _jumps(change, dt, jumps)
    small = True
    for k in range(len(jumps)):
        small = small and bool(jumps[k] <= most[k])
    return small


@compiled
def _jumps(change: Change, dt: float, jumps: Array) -> tuple[int, int]:
    """Fills `jumps`, zero before, with the largest changes in the order of `NAMES`, only those of joints when there is room for
    no others; which joints made the first two. change: see `CHANGE`"""
    q, v, q0, v0, to, since, a = change
    # joints: |q − q₀| − max(|v|, |v₀|) dt and |v − v₀|, the largest of each
    furthest = fastest = 0
    for k in range(len(a)):
        speed, speed0 = v[a[k]], v0[a[k]]
        difference = abs(speed - speed0)
        if not difference <= jumps[1]:
            jumps[1], fastest = difference, k
        further = abs(to[k] - since[k]) - max(abs(speed), abs(speed0)) * dt
        if further > jumps[0]:
            jumps[0], furthest = further, k
    # base: distance and angle beyond what its speeds explain, then changes of velocity and rate
    if len(jumps) > 2:
        rest = np.zeros(3)
        half = 0.0
        for i in range(3, 7):
            half += q[i] * q0[i]
        jumps[2] = _distance(q[:3], q0[:3]) - max(_distance(v[:3], rest), _distance(v0[:3], rest)) * dt
        jumps[3] = 2.0 * math.acos(min(abs(half), 1.0)) - max(_distance(v[3:6], rest), _distance(v0[3:6], rest)) * dt
        jumps[4], jumps[5] = _distance(v[:3], v0[:3]), _distance(v[3:6], v0[3:6])
    return furthest, fastest


@compiled
def _distance(x: Array, y: Array) -> float:
    square = 0.0
    for i in range(3):
        square += (x[i] - y[i]) ** 2
    return math.sqrt(square)
