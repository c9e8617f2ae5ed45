"""The client: a DEALER socket that never blocks longer than its deadline and never queues old states."""

from contextlib import suppress
from time import monotonic_ns

import zmq
from zmq.utils.monitor import recv_monitor_message

from transport.keys import Keys
from transport.protocol.codec import HIGH_WATER, decode, encode
from transport.protocol.messages import FromClient
from transport.protocol.messages.error import ErrorMessage
from transport.protocol.messages.hello import Hello
from transport.protocol.messages.requests import Stop, StopAck
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.robot.conversation import BaseClient, ConnectionFailed

DEADLINE_MS = 5
"""Default time to wait for a torque [ms]: at 1 kHz a later torque is useless."""

STOP_MS = 100
"""Time to wait for the answer to `stop` on closing [ms]."""

RECONNECT_MS = 10
"""Interval of attempts to reconnect [ms]."""


PROBE_MS = 500
"""Time to wait for the handshake of a server that does not answer [ms]."""

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
        self,
        endpoint: str,
        hello: Hello,
        *,
        deadline_ms: int = DEADLINE_MS,
        connect_ms: int = 5000,
        keys: Keys | None = None,
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
