"""The server's ROUTER socket and its loop. The loop is driven by messages, not by a clock."""

import ctypes
import logging
import os
import select
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns
from urllib.parse import urlsplit

import zmq

from idyn.errors import ConfigError
from transport.protocol.codec import encode, message_type
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.error import Code
from transport.protocol.sizes import HIGH_WATER, MAX_BYTES
from transport.server.rate_limit import RateLimit
from transport.server.service import Service
from transport.server.sessions.latches import Fault
from transport.server.settings import CurveSettings
from transport.server.sockets.access_control import AccessControl
from transport.server.sockets.anticipation import Anticipation
from transport.server.sockets.connections import Connections

log = logging.getLogger(__name__)

IDLE_MS = 10
"""Interval at which the loop checks for `stop` without messages [ms]."""

DRAIN_MAX = 128
"""Largest number of waiting messages that are read before states are answered."""

EMPTY_NS = 20_000
"""If the socket was empty within this time before a message, the server does not check for a second message [ns]."""

KEEPALIVE_S = 1
"""Interval of TCP keep-alives; three without an answer close the connection. A stopped process still answers them [s]."""

SOCKET_MAX_BYTES = 2 * MAX_BYTES
"""Limit of a message's bytes: above MAX_BYTES it is refused with a reply, above this the connection is closed."""

GENERATED = b"\0"
"""Prefix of identities that this socket generates; ZeroMQ reserves it. Only these may have sessions: any client could claim an
identity that another client chose."""

OWN_IDENTITY = encode(ProtocolError(Code.NOT_CONTROLLING, None, "connect without a ZMQ identity").reply(None, None))

MULTIPART = encode(ProtocolError(Code.BAD_SCHEMA, None, "expected a message of one part").reply(None, None))

READABLE, NOBLOCK, NOBLOCK_MORE = int(zmq.POLLIN), int(zmq.NOBLOCK), int(zmq.NOBLOCK | zmq.SNDMORE)
"""Flags as plain integers: combining pyzmq's flags takes a microsecond each time."""

Message = tuple[bytes, bytes, int]
"""Identity, bytes, arrival on the server's clock [ns]."""


