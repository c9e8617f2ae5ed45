"""The command in force: the last one that was accepted, until it expires. No clock: times are arguments."""

import numpy as np

from idyn.types import Array
from transport.protocol.codec import vector
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.command import CommandMessage
from transport.protocol.messages.error import Code

LONGEST_S = 60.0
"""Largest `valid_for` [s]: a longer one would outlast the operator's attention."""

FASTEST = np.array([10.0, 10.0, 10.0])
"""Largest velocity of a command: forward, left [m/s], turn [rad/s]. Larger ones are errors of units."""

STANDS = "the last command has expired: the robot slows down and stands"

STILL = np.zeros(3)
STILL.flags.writeable = False


class CommandLatch:
    """The command of the robot, from any of its clients. It outlasts no session of the robot."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget the command: the controller follows its own settings."""
        self._source, self._until_ns = b"", 0
        self._velocity: Array | None = None

    def accept(self, message: CommandMessage, source: bytes, now_ns: int) -> int:
        """Check a command and put it in force. Return the time when it expires, server's clock [ns].

        source: client that sent it. Raises ProtocolError for an invalid command, and while that of another client is in force;
        the previous command then stands.
        """
        if not 0.0 < message.valid_for <= LONGEST_S:
            raise ProtocolError(Code.BAD_SCHEMA, "valid_for", f"expected > 0 and ≤ {LONGEST_S:g} s, got {message.valid_for}")
        velocity = vector(message.velocity, 3, "velocity")
        if (np.abs(velocity) > FASTEST).any():
            expected = f"at most {FASTEST[0]:g} m/s and {FASTEST[2]:g} rad/s"
            raise ProtocolError(Code.BAD_SCHEMA, "velocity", f"expected {expected}, got {velocity.tolist()}")
        if source != self._source and now_ns < self._until_ns:
            left = (self._until_ns - now_ns) * 1e-9
            raise ProtocolError(Code.NOT_CONTROLLING, None, f"the command of another client is in force for {left:.3f} s more")
        self._source, self._velocity, self._until_ns = source, velocity, now_ns + round(message.valid_for * 1e9)
        return self._until_ns

    def velocity(self, now_ns: int) -> Array | None:
        """Return the commanded velocity of the base at a time (3): zero after the command has expired; None without one."""
        return self._velocity if self._velocity is None or now_ns < self._until_ns else STILL
