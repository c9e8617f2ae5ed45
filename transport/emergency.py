"""The emergency stop of a robot: outlives refused messages, silences and sessions; only a reset at rest releases it."""

import msgspec

from transport.codec import MAX_BYTES
from transport.messages import Message, StateMessage


class _Flags(msgspec.Struct):
    estop: bool = False


class _Urgent(msgspec.Struct):
    """What is read of a state that cannot be read otherwise."""

    t: str = ""
    flags: _Flags | None = None


_URGENT = msgspec.msgpack.Decoder(_Urgent)


class EmergencyStop:
    """engaged: the robot is to be damped, whatever is asked"""

    engaged = False


def asked(message: Message | None, data: bytes) -> bool:
    """Whether these bytes ask for an emergency stop, whatever else is in them. message: what they were read as, if anything"""
    if message is not None:
        return isinstance(message, StateMessage) and message.flags is not None and message.flags.estop
    if len(data) > MAX_BYTES:
        return False
    try:
        urgent = _URGENT.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return urgent.t == "state" and urgent.flags is not None and urgent.flags.estop
