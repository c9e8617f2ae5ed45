"""An address that clients connect to: a ROUTER socket with access control, connection limits and the file of ipc addresses."""

import logging
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns
from urllib.parse import urlsplit

import zmq
from zmq.utils.monitor import recv_monitor_message

from idyn.errors import ConfigError
from transport.protocol.codec import PARTS
from transport.server.rate_limit import RateLimit, similar
from transport.server.sockets.access_control import AccessControl
from transport.server.sockets.listening import SOCKET_MAX_BYTES, AddressFile, listening_socket, refuse_second_server

log = logging.getLogger(__name__)

CHECK_NS = 10_000_000
"""Interval of checks [ns]."""

PER_CHECK = 64
"""Number of connections that one check covers; checks go through all connections in turn."""

SPARE_BYTES = 20
"""Bytes between two checks that are not counted: ZMQ's own heartbeats, which are not messages."""

UNREAD_FACTOR = 64
"""Factor on the limit while complete messages wait to be read: until then it is unknown on which connection they arrived."""

RECEIVED = struct.Struct("<Q")
RECEIVED_AT = 128
"""Offset of the number of received bytes in `tcp_info`, the kernel's record of a connection (Linux)."""


class Peer:
    """A connection.

    complete_at: bytes received when its last message was complete
    completed: a message has been completed since the last check
    """

    def __init__(self) -> None:
        self.complete_at = 0
        self.completed = False


class Connections:
    """Closes connections that send more than `most` bytes without completing a message."""

    def __init__(self, server: "zmq.Socket[bytes]", most: int) -> None:
        """server: ROUTER socket, not yet bound; most: limit of bytes of an incomplete message"""
        self._server, self._most = server, most
        self._events = server.get_monitor_socket(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        self._peers: dict[int, Peer] = {}
        self._checked_ns = 0
        self._next = 0
        self._was_idle = False
        self._lines = RateLimit()

    def complete(self, fd: int) -> None:
        """Note a complete message on the connection of this file descriptor."""
        if (peer := self._peers.get(fd)) is not None:
            peer.completed = True

    def check(self, now_ns: int, waiting: Callable[[], bool]) -> None:
        """Close connections above the limit, once per `CHECK_NS`. waiting: whether messages wait to be read"""
        if now_ns - self._checked_ns < CHECK_NS:
            return
        self._checked_ns = now_ns
        self._note_events()
        idle = not waiting()
        most = self._most if idle and self._was_idle else UNREAD_FACTOR * self._most
        self._was_idle = idle
        descriptors = list(self._peers)
        self._next = self._next % max(1, len(descriptors))
        for fd in descriptors[self._next : self._next + PER_CHECK]:
            self._check_peer(fd, self._peers[fd], most, now_ns)
        self._next += PER_CHECK

    def close(self) -> None:
        """Stop monitoring. Call before closing the server's socket."""
        self._server.disable_monitor()
        self._events.close()

    def _note_events(self) -> None:
        while self._events.poll(0):
            event = recv_monitor_message(self._events)
            if event["event"] == zmq.EVENT_ACCEPTED:
                self._peers[int(event["value"])] = Peer()
            else:
                self._peers.pop(int(event["value"]), None)

    def _check_peer(self, fd: int, peer: Peer, most: int, now_ns: int) -> None:
        received = _received(fd)
        if received is None:
            return
        if peer.completed:
            peer.complete_at, peer.completed = received, False
        open_bytes = received - peer.complete_at
        peer.complete_at += min(SPARE_BYTES, open_bytes)
        if open_bytes > most:
            _cut(fd)
            if (silent := self._lines.admit("cut", now_ns)) is not None:
                log.warning("connection closed: %d bytes without a complete message%s", open_bytes, similar(silent))


def _cut(fd: int) -> None:
    """Close a connection and free its received bytes. The client is disconnected."""
    with suppress(OSError), socket.socket(fileno=os.dup(fd)) as connection:  # it may have been closed meanwhile
        connection.shutdown(socket.SHUT_RDWR)


def _received(fd: int) -> int | None:
    """Return the bytes received on a connection; None when it has been closed, or no file descriptors are left."""
    try:
        with socket.socket(fileno=os.dup(fd)) as connection:
            record = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, RECEIVED_AT + RECEIVED.size)
    except OSError:
        return None
    return int(RECEIVED.unpack_from(record, RECEIVED_AT)[0])


