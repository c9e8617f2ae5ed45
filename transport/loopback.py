"""Client and service in one process, in lock step, through real bytes."""

import math
from collections.abc import Callable
from time import monotonic_ns

from transport.protocol.messages.error import ErrorMessage
from transport.protocol.messages.hello import Hello
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.robot.conversation import BaseClient
from transport.server.service import Service


class Loopback(BaseClient):
    """The same calls as `RobotClient`, without a socket between."""

    deadline = math.inf

    def __init__(
        self,
        service: Service,
        hello: Hello,
        *,
        clock: Callable[[], int] = monotonic_ns,
        identity: bytes = b"loopback",
    ) -> None:
        """clock: both sides' clock [ns]; give the simulator's to make a run repeatable to the bit"""
        super().__init__(hello)
        self._service = service
        self._clock = clock
        self._identity = identity

    def exchange(self, state: StateMessage) -> TorqueMessage | None:
        """The torque for a state; None when the service refused it, then `error` says why."""
        self.error = None
        reply = self._request(self._conversation.ask(state, self._clock()))
        answer = self._conversation.hear(reply, self._clock())
        if isinstance(answer, ErrorMessage):
            self.error = answer
            return None
        return answer

    def _request(self, request: bytes) -> bytes:
        reply = self._service.handle(self._identity, request, self._clock()).reply
        self._service.settle()
        return reply
