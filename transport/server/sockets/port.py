"""An address that clients connect to: a ROUTER socket with access control, connection limits and the file of ipc addresses."""

import ctypes
import logging
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns
from urllib.parse import urlsplit

import zmq
from zmq.utils.monitor import recv_monitor_message

from idyn.errors import ConfigError
from transport.protocol.codec import HIGH_WATER, MAX_BYTES, PARTS
from transport.server.service import RateLimit, similar
from transport.server.sockets.access_control import AccessControl

LOOK_NS = 1_000_000_000  # interval at which the file is looked for [ns]


def file_of(address: str) -> Path | None:
    """Return the file of an ipc address; None for other and for abstract addresses."""
    path = address.removeprefix("ipc://")
    return None if urlsplit(address).scheme != "ipc" or path.startswith("@") else Path(path)


def refuse_second_server(address: str) -> None:
    """Raise ConfigError if a server runs at an ipc address: binding would silently take the address from it."""
    path = file_of(address)
    if path is None or not path.exists():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        if probe.connect_ex(str(path)) == 0:
            raise ConfigError("server.endpoint", f"another server is serving at {address}")


class AddressFile:
    """Restricts the file of a bound address to this user, notices when it is lost, and removes it at the end."""

    def __init__(self, address: str) -> None:
        """Raises OSError if the rights cannot be set."""
        self._path = file_of(address)
        self._checked_ns = 0
        self._own: tuple[int, int] | None = None
        self.restrict()

    def restrict(self) -> None:
        """Restrict access to the file, and remember which one it is."""
        if self._path is not None:
            os.chmod(self._path, 0o600)
            self._own = self._found()

    def lost(self, now_ns: int) -> str:
        """Return how the file was lost, '' if it is in place. It is looked for once per `LOOK_NS`."""
        if self._path is None or now_ns - self._checked_ns < LOOK_NS:
            return ""
        self._checked_ns = now_ns
        found = self._found()
        if found == self._own:
            return ""
        return "was removed" if found is None else "was replaced"

    def remove(self) -> None:
        """Remove the file, unless it is another server's by now."""
        if self._path is not None and self._found() == self._own:
            self._path.unlink(missing_ok=True)

    def _found(self) -> tuple[int, int] | None:
        assert self._path is not None  # by the callers
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino


IDLE_MS = 10  # interval at which the loop checks for `stop` without messages [ms]

KEEPALIVE_S = 1
"""Interval of TCP keep-alives; three without an answer close the connection. A stopped process still answers them [s]."""

SOCKET_MAX_BYTES = 2 * MAX_BYTES
"""Limit of a message's bytes: above MAX_BYTES it is refused with a reply, above this the connection is closed."""

BACKGROUND_NICE = 10
"""Niceness of ZeroMQ's thread for clients besides the robot: a tenth of the processor, if others need all of it (Linux)."""


def background_context() -> "zmq.Context[zmq.Socket[bytes]]":
    """Return a context whose thread, which decrypts messages and shakes hands, gives way to the robot's and to the loop."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    context.set(zmq.THREAD_NAME_PREFIX, 1)  # `real_time` gives threads of this name no priority

    def start() -> None:
        if sys.platform == "linux":
            own = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, 0, max(own, BACKGROUND_NICE))  # of this thread, which those of the context inherit
        context.socket(zmq.PAIR).close()

    starter = threading.Thread(target=start)
    starter.start()
    starter.join()
    return context


def listening_socket(context: "zmq.Context[zmq.Socket[bytes]]", *, ipv6: bool) -> "zmq.Socket[bytes]":
    """Return a ROUTER socket that is not bound yet."""
    # libzmq derives the identities of a socket from `rand()`: without a seed they are the same in every process. A client that
    # guesses them could claim that of a closed connection, or the next one; then an assertion of libzmq ends the process
    ctypes.CDLL(None).srand(int.from_bytes(os.urandom(4), "little"))
    server: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
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
        (zmq.IPV6, int(ipv6)),
        (zmq.RCVTIMEO, IDLE_MS),
    ):
        server.setsockopt(option, value)
    return server


log = logging.getLogger(__name__)

CHECK_NS = 10_000_000  # interval of checks [ns]
PER_CHECK = 64  # number of connections that one check covers; checks go through all connections in turn
SPARE_BYTES = 20  # bytes between two checks that are not counted: ZMQ's own heartbeats, which are not messages

UNREAD_FACTOR = 64
"""Factor on the limit while complete messages wait to be read: until then it is unknown on which connection they arrived."""

RECEIVED = struct.Struct("<Q")
RECEIVED_AT = 128  # offset of the number of received bytes in `tcp_info`, the kernel's record of a connection (Linux)


class Connections:
    """Closes connections that send more than `most` bytes without completing a message."""

    def __init__(self, server: "zmq.Socket[bytes]", most: int) -> None:
        """server: ROUTER socket, not yet bound; most: limit of bytes of an incomplete message"""
        self._server, self._most = server, most
        self._events = server.get_monitor_socket(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        self._complete_at: dict[int, int] = {}  # file descriptor → bytes received when its last message was complete
        self._completed: set[int] = set()  # a message has been completed since the last check
        self._checked_ns = 0
        self._next = 0
        self._was_idle = False
        self._lines = RateLimit()

    def complete(self, fd: int) -> None:
        """Note a complete message on the connection of this file descriptor."""
        if fd in self._complete_at:
            self._completed.add(fd)

    def check(self, now_ns: int, waiting: Callable[[], bool]) -> None:
        """Close connections above the limit, once per `CHECK_NS`. waiting: whether messages wait to be read"""
        if now_ns - self._checked_ns < CHECK_NS:
            return
        self._checked_ns = now_ns
        self._note_events()
        idle = not waiting()
        most = self._most if idle and self._was_idle else UNREAD_FACTOR * self._most
        self._was_idle = idle
        descriptors = list(self._complete_at)
        self._next = self._next % max(1, len(descriptors))
        for fd in descriptors[self._next : self._next + PER_CHECK]:
            self._check_peer(fd, most, now_ns)
        self._next += PER_CHECK

    def close(self) -> None:
        """Stop monitoring. Call before closing the server's socket."""
        self._server.disable_monitor()
        self._events.close()

    def _note_events(self) -> None:
        while self._events.poll(0):
            event = recv_monitor_message(self._events)
            fd = int(event["value"])
            self._completed.discard(fd)
            if event["event"] == zmq.EVENT_ACCEPTED:
                self._complete_at[fd] = 0
            else:
                self._complete_at.pop(fd, None)

    def _check_peer(self, fd: int, most: int, now_ns: int) -> None:
        received = _received(fd)
        if received is None:
            return
        if fd in self._completed:
            self._completed.remove(fd)
            self._complete_at[fd] = received
        open_bytes = received - self._complete_at[fd]
        self._complete_at[fd] += min(SPARE_BYTES, open_bytes)
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
