"""An address that clients connect to: a ROUTER socket with access control, connection limits and the file of ipc addresses."""

import logging
from time import monotonic_ns
from urllib.parse import urlsplit

import zmq

from idyn.errors import ConfigError
from transport.protocol.sizes import PARTS
from transport.server.rate_limit import RateLimit, similar
from transport.server.sockets.access_control import AccessControl
from transport.server.sockets.address import AddressFile, refuse_second_server
from transport.server.sockets.connections import Connections
from transport.server.sockets.listening import SOCKET_MAX_BYTES, listening_socket

log = logging.getLogger(__name__)

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
