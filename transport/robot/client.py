"""The client's side of the protocol without I/O, and the base class of clients."""

from contextlib import suppress
from time import monotonic_ns
from typing import Literal, Self, TypeVar

import msgspec
import zmq
from zmq.utils.monitor import recv_monitor_message

from idyn.errors import IdynError
from idyn.model.robot import Robot
from transport.keys import Keys
from transport.protocol.codec import HIGH_WATER, decode, encode
from transport.protocol.joint_map import joint_slots
from transport.protocol.messages import FromClient, FromServer
from transport.protocol.messages.base import ErrorMessage
from transport.protocol.messages.requests import Base, Client, ClientKind, Hello, Model, Stop, StopAck, Welcome
from transport.protocol.messages.state import StateMessage, TorqueMessage


class ConnectionFailed(IdynError):
    """The server does not answer, or refused the hello."""


Reply = TypeVar("Reply", bound=msgspec.Struct)


def expected(reply: msgspec.Struct, kind: type[Reply]) -> Reply:
    """Return a server's message, which must be of a type. Raises ConnectionFailed for another one, and names both."""
    if not isinstance(reply, kind):
        wanted, got = (each.__struct_config__.tag for each in (kind, type(reply)))
        raise ConnectionFailed(f"expected '{wanted}' as the server's answer, got '{got}'")
    return reply


def hello_for(
    robot: Robot,
    dt: float,
    *,
    kind: ClientKind = "robot",
    name: str = "idyn client",
    measured: Literal["state", "imu"] = "state",
) -> Hello:
    """Return the hello of a client that uses the robot's own order of joints.

    dt: nominal period [s]; measured: 'imu' if the states have no base, see `hello.Base`
    """
    return Hello(
        client=Client(name=name, kind=kind),
        model=Model(
            nq=robot.nq, nv=robot.nv, na=robot.na, total_mass=robot.total_mass, urdf_sha256=robot.urdf_sha256, name=robot.name
        ),
        joint_names=[slot.name for slot in joint_slots(robot)],
        actuated=list(robot.joint_names),
        base=Base(type=robot.description.base, quat_order="xyzw", vel_frame="local", measured=measured),
        dt_nominal=dt,
    )


class Conversation:
    """A session from the client's view: numbers the states and skips answers to older states."""

    def __init__(self) -> None:
        self.session = 0
        self.seq = 0
        self._applied = 0
        self._sent_ns = 0
        self._rtt_us: float | None = None

    def begin(self, reply: bytes) -> Welcome:
        """Start a session with the server's answer to hello. Raises ConnectionFailed for a refusal."""
        message = decode(reply)
        if isinstance(message, ErrorMessage):
            raise ConnectionFailed(f"the server refused the hello ({message.code}): {message.message}")
        welcome = expected(message, Welcome)
        self.session, self.seq, self._applied, self._rtt_us = welcome.session, 0, 0, None
        return welcome

    def ask(self, state: StateMessage, now_ns: int) -> bytes:
        """Encode the next state, with session, seq, t_send, last_applied_seq and rtt_us filled in."""
        self.seq += 1
        self._sent_ns = now_ns
        envelope = msgspec.structs.replace(
            state, session=self.session, seq=self.seq, t_send=now_ns, last_applied_seq=self._applied, rtt_us=self._rtt_us
        )
        return encode(envelope)

    def hear(self, reply: bytes, now_ns: int) -> TorqueMessage | ErrorMessage | StopAck | None:
        """Decode the answer to the last state; None when `reply` answers an older message. Raises ProtocolError.

        A `StopAck` is the server's goodbye: it ends, and no further state is answered.
        """
        message = decode(reply)
        if isinstance(message, StopAck) and message.reason:
            return message
        if isinstance(message, TorqueMessage):
            if message.seq != self.seq or message.session != self.session:
                return None
            self._applied = message.seq
            self._rtt_us = (now_ns - self._sent_ns) * 1e-3
            return message
        if isinstance(message, ErrorMessage) and message.seq in (None, self.seq):
            return message
        return None


class Connection:
    """A context that closes itself."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Further calls have no effect."""


class BaseClient(Connection):
    """Base class of clients. A subclass sends and receives the bytes.

    error: refusal of the last state; None: it was answered with a torque or not at all
    goodbye: why the server ended, as it said itself; '' while it runs and after `hello`
    """

    def __init__(self, hello: Hello) -> None:
        self._hello = hello
        self._conversation = Conversation()
        self.error: ErrorMessage | None = None
        self.goodbye = ""

    @property
    def session(self) -> int:
        """Session number, 0 before the first hello."""
        return self._conversation.session

    def hello(self) -> Welcome:
        """Start a session. Raises ConnectionFailed without an answer or for a refusal."""
        self.goodbye = ""
        return self._conversation.begin(self._request(encode(self._hello)))

    def ask(self, message: FromClient) -> FromServer:
        """Send any message but a state and return the answer. Raises ConnectionFailed without one."""
        return decode(self._request(encode(message)))  # type: ignore[return-value]

    def _request(self, request: bytes) -> bytes:
        """Send a request and return the answer to it. Raises ConnectionFailed without one."""
        raise NotImplementedError


DEADLINE_MS = 5  # default time to wait for a torque [ms]: at 1 kHz a later torque is useless
STOP_MS = 100  # time to wait for the answer to `stop` on closing [ms]
RECONNECT_MS = 10  # interval of attempts to reconnect [ms]
PROBE_MS = 500  # time to wait for the handshake of a server that does not answer [ms]

