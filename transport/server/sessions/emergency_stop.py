"""The emergency stop of a robot. It outlasts refused messages, outages and sessions; only a `reset` at rest releases it.

`Dispatcher` engages it, `Controller.answer` applies it, `Session.reset` releases it.
"""

from typing import Any

import msgspec

from transport.protocol.messages import Message
from transport.protocol.messages.state import StateMessage
from transport.protocol.sizes import MAX_BYTES


class _Flags(msgspec.Struct):
    estop: bool = False


class _Urgent(msgspec.Struct):
    """The fields that are read from an otherwise malformed state."""

    t: Any = ""
    session: Any = 0
    flags: _Flags | None = None


_URGENT = msgspec.msgpack.Decoder(_Urgent)


class EmergencyStop:
    """Emergency stop of one robot. engaged: all torques damp"""

    engaged = False


def requested_stop(message: Message | None, data: bytes) -> int | None:
    """Return the number of the session for which a message requests an emergency stop; None for any other message.

    message: the decoded message; None: `data` is malformed, and only the flags are read from it
    """
    if isinstance(message, StateMessage):
        return message.session if message.flags is not None and message.flags.estop else None
    if message is not None or len(data) > MAX_BYTES:
        return None
    try:
        urgent = _URGENT.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    wanted = urgent.t == "state" and urgent.flags is not None and urgent.flags.estop
    return (urgent.session if isinstance(urgent.session, int) else 0) if wanted else None
