"""The two ends of a wire: a client that may break every rule, and a socket for a service."""

from time import monotonic

import zmq

from idyn.errors import IdynError
from sim_harness.conform.rules import Broken
from transport.server.service import Service

ANSWER_S = 5.0
"""Time in which a server must answer [s]."""


class Wire:
    """A DEALER connection that sends any frames."""

    def __init__(self, endpoint: str, identity: bytes = b"") -> None:
        """identity: ZMQ identity chosen by this client; b'': the server chooses it, as the protocol asks"""
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        if identity:
            self._socket.setsockopt(zmq.IDENTITY, identity)
        self._socket.setsockopt(zmq.SNDTIMEO, round(ANSWER_S * 1e3))
        self._socket.connect(endpoint)

    def close(self) -> None:
        self._socket.close()

    def send(self, *frames: bytes) -> None:
        self._socket.send_multipart(frames)

    def receive(self, seconds: float = ANSWER_S) -> list[bytes] | None:
        """Return the frames of the next message; None if none arrives in this time."""
        return self._socket.recv_multipart() if self._socket.poll(round(seconds * 1e3)) else None

    def answer(self) -> bytes:
        """Return the next message, which has one frame. Raises Broken without one."""
        frames = self.receive()
        if frames is None:
            raise Broken("answer", f"none within {ANSWER_S:g} s", "one message")
        if len(frames) != 1:
            raise Broken("answer", f"{len(frames)} frames", "1 frame")
        return frames[0]


class Arrived:
    """A message that arrived at a stand. at: time [s]; frames: after the identity"""

    def __init__(self, identity: bytes, frames: list[bytes]) -> None:
        self.identity, self.frames, self.at = identity, frames, monotonic()


class Stand:
    """A ROUTER in front of a service, whose answers may be withheld, altered or sent late."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._socket: zmq.Socket[bytes] | None = None

    def open(self, service: Service) -> None:
        """Bind the address. Raises IdynError if that fails."""
        self.service = service
        self._socket = zmq.Context.instance().socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 50)
        try:
            self._socket.bind(self.endpoint)
        except zmq.ZMQError as error:
            raise IdynError(f"cannot bind {self.endpoint} ({error})") from error

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def next(self, seconds: float) -> Arrived | None:
        """Return the next message; None if none arrives in this time."""
        assert self._socket is not None
        if not self._socket.poll(max(1, round(seconds * 1e3))):
            return None
        identity, *frames = self._socket.recv_multipart()
        return Arrived(identity, frames)

    def send(self, identity: bytes, reply: bytes) -> None:
        """Send a reply. The messages of clients that have gone are dropped."""
        assert self._socket is not None
        self._socket.send_multipart([identity, reply])
