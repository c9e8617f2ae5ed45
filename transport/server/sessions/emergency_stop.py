"""Requests of an emergency stop, and the clients that may make them. `Latches` engages it, `Controller.answer` applies it.

A stop is requested by `flags.estop` in a state of the controlling client, and by the message `estop` of a client of that role,
over any connection. A malformed message that names a stop stops, rather than being lost: see `requested_stop`.
"""

from collections.abc import Mapping

import msgspec

from transport.protocol.codec import PARTS, decode
from transport.protocol.errors import ProtocolError, printable
from transport.protocol.messages import Message
from transport.protocol.messages.requests import Estop
from transport.protocol.messages.state import StateMessage
from transport.server.sessions.latches import Latches
from transport.server.sessions.session import Session
from transport.server.settings import ServerSettings

WORD = b"estop"

NO_STOP = (b"\xc2", b"\xc0", b"\x00")  # MessagePack of false, nil and 0: the values of `estop` that do not stop
MOST_KNOWN = 1024  # number of connections of emergency-stop clients that are remembered
SHORT = 256  # longest value that is decoded of a malformed message [bytes]


class StopRequest(msgspec.Struct, frozen=True):
    """The sender of a request. session: number in the message, 0 if unreadable; name: of an `estop` message, None otherwise"""

    session: int = 0
    name: str | None = None

    @property
    def reason(self) -> str:
        """Text for the robot's client."""
        return f"emergency stop by '{printable(self.name)}'" if self.name else "emergency stop"


class _Urgent(msgspec.Struct):
    """The fields that are read from an otherwise malformed message."""

    t: msgspec.Raw = msgspec.Raw()
    session: msgspec.Raw = msgspec.Raw()
    name: msgspec.Raw = msgspec.Raw()
    stop: msgspec.Raw = msgspec.Raw()
    flags: msgspec.Raw = msgspec.Raw()


_URGENT = msgspec.msgpack.Decoder(_Urgent)
_MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def requested_stop(message: Message | None, data: bytes) -> StopRequest | None:
    """Return the request for an emergency stop in a message; None for any other message.

    message: the decoded message; None: `data` is malformed. Then any value of `estop` but false, nil and 0 is a request, also
    in a message that is too long or was sent in several parts; and if not even the fields can be told apart, any `estop` in
    the bytes that no such value follows.
    """
    if isinstance(message, StateMessage):
        return StopRequest(message.session) if message.flags is not None and message.flags.estop else None
    if isinstance(message, Estop):
        return StopRequest(name=message.name) if message.stop else None
    if message is not None or WORD not in data:
        return None
    kind, fields = told_apart(data)
    if fields is None:
        return StopRequest(name="" if kind == "estop" else None) if _names_stop(data) else None
    session, name = _short(fields.session), _short(fields.name)
    number = session if type(session) is int else 0
    if kind == "estop":
        return StopRequest(number, name if isinstance(name, str) else "") if bytes(fields.stop) not in NO_STOP else None
    return StopRequest(number) if _names_stop(bytes(fields.flags)) else None


def told_apart(data: bytes) -> tuple[str | None, _Urgent | None]:
    """Return type and fields of a message, whatever its length and its parts, each None if unreadable.

    Roles are checked by this type: a role that may not send `estop` cannot stop by a malformed one.
    """
    try:
        fields = _URGENT.decode(data.removeprefix(PARTS))
    except _MALFORMED:
        return ("estop" if b"\xa1t\xa5estop" in data else None), None  # t: estop
    kind = _short(fields.t)
    return (kind if isinstance(kind, str) else None), fields


def _names_stop(data: bytes) -> bool:
    """Return whether the bytes have an `estop` that is not followed by false, nil or 0."""
    at = data.find(WORD)
    while at >= 0:
        if data[at + len(WORD) : at + len(WORD) + 1] not in NO_STOP:
            return True
        at = data.find(WORD, at + 1)
    return False


def _short(value: msgspec.Raw) -> object:
    """Return a short value; None for a long or malformed one."""
    data = bytes(value)
    if not 0 < len(data) <= SHORT:
        return None
    try:
        return msgspec.msgpack.decode(data)
    except _MALFORMED:
        return None


class StopClients:
    """The clients that may send `estop`, the time of their last message, and what their requests stop."""

    def __init__(self, settings: ServerSettings, sessions: Mapping[bytes, Session], latches: Latches) -> None:
        """sessions: of all clients, by identity; latches: of the robot"""
        self._names, self._by_key = settings.estops, settings.curve is not None  # keys are checked in front of this
        timeout_ms = settings.estop_timeout_ms
        self._timeout_ns = None if timeout_ms is None else round(timeout_ms * 1e6)
        self._sessions, self._latches = sessions, latches
        self._identities: set[bytes] = set()
        self._heard_ns: int | None = None

    def allows(self, name: str | None) -> bool:
        """Return whether a client of this name may stop the robot. None: the message is no `estop`"""
        return name is not None and (self._by_key or name in self._names)

    def hear(self, identity: bytes, now_ns: int) -> None:
        """Note an allowed message. Further ones of this connection may be malformed. now_ns: server's clock [ns]"""
        if len(self._identities) >= MOST_KNOWN:
            self._identities.clear()
        self._identities.add(identity)
        self._heard_ns = now_ns

    def silence(self, now_ns: int) -> str:
        """Return a text if no client was heard for too long; '' otherwise."""
        if self._timeout_ns is None or (self._heard_ns is not None and now_ns - self._heard_ns <= self._timeout_ns):
            return ""
        since = "since the start" if self._heard_ns is None else f"for {(now_ns - self._heard_ns) * 1e-6:.0f} ms"
        return f"no message of an emergency-stop client {since}"

    def urgent(self, identity: bytes, data: bytes) -> bool:
        """Return whether a message is to be handled before all others: it stops the robot, or it is a client's that may."""
        if WORD not in data:
            return False
        message = readable(data)
        request = requested_stop(message, data)
        if request is None:
            return isinstance(message, Estop) and self.allows(message.name)
        return self._stoppable(identity, request) is not None

    def engage(self, identity: bytes, message: Message | None, data: bytes) -> bool:
        """Engage the emergency stop that a message requests. Return False without a request, and if the client may not stop.

        message: None if `data` is malformed
        """
        if type(message) is StateMessage and message.flags is None:  # nearly all messages
            return False
        request = requested_stop(message, data)
        latches = None if request is None else self._stoppable(identity, request)
        if latches is None or request is None:
            return False
        latches.engage(request.reason)
        return True

    def _stoppable(self, identity: bytes, request: StopRequest) -> Latches | None:
        """Return the latches that a client may engage. The session number finds those of one that reconnected without hello."""
        if self.allows(request.name) or identity in self._identities:
            return self._latches
        own = self._sessions.get(identity)
        own = own or next((other for other in self._sessions.values() if other.id == request.session), None)
        return None if own is None else own.latches


def readable(data: bytes) -> Message | None:
    """Return the decoded message; None for a malformed one."""
    try:
        return decode(data)
    except ProtocolError:
        return None
