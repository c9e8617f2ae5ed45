"""The latches of a robot: fault, emergency stop, silence, and the command in force. No clock: times are arguments.

Fault, emergency stop and silence belong to the robot and outlast sessions, connections and clients; only a `reset` of a robot
at rest releases them. A command stands until it expires.
"""

import math

import msgspec
import numpy as np

from controllers.command import GaitChange, Steering
from controllers.planners.targets import TargetMotion
from idyn.errors import InputError
from idyn.model.robot import Robot
from idyn.model.so3 import tilt
from idyn.tasks import TaskStack
from idyn.types import Array, Record
from transport.protocol.codec import not_finite, vector
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.base import Code
from transport.protocol.messages.command import CommandMessage
from transport.protocol.state_input import Measured
from transport.protocol.task_input import MOST_TASKS, read_tasks
from transport.server.sessions.handshake import Host
from transport.server.settings import Start

LIMITS: dict[Start, tuple[float, float, float]] = {
    "rest": (1.0, 1.0, 1.0),
    "lying": (math.pi, 0.2, 0.2),
    "motion": (1.0, 1.0, 1.0),
}
"""Limits of a robot that is put under control: tilt of the base from upright [rad], its velocity [m/s] and rate [rad/s], speeds
of the joints [rad/s]. They are those of `reset` and, unless a robot may start in motion, of the first state of a session. A
robot at rest may shake; one that lies in any attitude must not move, apart from noise."""


class Exchange(msgspec.Struct, frozen=True):
    """A state and its answer, as bytes."""

    seq: int
    state: bytes
    torque: bytes


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Reason and time of a latched fault, and the last exchanges before it. t_ns: server's clock [ns]"""

    session: int
    reason: str
    t_ns: int
    exchanges: list[Exchange]

    @property
    def refusal(self) -> str:
        """Text with which later states are refused, until a reset."""
        return f"latched ({self.reason}); send reset when the robot is at rest"


