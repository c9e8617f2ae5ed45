"""The command in force: the last one that was accepted, until it expires. No clock: times are arguments."""

import numpy as np

from controllers.planners.targets import extrapolated
from idyn.model.robot import Robot
from idyn.tasks import TaskStack
from idyn.types import Array, Record
from transport.protocol.codec import vector
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.command import CommandMessage
from transport.protocol.messages.error import Code
from transport.protocol.task_input import read_tasks

LONGEST_S = 60.0
"""Largest `valid_for` [s]: a longer one would outlast the operator's attention."""

FASTEST = np.array([10.0, 10.0, 10.0])
"""Largest velocity of a command: forward, left [m/s], turn [rad/s]. Larger ones are errors of units."""

STANDS = "the last command has expired: the robot slows down and stands"

STILL = np.zeros(3)
STILL.flags.writeable = False


class InForce(Record, frozen=True):
    """The command at one time.

    velocity: of the base (3), zero after the command has expired; None: not commanded
    tasks: with their targets at this time; None: none
    note: that it has expired; '' before that
    """

    velocity: Array | None = None
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
        self._velocity: Array | None = None
        self._tasks: TaskStack | None = None
        self._after = NOTHING

    def accept(self, message: CommandMessage, robot: Robot, source: bytes, now_ns: int) -> int:
        """Check a command and put it in force. Return the time when it expires, server's clock [ns].

        source: client that sent it. Raises ProtocolError for an invalid command, and while that of another client is in force;
        the previous command then stands.
        """
        if not 0.0 < message.valid_for <= LONGEST_S:
            raise ProtocolError(Code.BAD_SCHEMA, "valid_for", f"expected > 0 and ≤ {LONGEST_S:g} s, got {message.valid_for}")
        velocity = None if message.velocity is None else vector(message.velocity, 3, "velocity")
        if velocity is not None and (np.abs(velocity) > FASTEST).any():
            expected = f"at most {FASTEST[0]:g} m/s and {FASTEST[2]:g} rad/s"
            raise ProtocolError(Code.BAD_SCHEMA, "velocity", f"expected {expected}, got {velocity.tolist()}")
        if message.modes and not message.tasks:
            raise ProtocolError(Code.BAD_SCHEMA, "modes", "expected `tasks` beside contact modes")
        tasks = read_tasks(robot, message.tasks, message.modes or {}) if message.tasks else None
        if velocity is None and tasks is None:
            raise ProtocolError(Code.BAD_SCHEMA, "velocity", "expected a velocity, tasks, or both")
        if source != self._source and (left := self.in_force_s(self._source, now_ns)) > 0.0:
            raise ProtocolError(Code.NOT_CONTROLLING, None, f"the command of another client is in force for {left:.3f} s more")
        self._source, self._since_ns, self._until_ns = source, now_ns, now_ns + round(message.valid_for * 1e9)
        self._velocity, self._tasks = velocity, tasks
        last = None if tasks is None else extrapolated(tasks, message.valid_for, still=True)
        self._after = InForce(velocity=None if velocity is None else STILL, tasks=last, note=STANDS)
        return self._until_ns

    def in_force_s(self, source: bytes, now_ns: int) -> float:
        """Return how long a command of this client is still in force [s]; 0 without one."""
        return max((self._until_ns - now_ns) * 1e-9, 0.0) if source == self._source else 0.0

    def at(self, now_ns: int) -> InForce:
        """Return the command at a time."""
        if self._velocity is None and self._tasks is None:
            return NOTHING
        if now_ns >= self._until_ns:
            return self._after
        tasks = self._tasks
        if tasks is not None:
            tasks = extrapolated(tasks, max(now_ns - self._since_ns, 0) * 1e-9, still=False)
        return InForce(velocity=self._velocity, tasks=tasks)
