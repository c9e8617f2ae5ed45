"""The plausibility check: rejects a state that cannot follow the last one, as after errors of sensors or estimators.

The first rejected state is replaced by the last accepted one; a second one in a row is a fault, and so are too many (a leaky
bucket). Sensors have noise: rates of the base, or speeds of all joints, that repeat to the last bit are frozen.
"""

import math
from collections.abc import Mapping

import numpy as np

from controllers.monitor.safety import JUMP, unexplained
from idyn.library.kernels import compiled, entry
from idyn.library.records import Indices, Matrix, Vector, written
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, State
from transport.protocol.contact_input import FootSwitches
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.base import Code
from transport.protocol.messages.command import SeenState
from transport.protocol.state_input import Measured
from transport.server.settings import PlausibilitySettings

Reported = ContactSet | FootSwitches | None  # contacts of a state as the client reports them; None: it does not
WINDOW_S = 0.1  # time constant of the count of changes [s]

FLICKERS, QUIET = 35.0, 10.0
"""Changes in `WINDOW_S` above which a switch flickers, and below which it is quiet again. Feet that bounce as they land have up
to 21 (four robots that trot in MuJoCo, also on hills)."""

FORGOTTEN = 0.01  # changes in `WINDOW_S` below which a switch counts as one that never changed


class SwitchDebounce:
    """Counts the changes of each switch of one client, of a sole those of all its switches together.

    soles: place → sole; other places are soles of their own
    """

    def __init__(self, soles: Mapping[str, str]) -> None:
        self._soles = soles
        self.reset()

    def reset(self) -> None:
        """Forget all switches."""
        self._keys: tuple[str, ...] | None = None
        self._closed = set[str]()  # soles
        self._changes: dict[str, float] = {}
        self._flickering: set[str] = set()

    def debounced(self, switches: Reported, dt: float) -> tuple[Reported, str]:
        """Return the switches with flickering ones closed, and which these are, '' without any. dt: time since the last [s]

        Contacts that are not switches are returned as they are.
        """
        if not isinstance(switches, FootSwitches):
            return switches, ""
        keys, before, changes = switches.keys, self._keys, self._changes
        if changes:
            keep = max(1.0 - dt / WINDOW_S, 0.0)
            for key, count in changes.items():
                changes[key] = count * keep
        if keys != before:
            self._keys, closed, self._closed = keys, self._closed, {self._soles.get(key, key) for key in keys}
            for key in () if before is None else self._closed ^ closed:
                count = changes[key] = changes.get(key, 0.0) + 1.0
                if count > FLICKERS:
                    self._flickering.add(key)
        if self._flickering or (changes and min(changes.values()) < FORGOTTEN):
            self._calm()
        if not self._flickering:
            return switches, ""
        names = sorted(self._flickering)
        missing = tuple(key for name in names for key in self._places(name) if key not in keys)
        return switches.changed((*keys, *missing)), f"foot switches flicker: {', '.join(names)}"

    def _places(self, name: str) -> list[str]:
        return [key for key, sole in self._soles.items() if sole == name] or [name]

    def _calm(self) -> None:
        """End the flickering of switches that are quiet, and forget those without changes in the last half second."""
        for key in [key for key, count in self._changes.items() if count < QUIET]:
            self._flickering.discard(key)
            if self._changes[key] < FORGOTTEN:
                del self._changes[key]


NAMES = (
    ("joint_position", JUMP),
    ("joint_speed", "the speed of {joint} changed by {value:.3g} rad/s"),
    ("base_position", "the base moved {value:.3g} m further than its speed explains"),
    ("base_attitude", "the base turned {value:.3g} rad further than its rate explains"),
    ("base_velocity", "the velocity of the base changed by {value:.3g} m/s"),
    ("base_rate", "the rate of the base changed by {value:.3g} rad/s"),
)
"""Settings, each with the message for a change that exceeds it."""

OF_IMU = ("specific_force", "the specific force changed by {value:.3g} m/s²")
"""In place of `base_velocity`, if an IMU replaces the base."""

FROZEN = ("rate of the base", "joints move"), ("speeds of the joints", "base turns")
"""Frozen sensors, and what changes meanwhile, in the order of the rows of `Plausibility`'s memory."""

LIVE = 0.1  # time for which all numbers must have changed in every state before their repeats count [s]

CHANGE, BOUNDS, TIMES = (*[Vector] * 6, Indices), (Vector,), (float,) * 3
"""Arguments of the kernels.

change: (q, v, last q, last v, joint angles [rad] (na), last joint angles [rad] (na), indices of the actuated joints in v (na))
times: since the last accepted state, since the last state, and of `PlausibilitySettings.repeated` [s]
bounds: in the order of `NAMES`
memory: of the rate of the base and of the joints' speeds, see `FROZEN`: time for which they changed, and for which they have
    stayed the same while the other changed [s] (2, 2)
"""

Change = tuple[Array, Array, Array, Array, Array, Array, Array]

IS_SPEED = np.array([False, True, False, False, True, True])


