"""The server's ROUTER socket and its loop. The loop is driven by messages, not by a clock.

Order: emergency stops, the controlling client's messages, then those of all others, within their share of the time
(`transport.server.sockets.others`). The share is spent right after an answer, when the next state is not due. When it is used
up, messages of others stay in their sockets: the loop reads no more of them than it must to find the robot's state.
"""

import logging
import select
import threading
from collections.abc import Callable
from time import monotonic_ns, sleep, thread_time_ns
from urllib.parse import urlsplit

import zmq

from idyn.errors import ConfigError
from transport.protocol.codec import encode
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.error import Code
from transport.protocol.sizes import PARTS
from transport.server.rate_limit import RateLimit, similar
from transport.server.service import Service
from transport.server.sessions.latches import Fault
from transport.server.settings import CurveSettings
from transport.server.sockets.access_control import AccessControl
from transport.server.sockets.address import AddressFile, refuse_second_server
from transport.server.sockets.anticipation import Anticipation
from transport.server.sockets.connections import Connections
from transport.server.sockets.listening import SOCKET_MAX_BYTES, listening_socket
from transport.server.sockets.others import MOST_BYTES, Message, Others, newest
from transport.systemd import NOBODY, Systemd

log = logging.getLogger(__name__)

DRAIN_MAX = 128
"""Largest number of waiting messages that are read before states are answered."""

EMPTY_NS = 20_000
"""If the socket was empty within this time before a message, the server does not check for a second message [ns]."""

GENERATED = b"\0"
"""Prefix of identities that this socket generates; ZeroMQ reserves it. Only these may have sessions: any client could claim an
identity that another client chose."""

OWN_IDENTITY = encode(ProtocolError(Code.NOT_CONTROLLING, None, "connect without a ZMQ identity").reply(None, None))

MULTIPART = encode(ProtocolError(Code.BAD_SCHEMA, None, "expected a message of one part").reply(None, None))

READABLE, NOBLOCK, NOBLOCK_MORE = int(zmq.POLLIN), int(zmq.NOBLOCK), int(zmq.NOBLOCK | zmq.SNDMORE)
"""Flags as plain integers: combining pyzmq's flags takes a microsecond each time."""

FOREIGN_MAX = 4
"""Messages of others, besides one of each waiting client, that are read in a row while the robot's state is looked for."""

PAUSE_NS = 20_000
"""Time without reading between two such looks, and before the state is due when others have no time left [ns]."""

TOO_LONG = encode(
    ProtocolError(Code.BAD_SCHEMA, None, f"expected at most {MOST_BYTES} bytes while another client controls the robot").reply()
)