class Latched(ProtocolError):
    """The refusal of a state that causes a fault. The fault is latched: later states are refused until `reset`."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(Code.LATCHED_FAULT, None, fault.refusal)
        self.fault = fault


class Latches:
    """The latches of one robot. A shadow has its own.

    fault: the latched fault; None without one
    estop: why the emergency stop is engaged; '': it is not
    heard_ns: time of the last answered state that no `stop` followed, server's clock [ns]; None: no robot waits for answers.
        Simulated clients leave it at None, because their world may stand still
    """

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self.estop = ""
        self.heard_ns: int | None = None

    @property
    def reason(self) -> str:
        """What stops the robot until `reset`; '' for a robot that may be controlled."""
        return self.fault.reason if self.fault is not None else self.estop

    def engage(self, reason: str) -> None:
        """Engage the emergency stop. The first reason stays."""
        self.estop = self.estop or reason

    def release(self) -> None:
        """Release all latches."""
        self.fault, self.estop, self.heard_ns = None, "", None

    def begin(self, session: int, latch_ns: int, now_ns: int) -> Fault | None:
        """Latch the silence before a new session, if it was long. Return the new fault, None without one.

        latch_ns: time without states that is a fault [ns]
        """
        since, self.heard_ns = self.heard_ns, None
        if self.fault is not None or since is None or now_ns - since < latch_ns:
            return None
        reason = f"no state for {(now_ns - since) * 1e-6:.0f} ms before hello"
        self.fault = Fault(session=session, reason=reason, t_ns=now_ns, exchanges=[])
        return self.fault


def check_start(measured: Measured, robot: Robot, start: Start) -> None:
    """Raise ProtocolError for a robot that tilts or moves too much to be put under control."""
    most_tilt, most_base, most_joint = LIMITS[start]
    if robot.floating:
        tilted = tilt(measured.state.q[3:7])
        if tilted > most_tilt:
            raise ProtocolError(Code.LATCHED_FAULT, "q", f"expected a tilt of at most {most_tilt:g} rad, got {tilted:.2f}")
        _check_speed(measured.state.v[:6], most_base, "base")
    _check_speed(measured.speeds, most_joint, "joint")


def _check_speed(v: Array, allowed: float, what: str) -> None:
    """Raise ProtocolError for a speed above the allowed one. what: 'base' or 'joint'"""
    fastest = float(np.abs(v).max(initial=0.0))
    if fastest > allowed:
        raise ProtocolError(Code.LATCHED_FAULT, "vel", f"expected {what} speeds of at most {allowed:g}, got {fastest:.2f}")


LONGEST_S = 60.0  # largest `valid_for` [s]: a longer one would outlast the operator's attention

FASTEST = np.array([10.0, 10.0, 10.0])
"""Largest velocity of a command: forward, left [m/s], turn [rad/s]. Larger ones are errors of units."""

MOST_KNOWN = 1024  # number of commands without `seq` that are remembered of a session

TASKS_SHARE, MOST_LONG = 0.8, 20
"""Part of the period that a tick with commanded tasks may take, as the rest is for transmission; ticks beyond it, less those
within, at which the tasks end."""

STANDS = "the last command has expired: the robot slows down and stands"

STILL = np.zeros(3)
STILL.flags.writeable = False


class InForce(Record, frozen=True):
    """The command at one time."""

    steering: Steering | None = None  # of the base, at rest after the command has expired; None: never commanded
    tasks: TaskStack | None = None  # with their targets at this time; None: none
    note: str = ""  # that it has expired; '' before that


NOTHING = InForce()


class CommandLatch:
    """The command of the robot, from any of its clients. It outlasts no session of the robot."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget the command: the controller follows its own settings."""
        self._source, self._since_ns, self._until_ns = b"", 0, 0
        self._steering: Steering | None = None
        self._targets: TargetMotion | None = None
        self._after = NOTHING
        self._long, self._most_tasks, self._costly = 0, MOST_TASKS, ""

    def accept(self, message: CommandMessage, host: Host, source: bytes, now_ns: int) -> int:
        """Check a command and put it in force. Return the time when it expires, server's clock [ns].

        source: client that sent it. Raises ProtocolError for an invalid command, and while that of another client is in force;
        the previous command then stands.
        """
        if not 0.0 < message.valid_for <= LONGEST_S:
            raise ProtocolError(Code.BAD_SCHEMA, "valid_for", f"expected > 0 and ≤ {LONGEST_S:g} s, got {message.valid_for}")
        steering = read_steering(message)
        if message.modes and not message.tasks:
            raise ProtocolError(Code.BAD_SCHEMA, "modes", "expected `tasks` beside contact modes")
        tasks = read_tasks(host.robot, message.tasks, message.modes or {}) if message.tasks else None
        if tasks is not None and len(tasks.tasks) > self._most_tasks:
            raise ProtocolError(Code.BAD_SCHEMA, "tasks", f"expected at most {self._most_tasks}: {self._costly}")
        try:
            host.controller.check_steering(steering, tasks)
        except InputError as error:
            raise ProtocolError(Code.BAD_SCHEMA, error.field, error.message) from error
        if steering.velocity is None and not steering.posed and steering.gait is None and tasks is None:
            expected = "expected at least one of velocity, height, attitude, gait and tasks"
            raise ProtocolError(Code.BAD_SCHEMA, "velocity", expected)
        if source != self._source and (left := self.in_force_s(self._source, now_ns)) > 0.0:
            raise ProtocolError(Code.NOT_CONTROLLING, None, f"the command of another client is in force for {left:.3f} s more")
        elapsed, before = max(now_ns - self._since_ns, 0) * 1e-9, self._targets
        if self._after.tasks is not None and now_ns >= self._until_ns:
            before = TargetMotion(self._after.tasks)
        self._source, self._since_ns, self._until_ns = source, now_ns, now_ns + round(message.valid_for * 1e9)
        steers = self._steering is not None and self._steering.velocity is not None
        if steering.velocity is None and steers:  # an earlier command steered: without one the robot stands
            steering = msgspec.structs.replace(steering, velocity=STILL)
        at_rest = Steering(velocity=None if steering.velocity is None else STILL)
        self._steering, self._targets = steering, None if tasks is None else TargetMotion(tasks, before, elapsed)
        robot, modes = host.robot, message.modes or {}
        places = zip(robot.spheres.keys, robot.description.contact, strict=True)
        # the tool of an arm rests, and so does a hand, which alone may have a mode beside a gait on two legs
        lowers = robot.floating and host.controller_settings.get("reference", {}).get("kind") != "two-legs"
        feet = {place.frame for key, place in places if lowers and key in modes}
        last = None if self._targets is None else self._targets.at_rest(message.valid_for, feet)
        self._after = InForce(steering=at_rest, tasks=last, note=STANDS)
        return self._until_ns

    def measured(self, tasks: int, step_ns: int, period_ns: int) -> None:
        """Judge the duration of a tick with so many tasks [ns]. Too many long ones end the tasks, and commands with as many are
        refused until `clear`."""
        most_ns = TASKS_SHARE * period_ns
        self._long = max(self._long + (1 if step_ns > most_ns else -1), 0)
        if self._long >= MOST_LONG:
            self._long, self._most_tasks = 0, min(tasks - 1, int(tasks * most_ns / step_ns))
            self._costly = f"{tasks} tasks take {step_ns * 1e-3:.0f} µs of a tick, of at most {most_ns * 1e-3:.0f}"
            self._until_ns, self._targets = 0, None
            self._after = InForce(steering=self._after.steering, note=f"the last command has ended: {self._costly}")

    def in_force_s(self, source: bytes, now_ns: int) -> float:
        """Return how long a command of this client is still in force [s]; 0 without one."""
        return max((self._until_ns - now_ns) * 1e-9, 0.0) if source == self._source else 0.0

    def at(self, now_ns: int) -> InForce:
        """Return the command at a time."""
        if self._steering is None:
            return NOTHING
        if now_ns >= self._until_ns:
            return self._after
        tasks = None if self._targets is None else self._targets.at(max(now_ns - self._since_ns, 0) * 1e-9)
        return InForce(steering=self._steering, tasks=tasks)