READABLE, NOBLOCK, NOBLOCK_MORE = int(zmq.POLLIN), int(zmq.NOBLOCK), int(zmq.NOBLOCK | zmq.SNDMORE)
"""Flags as plain integers: combining pyzmq's flags takes a microsecond each time."""


class Port:
    """A bound address.

    endpoint: the address as bound; access: its access control, None without keys
    descriptors: become readable when a message or a handshake may have arrived (edge-triggered, see ZMQ_FD)
    """

    def __init__(
        self,
        address: str,
        access: AccessControl | None = None,
        *,
        context: "zmq.Context[zmq.Socket[bytes]] | None" = None,
        mark: bytes = b"",
    ) -> None:
        """Bind the address. Raises ConfigError when that fails.

        context: of the socket without access control, destroyed by `close`; None: that of the process
        mark: appended to the identities of its clients, so that those of two ports differ
        """
        self.access, self._mark = access, mark
        self._own_context = context
        used = context or zmq.Context.instance() if access is None else access.context
        self._lines = RateLimit()
        self._socket = listening_socket(used, ipv6="[" in address)
        if access is not None:
            access.protect(self._socket)
        over_tcp = urlsplit(address).scheme == "tcp"
        self._connections = Connections(self._socket, SOCKET_MAX_BYTES) if over_tcp else None
        self._file: AddressFile | None = None
        try:
            self._socket.bind(address)
            self._file = AddressFile(address)
        except (zmq.ZMQError, OSError) as error:
            self.close()
            raise ConfigError("server.endpoint", f"cannot bind {address} ({error})") from error
        self.endpoint: str = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self.descriptors = [int(self._socket.getsockopt(zmq.FD))] + ([] if access is None else [access.descriptor])

    def close(self) -> None:
        """Close the socket, and remove the file of its address."""
        if self._file is not None:
            self._file.remove()
        if self._connections is not None:
            self._connections.close()
        self._socket.close()
        if self.access is not None:
            self.access.close()
        if self._own_context is not None:
            self._own_context.destroy(linger=0)

    def waiting(self) -> bool:
        """Return whether a message can be read."""
        return bool(int(self._socket.getsockopt(zmq.EVENTS)) & READABLE)

    def receive(self, flags: int) -> tuple[bytes, bytes, bool, str] | None:
        """Return identity, bytes, whether it has several parts, and key of the next message; None without one.

        Several parts are joined and begin with PARTS.
        """
        try:
            identity = self._socket.recv(flags)
        except zmq.Again:
            return None
        frame = self._socket.recv(copy=False)  # all parts have arrived
        if self._connections is not None:
            self._connections.complete(frame.get(zmq.SRCFD))
        in_parts = frame.more
        data = self._joined(frame.bytes) if in_parts else frame.bytes
        return identity + self._mark, data, in_parts, "" if self.access is None else str(frame.get("User-Id"))

    def _joined(self, first: bytes) -> bytes:
        joined = bytearray(PARTS + first)
        while self._socket.getsockopt(zmq.RCVMORE):
            part = self._socket.recv()
            if len(joined) < SOCKET_MAX_BYTES:
                joined += part
        return bytes(joined)

    def send(self, identity: bytes, reply: bytes) -> None:
        """Send a reply without waiting. It is dropped if the client is disconnected or does not read."""
        try:
            self._socket.send(identity.removesuffix(self._mark), NOBLOCK_MORE)
            self._socket.send(reply, NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                raise
            if (silent := self._lines.admit("unsent", monotonic_ns())) is not None:
                log.warning("a client is disconnected or does not read its replies%s", similar(silent))

    def check(self, now_ns: int) -> None:
        """Close connections above their limit, and bind a lost address anew. Raises ConfigError if that fails."""
        if self._connections is not None:
            self._connections.check(now_ns, self.waiting)
        if self._file is not None and (lost := self._file.lost(now_ns)):
            self._bind_anew(self._file, lost)

    def _bind_anew(self, file: AddressFile, lost: str) -> None:
        """Bind the address again after its file was lost. Raises ConfigError if that fails, or if another server has it."""
        log.error("the file of %s %s", self.endpoint, lost)
        refuse_second_server(self.endpoint)
        try:
            self._socket.bind(self.endpoint)  # without unbinding, which would end the connections
            file.restrict()
        except (zmq.ZMQError, OSError) as error:
            why = f"the file of {self.endpoint} {lost}; cannot bind it again ({error})"
            raise ConfigError("server.endpoint", why) from error
        log.warning("bound %s anew", self.endpoint)