FAREWELL_S = 0.05
"""Time that the socket has to send the goodbyes before it is closed [s]."""


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
        refuse_second_server(address)
        self._access = None if curve is None else AccessControl(curve)
        context = zmq.Context.instance() if self._access is None else self._access.context
        self._service = service
        self._on_fault = on_fault
        self._anticipation = anticipation
        self._lines = RateLimit()
        self._others = Others(service)
        self._socket = listening_socket(context, ipv6="[" in address)
        if self._access is not None:
            self._access.protect(self._socket)
        over_tcp = urlsplit(address).scheme == "tcp"
        self._connections = Connections(self._socket, SOCKET_MAX_BYTES) if over_tcp else None
        try:
            self._socket.bind(address)
            self._file = AddressFile(address)
        except (zmq.ZMQError, OSError) as error:
            self.close()
            raise ConfigError("server.endpoint", f"cannot bind {address} ({error})") from error
        self._descriptor: int = int(self._socket.getsockopt(zmq.FD))
        self.endpoint: str = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def __enter__(self) -> "Router":
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.remove()
        self.close()

    def close(self) -> None:
        if self._connections is not None:
            self._connections.close()
        self._socket.close()
        if self._access is not None:
            self._access.close()

    def run(self, stop: threading.Event, systemd: Systemd = NOBODY) -> None:
        """Serve until `stop` is set, then say goodbye. Raises ConfigError when the address is lost and cannot be bound anew.

        systemd: told by this loop that it runs, twice in the time of its watchdog
        """
        try:
            while not stop.is_set():
                if (now_ns := monotonic_ns()) >= systemd.due_ns:
                    systemd.beat(now_ns, self._service.timings.summary)
                self._turn(self._service.dispatcher.controlling(now_ns))
        finally:
            goodbyes = self._service.farewell("the server ends")
            for identity, goodbye in goodbyes:
                self._send(identity, goodbye)
            if goodbyes:
                sleep(FAREWELL_S)

    def _turn(self, control: bytes) -> None:
        """Read and answer waiting messages. control: identity of the controlling client; b'' without one: all are served"""
        empty_ns = self._rest(control)
        messages = self._read(empty_ns, control)
        batch, overtaken = newest(messages)
        for identity, data, t_recv_ns in overtaken:
            self._service.overtaken(identity, data, t_recv_ns)
        for identity, data, t_recv_ns in batch:
            self._answer(identity, data, t_recv_ns)
        if messages:
            self._anticipation.arrived(messages[0][2], self._service.dispatcher.period_ns())
        self._serve_others(after_answer=bool(messages))
        now_ns = monotonic_ns()
        for identity, reply in self._service.finished(now_ns):
            self._send(identity, reply)
        if self._connections is not None:
            self._connections.check(now_ns, self._waiting)
        if lost := self._file.lost(now_ns):
            self._bind_anew(lost)

    def _read(self, empty_ns: int, control: bytes) -> list[Message]:
        """Return waiting messages of the controlling client, or of all clients without one; put those of others aside.

        empty_ns: last time at which the socket was empty [ns]
        """
        messages: list[Message] = []
        foreign, others, begin = 0, 0, 0
        most = FOREIGN_MAX + self._others.clients if control else DRAIN_MAX
        flags = NOBLOCK if self._others.clients and self._others.has_time(monotonic_ns()) else 0
        while len(messages) < DRAIN_MAX and foreign < most:
            message = self._receive(flags, control)
            begin = begin or thread_time_ns()
            if message is not None and (not control or message[0] == control):
                messages.append(message)
                foreign = 0
                if message[2] - empty_ns < EMPTY_NS:
                    break
            else:
                foreign, others = foreign + 1, others + 1
                if message is not None:
                    self._put_aside(message)
            if not self._waiting():
                break
            flags = NOBLOCK
        if others and control:
            self._others.spend((thread_time_ns() - begin) * others // (others + len(messages)))
        return messages

    def _put_aside(self, message: Message) -> None:
        """Queue a message of another client. An emergency stop, and the heartbeat of its client, is handled at once."""
        if self._service.dispatcher.stops.urgent(message[0], message[1]):
            self._answer(*message)
        else:
            self._others.put(message)

    def _serve_others(self, *, after_answer: bool) -> None:
        """Answer messages of other clients, as long as there is time for them and the robot's state is not due.

        after_answer: the controlling client has just been answered
        """
        if after_answer and (shadow := self._others.take_shadow()) is not None:
            self._answer(*shadow)
        while self._others.clients and self._others.has_time(now_ns := monotonic_ns()) and not self._anticipation.soon(now_ns):
            begin, message = thread_time_ns(), self._others.take()
            assert message is not None  # by `clients`
            self._answer(*message)
            self._others.spend(thread_time_ns() - begin)
            if not after_answer:
                break  # the robot's state may have arrived

    def _bind_anew(self, lost: str) -> None:
        """Bind the address again after its file was lost. Raises ConfigError if that fails, or if another server has it."""
        log.error("the file of %s %s", self.endpoint, lost)
        refuse_second_server(self.endpoint)
        try:
            self._socket.bind(self.endpoint)  # without unbinding, which would end the connections
            self._file.restrict()
        except (zmq.ZMQError, OSError) as error:
            why = f"the file of {self.endpoint} {lost}; cannot bind it again ({error})"
            raise ConfigError("server.endpoint", why) from error
        log.warning("bound %s anew", self.endpoint)

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

    def _rest(self, control: bytes) -> int:
        """Sleep until shortly before the next state, then poll until a message arrives or the state is late.

        Return the last time at which the socket was empty [ns], 0 if it was not polled.
        """
        empty_ns = 0
        now_ns = monotonic_ns()
        rest = self._anticipation.rest_s(now_ns)
        waiting = self._waiting()
        if waiting and control and not self._others.has_time(now_ns):
            sleep(rest)  # only the robot's state matters
            look_ns = max(self._anticipation.due_ns() - PAUSE_NS if rest else 0, monotonic_ns() + PAUSE_NS)
            while monotonic_ns() < look_ns:
                pass
            return empty_ns
        if rest == 0.0 or waiting:
            return empty_ns
        select.select([self._descriptor], [], [], rest)
        while not self._waiting() and self._anticipation.expects(empty_ns := monotonic_ns()):
            pass
        return empty_ns

    def _waiting(self) -> bool:
        """Return whether a message can be read."""
        return bool(int(self._socket.getsockopt(zmq.EVENTS)) & READABLE)

    def _receive(self, flags: int, control: bytes) -> Message | None:
        """Return the next message; None without one, and for one that is refused here."""
        try:
            identity = self._socket.recv(flags)
        except zmq.Again:
            return None
        frame = self._socket.recv(copy=False)  # all parts have arrived
        if self._connections is not None:
            self._connections.complete(frame.get(zmq.SRCFD))
        if frame.more:
            return self._join_parts(identity, frame.bytes)
        data = frame.bytes
        dispatcher = self._service.dispatcher
        stranger = control and len(data) > MOST_BYTES and not dispatcher.knows(identity)
        if stranger and not dispatcher.stops.urgent(identity, data):
            self._send(identity, TOO_LONG)
            return None
        if self._access is not None:
            objection = self._access.objection(str(frame.get("User-Id")), data)
            if objection:
                self._send(identity, encode(ProtocolError(Code.NOT_CONTROLLING, None, objection).reply()))
                return None
        return identity, data, monotonic_ns()

    def _join_parts(self, identity: bytes, first: bytes) -> Message | None:
        """Read a message of several parts to its end, and refuse it. Return it, joined, if it stops the robot."""
        joined = bytearray(PARTS + first)
        while self._socket.getsockopt(zmq.RCVMORE):
            part = self._socket.recv()
            if len(joined) < SOCKET_MAX_BYTES:
                joined += part
        data = bytes(joined)
        if self._service.dispatcher.stops.urgent(identity, data):
            return identity, data, monotonic_ns()
        self._send(identity, MULTIPART)
        return None

    def _send(self, identity: bytes, reply: bytes) -> None:
        try:
            self._socket.send(identity, NOBLOCK_MORE)
            self._socket.send(reply, NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                raise
            if (silent := self._lines.admit("unsent", monotonic_ns())) is not None:
                log.warning("a client is disconnected or does not read its replies%s", similar(silent))
