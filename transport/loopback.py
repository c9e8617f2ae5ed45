"""Client and service in one process, in lock step, through real bytes."""

import math
from collections.abc import Callable
from time import monotonic_ns

from transport.protocol.codec import decode, encode
from transport.protocol.messages import FromClient, FromServer
from transport.protocol.messages.error import ErrorMessage
from transport.protocol.messages.hello import Hello, Welcome
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.robot.conversation import Conversation
from transport.server.service import Service


class Loopback:
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
        self._service = service
        self._hello = hello
        self._clock = clock
        self._identity = identity
        self._conversation = Conversation()
        self.error: ErrorMessage | None = None

    def __enter__(self) -> "Loopback":
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def hello(self) -> Welcome:
        """Begin a session. Raises ConnectionFailed when the service refuses."""
        return self._conversation.begin(self._through(encode(self._hello)))

    def exchange(self, state: StateMessage) -> TorqueMessage | None:
        """The torque for a state; None when the service refused it, then `error` says why."""
        self.error = None
        reply = self._through(self._conversation.ask(state, self._clock()))
        answer = self._conversation.hear(reply, self._clock())
        if isinstance(answer, ErrorMessage):
            self.error = answer
            return None
        return answer

    def ask(self, message: FromClient) -> FromServer:
        """The answer to any other message."""
        return decode(self._through(encode(message)))  # type: ignore[return-value]

    @property
    def session(self) -> int:
        return self._conversation.session

    def _through(self, data: bytes) -> bytes:
        reply = self._service.handle(self._identity, data, self._clock()).reply
        self._service.settle()
        return reply
