"""The command in force: the last one that was accepted, until it expires. No clock: times are arguments."""

import msgspec
import numpy as np

from controllers.command import GaitChange, Steering
from controllers.planners.targets import TargetMotion
from idyn.errors import InputError
from idyn.tasks import TaskStack
from idyn.types import Record
from transport.protocol.codec import not_finite, vector
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.command import CommandMessage
from transport.protocol.messages.error import Code
from transport.protocol.task_input import MOST_TASKS, read_tasks
from transport.server.sessions.handshake import Host

LONGEST_S = 60.0
"""Largest `valid_for` [s]: a longer one would outlast the operator's attention."""

FASTEST = np.array([10.0, 10.0, 10.0])
"""Largest velocity of a command: forward, left [m/s], turn [rad/s]. Larger ones are errors of units."""

MOST_KNOWN = 1024
"""Number of commands without `seq` that are remembered of a session."""

TASKS_SHARE, MOST_LONG = 0.8, 20
"""Part of the period that a tick with commanded tasks may take, as the rest is for transmission; ticks beyond it, less those
within, at which the tasks end."""

STANDS = "the last command has expired: the robot slows down and stands"

STILL = np.zeros(3)
STILL.flags.writeable = False


class InForce(Record, frozen=True):
    """The command at one time.

    steering: of the base, at rest after the command has expired; None: never commanded
    tasks: with their targets at this time; None: none
    note: that it has expired; '' before that
    """

    steering: Steering | None = None
    tasks: TaskStack | None = None
    note: str = ""


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
            host.check_steering(steering, tasks)
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
        feet = {place.frame for key, place in places if robot.floating and key in modes}  # the tool of an arm rests
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
