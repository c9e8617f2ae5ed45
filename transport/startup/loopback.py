"""Client and service in one process, in lock step, exchanging encoded messages."""

import math
from collections.abc import Callable
from time import monotonic_ns

from transport.protocol.messages.base import ErrorMessage
from transport.protocol.messages.requests import Hello
from transport.protocol.messages.state import StateMessage, TorqueMessage
from transport.robot.client import BaseClient
from transport.server.service import Service


class Loopback(BaseClient):
    """A client with the interface of `RobotClient`, connected to a service without a socket."""

    deadline = math.inf

    def __init__(
        self, service: Service, hello: Hello, *, clock: Callable[[], int] = monotonic_ns, identity: bytes = b"loopback"
    ) -> None:
        """clock: clock of both sides [ns]; with the simulator's clock a run is repeatable bit for bit"""
        super().__init__(hello)
        self._service = service
        self._clock = clock
        self._identity = identity

    def exchange(self, state: StateMessage) -> TorqueMessage | None:
        """Send a state and return the torque; None when the service refused the state (`error` has the refusal)."""
        self.error = None
        reply = self._request(self._conversation.ask(state, self._clock()))
        answer = self._conversation.hear(reply, self._clock())
        if isinstance(answer, ErrorMessage):
            self.error = answer
        return answer if isinstance(answer, TorqueMessage) else None

    def _request(self, request: bytes) -> bytes:
        reply = self._service.handle(self._identity, request, self._clock()).reply
        self._service.settle()
        return reply