KEYLESS = "it admits keys only, and this client has none (--secret, --server-key)"
SILENT = {
    (zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL, False): KEYLESS,
    (zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL, False): KEYLESS,
    (zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL, True): "it has no keys, and this client expects one (--server-key)",
    (zmq.EVENT_HANDSHAKE_FAILED_AUTH, True): "it does not list this client's key (--secret)",
    (zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL, True): "its key is another than this client expects (--server-key)",
}
"""End of a handshake, and whether the client has keys → why the server does not answer."""


def connected(endpoint: str, keys: Keys | None) -> "zmq.Socket[bytes]":
    """Return a DEALER socket that connects to a server. keys: see `RobotClient`"""
    socket = _unconnected(endpoint, keys)
    socket.connect(endpoint)
    return socket


def silent(message: str, endpoint: str, keys: Keys | None) -> ConnectionFailed:
    """Return the error of a server that does not answer: the message, and what another handshake says about its keys."""
    found, events = 0, zmq.EVENT_HANDSHAKE_SUCCEEDED | sum({event for event, _ in SILENT})
    with _unconnected(endpoint, keys) as socket, socket.get_monitor_socket(events) as monitor:
        socket.connect(endpoint)
        for _ in range(4):  # a handshake may end before its details have arrived
            if found in (0, zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL) and monitor.poll(PROBE_MS):
                found = recv_monitor_message(monitor)["event"]
        socket.disable_monitor()
    why = SILENT.get((zmq.Event(found), keys is not None))
    return ConnectionFailed(f"{message}: {why}" if why else message)


def _unconnected(endpoint: str, keys: Keys | None) -> "zmq.Socket[bytes]":
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    socket.setsockopt(zmq.IMMEDIATE, 1)  # without a server: EAGAIN instead of a queue of old messages
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, HIGH_WATER)
    socket.setsockopt(zmq.RCVHWM, HIGH_WATER)
    socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
    socket.setsockopt(zmq.IPV6, int("[" in endpoint))
    if keys is not None:
        socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
        socket.setsockopt(zmq.CURVE_SERVERKEY, keys.server)
    return socket


class RobotClient(BaseClient):
    """A connection to a torque server.

    with RobotClient(endpoint, hello) as client:
        welcome = client.hello()
        torque = client.exchange(state)

    deadline: time that `exchange` waits for a torque [s]
    """

    def __init__(
        self, endpoint: str, hello: Hello, *, deadline_ms: int = DEADLINE_MS, connect_ms: int = 5000, keys: Keys | None = None
    ) -> None:
        """
        deadline_ms: time that `exchange` waits for a torque [ms]
        connect_ms: time that `hello` and `ask` wait for an answer [ms]
        keys: for a server with `[curve]`, see `transport.keys.client_keys`
        """
        super().__init__(hello)
        self._endpoint, self._keys = endpoint, keys
        self.deadline = deadline_ms * 1e-3
        self._connect_ms = connect_ms
        self._socket = connected(endpoint, keys)

    def close(self) -> None:
        """Send `stop` if the server is connected, and disconnect. Further calls have no effect."""
        if self.session and not self._socket.closed:
            with suppress(zmq.Again):
                self._socket.send(encode(Stop(session=self.session)), zmq.NOBLOCK)
                self._socket.poll(STOP_MS)
        self._socket.close()

    def exchange(self, state: StateMessage) -> TorqueMessage | None:
        """Send a state and return the torque.

        None if it did not arrive in time, if the server refused the state (see `error`), or if it has ended (see `goodbye`).
        """
        self.error = None
        sent_ns = monotonic_ns()
        try:
            self._socket.send(self._conversation.ask(state, sent_ns), zmq.NOBLOCK)
        except zmq.Again:
            return None
        limit_ns = sent_ns + round(self.deadline * 1e9)
        while (reply := self._receive(limit_ns)) is not None:
            answer = self._conversation.hear(reply, monotonic_ns())
            if isinstance(answer, TorqueMessage):
                return answer
            if isinstance(answer, StopAck):
                self.goodbye = answer.reason
                return None
            if answer is not None:
                self.error = answer
                return None
        return None

    def tell(self, message: FromClient) -> None:
        """Send any message but a state without waiting. Its answer is skipped; a refusal is the `error` of the next `exchange`.

        Without a connection the message is dropped.
        """
        with suppress(zmq.Again):
            self._socket.send(encode(message), zmq.NOBLOCK)

    def _request(self, request: bytes) -> bytes:
        """Send a request and return the answer; late answers to states are skipped. Raises ConnectionFailed."""
        limit_ns = monotonic_ns() + self._connect_ms * 1_000_000
        self._socket.setsockopt(zmq.SNDTIMEO, self._connect_ms)
        try:
            self._socket.send(request)
        except zmq.Again:
            raise silent(f"no server at {self._endpoint} within {self._connect_ms} ms", self._endpoint, self._keys) from None
        while (reply := self._receive(limit_ns)) is not None:
            message = decode(reply)
            about_state = isinstance(message, TorqueMessage | ErrorMessage) and message.seq is not None
            if isinstance(message, StopAck) and message.reason:
                self.goodbye = message.reason
            elif not about_state:
                return reply
        raise silent(f"no answer from {self._endpoint} within {self._connect_ms} ms", self._endpoint, self._keys)

    def _receive(self, limit_ns: int) -> bytes | None:
        """Return the next message that arrives before `limit_ns`, rounded up to a millisecond; None without one.

        A message that has already arrived is returned even after the limit: a pause of this process does not make it late.
        """
        left_ms = (limit_ns - monotonic_ns()) // 1_000_000
        self._socket.setsockopt(zmq.RCVTIMEO, max(0, left_ms + 1))
        try:
            return self._socket.recv()
        except zmq.Again:
            return None