class Router:
    """Owns the socket, passes messages to the service, and sends its replies."""

    def __init__(
        self,
        service: Service,
        address: str,
        on_fault: Callable[[Fault], None],
        anticipation: Anticipation,
        curve: CurveSettings | None = None,
    ) -> None:
        """Bind the socket. Raises ConfigError when that fails, or when another server uses the address.

        on_fault: called with each fault that stops a session until `reset` (latched)
        curve: keys of server and clients; None: no access control
        """
        _refuse_second_server(address)
        self._access = None if curve is None else AccessControl(curve)
        context = zmq.Context.instance() if self._access is None else self._access.context
        self._service = service
        self._on_fault = on_fault
        self._anticipation = anticipation
        self._lines = RateLimit()
        _seed_identities()
        self._socket: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
        for option, value in (
            (zmq.LINGER, 0),
            (zmq.SNDHWM, HIGH_WATER),
            (zmq.RCVHWM, HIGH_WATER),
            (zmq.MAXMSGSIZE, SOCKET_MAX_BYTES),
            (zmq.HANDSHAKE_IVL, 1000),
            (zmq.ROUTER_MANDATORY, 1),
            (zmq.TCP_KEEPALIVE, 1),
            (zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_S),
            (zmq.TCP_KEEPALIVE_INTVL, KEEPALIVE_S),
            (zmq.TCP_KEEPALIVE_CNT, 3),
            (zmq.IPV6, int("[" in address)),
            (zmq.RCVTIMEO, IDLE_MS),
        ):
            self._socket.setsockopt(option, value)
        if self._access is not None:
            self._access.protect(self._socket)
        over_tcp = urlsplit(address).scheme == "tcp"
        self._connections = Connections(self._socket, SOCKET_MAX_BYTES) if over_tcp else None
        try:
            self._socket.bind(address)
            _restrict_permissions(address)
        except (zmq.ZMQError, OSError) as error:
            self.close()
            raise ConfigError("server.endpoint", f"cannot bind {address} ({error})") from error
        self._descriptor: int = int(self._socket.getsockopt(zmq.FD))
        self.endpoint: str = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def __enter__(self) -> "Router":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connections is not None:
            self._connections.close()
        self._socket.close()
        if self._access is not None:
            self._access.close()

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set."""
        while not stop.is_set():
            empty_ns = self._rest()
            first = self._receive(0)
            if first is not None:
                batch, overtaken = newest(self._drain(first, empty_ns))
                for identity, data, t_recv_ns in overtaken:
                    self._service.overtaken(identity, data, t_recv_ns)
                for identity, data, t_recv_ns in batch:
                    self._answer(identity, data, t_recv_ns)
                self._anticipation.arrived(first[2])
            now_ns = monotonic_ns()
            for identity, reply in self._service.finished(now_ns):
                self._send(identity, reply)
            if self._connections is not None:
                self._connections.check(now_ns, self._waiting)

    def _answer(self, identity: bytes, data: bytes, t_recv_ns: int) -> None:
        if not identity.startswith(GENERATED):
            self._send(identity, OWN_IDENTITY)
            return
        answer = self._service.handle(identity, data, t_recv_ns)
        if answer.reply:
            self._send(identity, answer.reply)
        fault = self._service.settle()
        if fault is not None:
            self._on_fault(fault)

    def _rest(self) -> int:
        """Sleep until shortly before the next state, then poll until a message arrives or the state is late.

        Return the last time at which the socket was empty [ns], 0 if it was not polled.
        """
        empty_ns = 0
        rest = self._anticipation.rest_s(monotonic_ns())
        if rest == 0.0 or self._waiting():
            return empty_ns
        select.select([self._descriptor], [], [], rest)
        while not self._waiting() and self._anticipation.expects(empty_ns := monotonic_ns()):
            pass
        return empty_ns

    def _waiting(self) -> bool:
        """Return whether a message can be read."""
        return bool(int(self._socket.getsockopt(zmq.EVENTS)) & READABLE)

    def _receive(self, flags: int) -> Message | None:
        """Return the next message; None without one, and for one that is refused here."""
        try:
            identity = self._socket.recv(flags)
        except zmq.Again:
            return None
        frame = self._socket.recv(copy=False)  # all parts have arrived
        if self._connections is not None:
            self._connections.complete(frame.get(zmq.SRCFD))
        if frame.more:
            self._refuse_parts(identity)
            return None
        if self._access is not None:
            objection = self._access.objection(str(frame.get("User-Id")), frame.bytes)
            if objection:
                self._send(identity, encode(ProtocolError(Code.NOT_CONTROLLING, None, objection).reply()))
                return None
        return identity, frame.bytes, monotonic_ns()

    def _refuse_parts(self, identity: bytes) -> None:
        """Refuse a message of several parts, after reading it to its end."""
        while self._socket.getsockopt(zmq.RCVMORE):
            self._socket.recv()
        self._send(identity, MULTIPART)

    def _drain(self, first: Message, empty_ns: int) -> list[Message]:
        """Return the first message and those that wait after it. empty_ns: last time at which the socket was empty [ns]"""
        batch = [first]
        if first[2] - empty_ns < EMPTY_NS:
            return batch
        while len(batch) < DRAIN_MAX and self._waiting() and (message := self._receive(NOBLOCK)) is not None:
            batch.append(message)
        return batch

    def _send(self, identity: bytes, reply: bytes) -> None:
        try:
            self._socket.send(identity, NOBLOCK_MORE)
            self._socket.send(reply, NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                raise
            if (silent := self._lines.admit("unsent", monotonic_ns())) is not None:
                log.warning("a client is disconnected or does not read its replies; %d similar not logged", silent)


def newest(batch: list[Message]) -> tuple[list[Message], list[Message]]:
    """Split a batch into messages to answer and overtaken states, both in their order.

    A state is overtaken when the batch has a later one of the same client. All other messages are answered.
    """
    if len(batch) == 1:
        return batch, []
    kept: list[Message] = []
    overtaken: list[Message] = []
    newer: set[bytes] = set()
    for message in reversed(batch):
        identity, data, _ = message
        is_state = message_type(data) == "state"
        (overtaken if is_state and identity in newer else kept).append(message)
        if is_state:
            newer.add(identity)
    return kept[::-1], overtaken[::-1]


def _seed_identities() -> None:
    """Seed `rand()`, from which libzmq derives the identities of a socket.

    Without a seed the identities are the same in every process. A client that guesses them could claim the identity of a closed
    connection, or the identity that libzmq will generate next; then an assertion of libzmq ends the process.
    """
    ctypes.CDLL(None).srand(int.from_bytes(os.urandom(4), "little"))


def _restrict_permissions(address: str) -> None:
    """Restrict access to the file of an ipc address to this user."""
    path = address.removeprefix("ipc://")
    if urlsplit(address).scheme == "ipc" and not path.startswith("@"):
        os.chmod(path, 0o600)


def _refuse_second_server(address: str) -> None:
    """Raise ConfigError if a server runs at an ipc address: binding would silently take the address from it."""
    path = address.removeprefix("ipc://")
    if urlsplit(address).scheme != "ipc" or path.startswith("@") or not Path(path).exists():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        if probe.connect_ex(path) == 0:
            raise ConfigError("server.endpoint", f"another server is serving at {address}")
