"""Reception of messages from a port: what may not be sent is refused here, before it is decoded."""

from time import monotonic_ns

from transport.protocol.codec import encode, message_type
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.error import Code
from transport.server.sessions.dispatcher import Dispatcher
from transport.server.sockets.access_control import wants_control
from transport.server.sockets.others import MOST_BYTES, Message
from transport.server.sockets.port import Port

GENERATED = b"\0"
"""Prefix of identities that a socket generates; ZeroMQ reserves it. Only these may have sessions: any client could claim an
identity that another client chose."""

REFUSED: Message = b"", b"", 0
"""Stands for a message that was refused here."""


def _refusal(code: Code, field: str | None, text: str) -> bytes:
    return encode(ProtocolError(code, field, text).reply())


OWN_IDENTITY = _refusal(Code.NOT_CONTROLLING, None, "connect without a ZMQ identity")
MULTIPART = _refusal(Code.BAD_SCHEMA, None, "expected a message of one part")
TOO_LONG = _refusal(Code.BAD_SCHEMA, None, f"expected at most {MOST_BYTES} bytes while another client controls the robot")


def receive(port: Port, dispatcher: Dispatcher, flags: int, control: bytes, robot_address: str = "") -> Message | None:
    """Return the next message of a port, None without one. A refused message is answered, and `REFUSED` returned for it.

    control: identity of the controlling client, b'' without one; flags: of ZeroMQ
    robot_address: where the robot must connect instead; '': here
    An emergency stop is refused only for its sender's identity or role, not for its form.
    """
    received = port.receive(flags)
    if received is None:
        return None
    identity, data, in_parts, key = received
    objection = "" if port.access is None else port.access.objection(key, data)
    if objection:  # before all other checks
        refusal = _refusal(Code.NOT_CONTROLLING, None, objection)
    else:
        refusal = _form_refusal(dispatcher, identity, data, in_parts, control)
    if not refusal and robot_address and message_type(data) == "hello" and wants_control(data):
        refusal = _refusal(Code.NOT_CONTROLLING, "client.kind", f"the robot connects to {robot_address}")
    if refusal:
        port.send(identity, refusal)
        return REFUSED
    return identity, data, monotonic_ns()


def _form_refusal(dispatcher: Dispatcher, identity: bytes, data: bytes, in_parts: bool, control: bytes) -> bytes:
    """Return the refusal of a message for its sender's identity, its parts or its length; b'' for none."""
    if not identity.startswith(GENERATED):
        return OWN_IDENTITY
    too_long = control and len(data) > MOST_BYTES and not dispatcher.knows(identity)
    if (in_parts or too_long) and not dispatcher.stops.urgent(identity, data):
        return MULTIPART if in_parts else TOO_LONG
    return b""
