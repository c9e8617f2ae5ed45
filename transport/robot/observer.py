"""The observer's side of the protocol: requests of a client without a session."""

from typing import Self

import zmq

from transport.keys import Keys
from transport.protocol.codec import decode, encode
from transport.protocol.messages import FromClient, FromServer
from transport.protocol.messages.error import ErrorMessage
from transport.robot.client import connected, silent
from transport.robot.conversation import ConnectionFailed


class Observer:
    """A connection that only asks, and controls nothing.

    with Observer(endpoint) as observer:
        stats = observer.ask(StatsGet())
    """

    def __init__(self, endpoint: str, *, timeout_ms: int = 2000, keys: Keys | None = None) -> None:
        """timeout_ms: time to wait for an answer [ms]
        keys: for a server with `[curve]`, see `transport.keys.client_keys`
        """
        self._endpoint, self._timeout_ms, self._keys = endpoint, timeout_ms, keys
        self._socket = connected(endpoint, keys)
        self._socket.setsockopt(zmq.SNDTIMEO, timeout_ms)
        self._socket.setsockopt(zmq.RCVTIMEO, timeout_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect. Further calls have no effect."""
        self._socket.close()

    def ask(self, message: FromClient) -> FromServer:
        """Send a request and return the answer.

        Raises ConnectionFailed without one, and for a refusal. After that, use a new observer: an answer may still arrive.
        """
        try:
            self._socket.send(encode(message))
            reply = decode(self._socket.recv())
        except zmq.Again:
            raise silent(f"no answer from {self._endpoint} within {self._timeout_ms} ms", self._endpoint, self._keys) from None
        if isinstance(reply, ErrorMessage):
            raise ConnectionFailed(f"the server refused the request ({reply.code}): {reply.message}")
        return reply  # type: ignore[return-value]
