"""The server's ROUTER sockets and their loop. The loop is driven by messages, not by a clock.

Order: emergency stops, the controlling client's messages, then those of all others, within their share of the time
(`transport.server.sockets.scheduling`), right after an answer. When it is used up, messages of others stay in their sockets.

With an address of the robot's own, that of the others is read after the answer only, and once in a few milliseconds however
little time is left, so that an emergency stop is found.
"""

import select
import threading
from collections.abc import Callable
from time import monotonic_ns, sleep

import zmq

from transport.protocol.codec import encode, message_type
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.base import Code
from transport.server.process import NOBODY, Systemd
from transport.server.service import Service
from transport.server.sessions.dispatcher import Dispatcher
from transport.server.sessions.latches import Fault
from transport.server.settings import CurveSettings
from transport.server.sockets.access_control import ROBOT_ROLES, AccessControl, wants_control
from transport.server.sockets.port import IDLE_MS, NOBLOCK, Port, background_context, refuse_second_server
from transport.server.sockets.scheduling import MOST_BYTES, Anticipation, Message, Others, newest

GENERATED = b"\0"
"""Prefix of identities that a socket generates; ZeroMQ reserves it. Only these may have sessions: any client could claim an
identity that another client chose."""

REFUSED: Message = b"", b"", 0  # stands for a message that was refused here


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


DRAIN_MAX = 128  # largest number of waiting messages that are read before states are answered

EMPTY_NS = 20_000
"""If the socket was empty within this time before a message, the server does not check for a second message [ns]."""

OTHER_MARK = b"o"  # appended to the identities of clients of the address that is not the robot's own
PLAIN = 5  # length of an identity that ZeroMQ generates [bytes]

FOREIGN_MAX = 4
"""Messages of others, besides one of each waiting client, that are read in a row while the robot's state is looked for."""

PAUSE_NS = 20_000  # time without reading between two such looks, and before the state is due when others have no time left [ns]
WITHOUT_TIME_S = 1e-3  # longest wait for the robot's next message when messages of others wait for time [s]
LOOK_NS = 5_000_000  # longest time without reading a message of others, where the robot has an address of its own [ns]
FAREWELL_S = 0.05  # time that the sockets have to send the goodbyes before they are closed [s]