class CommandOrder:
    """The commands of one session, whose old ones are refused when they come again."""

    def __init__(self) -> None:
        self._seq = 0
        self._until: dict[int, int] = {}  # of commands without seq: hash → time when they expire [ns]

    def check(self, message: CommandMessage, data: bytes, now_ns: int) -> None:
        """Raise ProtocolError for a command that came before. data: its bytes"""
        if message.seq > self._seq:
            self._seq = message.seq
        elif message.seq or self._seq:
            raise ProtocolError(Code.OUT_OF_ORDER, "seq", f"expected > {self._seq} in this session, got {message.seq}")
        elif now_ns >= self._until.get(hash(data), now_ns + 1):
            problem = "expected a larger one in each command: these bytes came before, and that command has expired"
            raise ProtocolError(Code.DUPLICATE, "seq", problem)

    def accepted(self, data: bytes, until_ns: int) -> None:
        """Remember a command that is in force. until_ns: when it expires [ns]"""
        if not self._seq:
            self._until[hash(data)] = until_ns
            if len(self._until) > MOST_KNOWN:
                del self._until[next(iter(self._until))]


def read_steering(message: CommandMessage) -> Steering:
    """Return what a command asks of the base. Raises ProtocolError for values that are malformed, whatever the robot."""
    velocity = None if message.velocity is None else vector(message.velocity, 3, "velocity")
    if velocity is not None and (np.abs(velocity) > FASTEST).any():
        expected = f"at most {FASTEST[0]:g} m/s and {FASTEST[2]:g} rad/s"
        raise ProtocolError(Code.BAD_SCHEMA, "velocity", f"expected {expected}, got {velocity.tolist()}")
    height = message.height
    if height is not None and not np.isfinite(height):
        raise not_finite("height", height)
    attitude = None if message.attitude is None else vector(message.attitude, 2, "attitude")
    gait = None if message.gait is None else GaitChange(**msgspec.structs.asdict(message.gait))
    return Steering(velocity=velocity, height=height, attitude=attitude, gait=gait)
