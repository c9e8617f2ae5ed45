"""The emergency stop of a robot: outlives refused messages, silences and sessions; only a reset at rest releases it.

`Dispatcher` engages it, `Controller.answer` acts on it, `Session.reset` releases it.
"""

from typing import Any

import msgspec

from transport.protocol.messages import Message
from transport.protocol.messages.state import StateMessage
from transport.protocol.sizes import MAX_BYTES


class _Flags(msgspec.Struct):
    estop: bool = False


class _Urgent(msgspec.Struct):
    """What is read of a state that cannot be read otherwise."""

    t: Any = ""
    session: Any = 0
    flags: _Flags | None = None


_URGENT = msgspec.msgpack.Decoder(_Urgent)


class EmergencyStop:
    """engaged: the robot is to be damped, whatever is asked"""

    engaged = False


def requested_stop(message: Message | None, data: bytes) -> int | None:
    """The session for which these bytes ask for an emergency stop, whatever else is in them; None when they do not. message:
    what they were read as, if anything"""
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