class Router:
    """Owns the sockets, passes messages to the service, and sends its replies.

    endpoint: the robot's address, and that of all clients without `others_endpoint`, as bound; place: both in words
    """

    def __init__(
        self,
        service: Service,
        address: str,
        on_fault: Callable[[Fault], None],
        anticipation: Anticipation,
        curve: CurveSettings | None = None,
        *,
        others_address: str | None = None,
    ) -> None:
        """Bind the sockets. Raises ConfigError when that fails, or when another server uses an address.

        on_fault: called with each fault that stops a session until `reset` (latched)
        curve: keys of server and clients; None: no access control
        others_address: of all clients but the controlling one; None: `address` is for all
        """
        self._service = service
        self._on_fault = on_fault
        self._anticipation = anticipation
        self._others = Others(service)
        self._looked_ns = 0  # last look at the address of others
        self._ports: list[Port] = []
        self._robot = self._open(address, curve, apart=others_address is not None)
        self.endpoint = self.place = self._robot.endpoint
        self._side = None if others_address is None else self._open(others_address, curve, mark=OTHER_MARK)
        self.others_endpoint = None if self._side is None else self._side.endpoint
        if self._side is not None:
            self.place = f"{self.others_endpoint}, the robot at {self.endpoint}"
        self._accesses = [port.access for port in self._ports if port.access is not None]
        self._descriptors = [descriptor for port in self._ports for descriptor in port.descriptors]

    def _open(self, address: str, curve: CurveSettings | None, *, apart: bool = False, mark: bytes = b"") -> Port:
        """Bind an address. apart: of the robot alone; mark: of all other clients alone, b'' with the robot among them"""
        refuse_second_server(address)
        context = background_context() if mark else None if curve is None else zmq.Context()
        access = None
        try:
            if curve is not None and context is not None:
                access = AccessControl(curve, context, ROBOT_ROLES if apart else None)
            port = Port(address, access, context=None if access else context, mark=mark)
        except BaseException:
            if context is not None:
                context.destroy(linger=0)
            self.close()
            raise
        self._ports.append(port)
        return port

    def __enter__(self) -> "Router":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        for port in self._ports:
            port.close()

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
        self._others.start()
        messages, foreign = self._read(empty_ns, control)
        if foreign and control:
            self._others.charge(foreign / (foreign + len(messages)))
        batch, overtaken = newest(messages)
        for identity, data, t_recv_ns in overtaken:
            self._service.overtaken(identity, data, t_recv_ns)
        for identity, data, t_recv_ns in batch:
            self._answer(identity, data, t_recv_ns)
        if messages:
            self._anticipation.arrived(messages[0][2], self._service.dispatcher.period_ns())
        if control:
            self._serve_others(control, after_answer=bool(messages))
        else:
            self._serve_everybody()
        now_ns = monotonic_ns()
        for identity, reply in self._service.finished(now_ns):
            self._send(identity, reply)
        for port in self._ports:
            port.check(now_ns)
        if foreign and control and not messages:
            self._others.charge()  # without them this turn would not have been

    def _read(self, empty_ns: int, control: bytes) -> tuple[list[Message], int]:
        """Return waiting messages of the controlling client, or of all clients without one; put those of others aside.

        empty_ns: last time at which the socket was empty [ns]
        Return also the number of messages of others.
        """
        messages: list[Message] = []
        row, others = 0, 0
        most = FOREIGN_MAX + self._others.clients if control else DRAIN_MAX
        alone = len(self._descriptors) == 1  # else `_rest` has waited
        flags = 0 if alone and not (self._others.clients and self._others.has_time(monotonic_ns())) else NOBLOCK
        while len(messages) < DRAIN_MAX and row < most:
            message = receive(self._robot, self._service.dispatcher, flags, control)
            if message is None:
                break
            if message is not REFUSED and (not control or message[0] == control):
                messages.append(message)
                row = 0
                if message[2] - empty_ns < EMPTY_NS:
                    break
            else:
                row, others = row + 1, others + 1
                if message is not REFUSED:
                    self._put_aside(message)
            if not self._robot.waiting():
                break
            flags = NOBLOCK
        return messages, others

    def _put_aside(self, message: Message) -> None:
        """Queue a message of another client. An emergency stop, and the heartbeat of its client, is handled at once."""
        if self._service.dispatcher.stops.urgent(message[0], message[1]):
            self._answer(*message)
        else:
            self._others.put(message)

    def _serve_others(self, control: bytes, *, after_answer: bool) -> None:
        """Serve other clients, as long as there is time for them and the robot's state is not due.

        after_answer: the controlling client has just been answered
        """
        self._others.start()
        if after_answer and (shadow := self._others.take_shadow()) is not None:
            self._answer(*shadow)
            self._others.charge(owed=False)
        while self._pending() and not self._anticipation.soon(now_ns := monotonic_ns()):
            if not self._others.has_time(now_ns):
                if now_ns - self._looked_ns >= LOOK_NS:
                    self._look_aside(control, now_ns)
                break
            for access in self._accesses:
                access.decide(1)
            self._look_aside(control, now_ns)
            if (message := self._others.take()) is not None:
                self._answer(*message)
            self._others.charge()
            if not after_answer:
                break  # the robot's state may have arrived

    def _look_aside(self, control: bytes, now_ns: int) -> None:
        """Read one message from the address of other clients, and put it aside."""
        self._looked_ns = now_ns
        if self._side is not None and (message := self._receive_aside(control)) is not None:
            if message is not REFUSED:
                self._put_aside(message)
            self._others.charge()

    def _receive_aside(self, control: bytes) -> Message | None:
        """Return the next message from the address of other clients, None without one or without such an address."""
        if self._side is None or not self._side.waiting():
            return None
        return receive(self._side, self._service.dispatcher, NOBLOCK, control, self.endpoint)

    def _serve_everybody(self) -> None:
        """Serve other clients and all handshakes, as no client controls the robot."""
        for access in self._accesses:
            access.decide(DRAIN_MAX)
        for _ in range(DRAIN_MAX):
            message = self._others.take() or self._others.take_shadow() or self._receive_aside(b"")
            if message is None:
                break
            if message is not REFUSED:
                self._answer(*message)

    def _pending(self) -> bool:
        if self._others.clients or (self._side is not None and self._side.waiting()):
            return True
        return any(access.waiting() for access in self._accesses)

    def _answer(self, identity: bytes, data: bytes, t_recv_ns: int) -> None:
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
        waiting = self._robot.waiting()
        if waiting and control and self._side is None and not self._others.has_time(now_ns):
            sleep(rest)  # only the robot's state matters
            look_ns = max(self._anticipation.due_ns() - PAUSE_NS if rest else 0, monotonic_ns() + PAUSE_NS)
            while monotonic_ns() < look_ns:
                pass
            return empty_ns
        if waiting:
            return empty_ns
        if rest == 0.0:
            if len(self._descriptors) > 1:
                self._wait(control)
            return empty_ns
        select.select(self._robot.descriptors[:1], [], [], rest)
        while not self._robot.waiting() and self._anticipation.expects(empty_ns := monotonic_ns()):
            pass
        return empty_ns

    def _wait(self, control: bytes) -> None:
        """Sleep until a message or a handshake may have arrived that is served now. The robot's socket was empty."""
        serves_all = not control or self._others.has_time(monotonic_ns())
        if not serves_all:
            select.select(self._descriptors[:1], [], [], WITHOUT_TIME_S)
        elif not self._pending():
            select.select(self._descriptors, [], [], IDLE_MS * 1e-3)

    def _send(self, identity: bytes, reply: bytes) -> None:
        (self._robot if self._side is None or len(identity) == PLAIN else self._side).send(identity, reply)