class Plausibility:
    """Checks the states of one client.

    last: the last accepted state, None before the first
    level: number of rejected states, minus accepted states over `recovery`, ≥ 0
    """

    def __init__(self, settings: PlausibilitySettings, robot: Robot, *, imu: bool) -> None:
        """imu: whether attitude, rate and specific force of an IMU are in place of the base's attitude, rate and velocity"""
        self._robot, self._leak, self._most = robot, 1.0 / settings.recovery, settings.most_rejected
        names = [OF_IMU if imu and name == "base_velocity" else (name, text) for name, text in NAMES]
        self._names = names if robot.floating else names[:2]
        once = np.array([getattr(settings, name) for name, _ in self._names])
        self._bounds = once, np.where(IS_SPEED[: len(once)], 2.0 * once, once)
        self._repeated, self._memory = settings.repeated, np.zeros((2, 2))
        self._one_axis_each = bool((robot.tree.q_index >= 0).all())
        self._zeros = np.zeros(robot.na)
        self.reset()

    def reset(self) -> None:
        """Accept the next state without a check."""
        self.last: Measured | None = None
        self._sensed: State | None = None  # of the last accepted state, with the readings of the IMU if it has one
        self._memory.fill(0.0)
        self._t_ns = self._judged_ns = 0  # times of the last accepted state and of the last state
        self._rejected = self._frozen = False
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

        measured: with the IMU's attitude, rate and specific force, along its axes, in place of a base that is not measured
        t_ns: time of the state [ns]
        Raises ProtocolError `stale_state` for a sensor that has been frozen for some time.
        """
        if self.last is not None and self._sensed is not None:
            most = self._bounds[self._rejected]
            robot, dt, step = self._robot, (t_ns - self._t_ns) * 1e-9, (t_ns - self._judged_ns) * 1e-9
            now, last = measured.state, self._sensed
            to, since = measured.angles, self.last.angles
            if not self._one_axis_each:
                to, since = robot.joint_error(since, to), self._zeros
            change = now.q, now.v, last.q, last.v, to, since, robot.tree.a
            found, self._judged_ns = _compare(change, (dt, step, self._repeated), (most,), (self._memory,)), t_ns
            if found > 0:
                self._frozen = True
                (what, other), held = FROZEN[found - 1], 1e3 * self._memory[found - 1, 1]
                problem = f"the {what} has been frozen for {held:.0f} ms: the same to the last bit, while the {other}"
                raise ProtocolError(Code.STALE_STATE, None, problem)
            if found < 0 and not self._frozen:  # what a frozen sensor said last is long ago
                jumps = np.zeros(len(most))
                joints = _jumps(change, dt, jumps)
                k = int((~(jumps <= most)).argmax())
                joint = robot.joint_names[joints[k]] if k < len(joints) else ""
                self.level, self._rejected = self.level + 1.0, True
                return f"{self._names[k][1].format(joint=joint, value=jumps[k])} in {1e3 * dt:.3g} ms"
        return ""

    def accept(self, measured: Measured, t_ns: int, sensed: State) -> None:
        """Use a state as the last accepted one. t_ns: its time [ns]; sensed: its state when it was judged"""
        self.last, self._t_ns, self._judged_ns, self._sensed = measured, t_ns, t_ns, sensed
        self._rejected = self._frozen = False
        if self.level:
            self.level = max(self.level - self._leak, 0.0)


@entry(CHANGE, TIMES, BOUNDS, written((Matrix,)))
def _compare(change: Change, times: tuple[float, float, float], bounds: tuple[Array], memory: tuple[Array]) -> int:
    """Return −1 if a change is beyond its bound, the number of a row of `memory` (1, 2) whose sensor is frozen, else 0."""
    (most,), (dt, step, repeated) = bounds, times
    jumps = np.zeros(len(most))
    _jumps(change, dt, jumps)
    for k in range(len(jumps)):
        if not jumps[k] <= most[k]:
            return -1
    return _repeats(change, step, memory[0], repeated) if len(jumps) > 2 else 0


@compiled
def _repeats(change: Change, dt: float, memory: Array, repeated: float) -> int:
    """Update `memory` by a time dt. Return the number of a row whose sensor is frozen, 0 without one."""
    v, v0, a = change[1], change[3], change[6]
    same = 0
    for k in range(len(a)):
        same += v[a[k]] == v0[a[k]]
    turns, moves = v[3] != v0[3] or v[4] != v0[4] or v[5] != v0[5], same < len(a)
    frozen = 0
    for row, own, all_of_it, other in ((0, turns, turns, moves), (1, moves, same == 0, turns)):
        if own:
            memory[row, 0] = memory[row, 0] + dt if all_of_it and memory[row, 1] < 0.5 * repeated else 0.0
            memory[row, 1] = 0.0
        elif other:
            memory[row, 1] += dt
            if memory[row, 0] >= LIVE and memory[row, 1] >= repeated:
                frozen = row + 1
    return frozen


@entry(CHANGE, float, written(Vector))
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
