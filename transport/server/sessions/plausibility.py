"""The plausibility check: rejects a state that cannot follow the last one, as after errors of sensors or estimators.

The first rejected state is replaced by the last accepted one; a second one in a row is a fault. So are too many of them with
accepted ones in between, as from two robots that send in turn: a leaky bucket counts them.
"""

import math

import numpy as np

from controllers.monitor.safety import JUMP, unexplained
from idyn.jit.compiled import INDICES, REAL, VECTOR, compiled
from idyn.jit.entry import Borrowed, entry_point
from idyn.model.robot import Robot
from idyn.types import Array
from transport.protocol.messages.command import SeenState
from transport.protocol.state_input import Measured
from transport.server.settings import PlausibilitySettings

NAMES = (
    ("joint_position", JUMP),
    ("joint_speed", "the speed of {joint} changed by {value:.3g} rad/s"),
    ("base_position", "the base moved {value:.3g} m further than its speed explains"),
    ("base_attitude", "the base turned {value:.3g} rad further than its rate explains"),
    ("base_velocity", "the velocity of the base changed by {value:.3g} m/s"),
    ("base_rate", "the rate of the base changed by {value:.3g} rad/s"),
)
"""Settings, each with the message for a change that exceeds it."""

CHANGE, BOUNDS = Borrowed(*[VECTOR] * 6, INDICES), Borrowed(VECTOR)
"""Arguments of the kernels.

change: (q, v, last q, last v, joint angles [rad] (na), last joint angles [rad] (na), indices of the actuated joints in v (na))
bounds: in the order of `NAMES`
"""

Change = tuple[Array, Array, Array, Array, Array, Array, Array]

IS_SPEED = np.array([False, True, False, False, True, True])


class Plausibility:
    """Checks the states of one client.

    last: the last accepted state, None before the first
    level: number of rejected states, minus accepted states over `recovery`, ≥ 0
    """

    def __init__(self, settings: PlausibilitySettings, robot: Robot, *, base: bool) -> None:
        """base: check the base, too, if the robot has a free one"""
        self._robot, self._leak, self._most = robot, 1.0 / settings.recovery, settings.most_rejected
        once = np.array([getattr(settings, name) for name, _ in NAMES if (base and robot.floating) or name.startswith("joint")])
        self._bounds = once, np.where(IS_SPEED[: len(once)], 2.0 * once, once)
        self._one_axis_each = bool((robot.tree.q_index >= 0).all())
        self._zeros = np.zeros(robot.na)
        self._within = entry_point(_within, CHANGE, REAL, BOUNDS)
        self.reset()

    def reset(self) -> None:
        """Accept the next state without a check."""
        self.last: Measured | None = None
        self._t_ns = 0
        self._rejected = False
        self.level = 0.0

    @property
    def exhausted(self) -> bool:
        """Whether too many states have been rejected."""
        return self.level > self._most

    @property
    def doubt(self) -> str:
        """Return that states are rejected repeatedly, '' if they are not."""
        return "states are implausible repeatedly" if self.level > 1.0 else ""

    def seen(self) -> SeenState | None:
        """Return the last accepted state, for planners; None before the first one."""
        last = self.last
        if last is None:
            return None
        return SeenState(t_robot=self._t_ns, q=last.state.q.tobytes(), vel=last.state.v.tobytes())

    def judge(self, measured: Measured, t_ns: int) -> str:
        """Return why a state cannot follow the last accepted one; '' if it can, see `accept`.

        t_ns: time of the state [ns]
        """
        if self.last is not None:
            most = self._bounds[self._rejected]
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
                self.level, self._rejected = self.level + 1.0, True
                return f"{NAMES[k][1].format(joint=joint, value=jumps[k])} in {1e3 * dt:.3g} ms"
        return ""

    def accept(self, measured: Measured, t_ns: int) -> None:
        """Use a state as the last accepted one. t_ns: time of the state [ns]"""
        self.last, self._t_ns, self._rejected = measured, t_ns, False
        self.level = max(self.level - self._leak, 0.0)


@compiled
def _within(change: Change, dt: float, bounds: tuple[Array]) -> bool:
    """Return whether all changes are within their bounds."""
    (most,) = bounds
    jumps = np.zeros(len(most))
    _jumps(change, dt, jumps)
    small = True
    for k in range(len(jumps)):
        small = small and bool(jumps[k] <= most[k])
    return small


@compiled
def _jumps(change: Change, dt: float, jumps: Array) -> tuple[int, int]:
    """Fill `jumps` with the largest changes, minus those that the speeds explain, in the order of `NAMES`.

    change: see `CHANGE`; jumps: zeros on entry; length 2 without the base, else 6
    Return (joint with the largest change of position, joint with the largest change of speed).
    """
    q, v, q0, v0, to, since, a = change
    # joints: largest |q − q₀| − max(|v|, |v₀|) dt and largest |v − v₀|
    furthest = fastest = 0
    for k in range(len(a)):
        speed, speed0 = v[a[k]], v0[a[k]]
        difference = abs(speed - speed0)
        if not difference <= jumps[1]:
            jumps[1], fastest = difference, k
        further = unexplained(since[k], to[k], (speed0, speed), dt)
        if further > jumps[0]:
            jumps[0], furthest = further, k
    # base: distance − max(|v|, |v₀|) dt, angle 2 acos |⟨Q, Q₀⟩| − max(|ω|, |ω₀|) dt, |v − v₀| and |ω − ω₀|
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
    """Return |x − y| of two vectors (3)."""
    square = 0.0
    for i in range(3):
        square += (x[i] - y[i]) ** 2
    return math.sqrt(square)
