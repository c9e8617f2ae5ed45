"""A service and a client, without sockets, for the tests of the transport."""

from collections.abc import Iterator

from hypothesis import settings
from standin import MS, SpringDamper, hello, state
from wire import expect

from idyn.model.robot import Robot
from transport.protocol.codec import decode, encode
from transport.protocol.messages import Message
from transport.protocol.messages.hello import Welcome
from transport.protocol.messages.state import StateMessage
from transport.server.service import Service
from transport.server.sessions.latches import Fault
from transport.server.settings import ServerSettings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


class Rig:
    """A service with one client `a`, everything through bytes. The server's clock shows the next of `times` [ns], or `now`."""

    def __init__(self, robot: Robot, **changes: object) -> None:
        self.robot = robot
        self.controller = SpringDamper(robot)
        self.now = 0
        self.times: Iterator[int] = iter(())
        self.service = Service(
            self.controller,
            ServerSettings(controller="standin", **changes),
            shadow=SpringDamper(robot),
            clock=lambda: next(self.times, self.now),
        )
        self.session = 0
        self.faults: list[Fault] = []

    def raw(self, data: bytes, identity: bytes = b"a") -> Message:
        answer = self.service.handle(identity, data, self.now)
        if (fault := self.service.settle()) is not None:
            self.faults.append(fault)
        return decode(answer.reply)

    def send(self, message: Message, identity: bytes = b"a") -> Message:
        return self.raw(encode(message), identity)

    def greet(self, **changes: object) -> Welcome:
        return self.greet_as(b"a", **changes)

    def greet_as(self, identity: bytes, **changes: object) -> Welcome:
        welcome = expect(Welcome, self.send(hello(self.robot, **changes), identity))
        self.session = welcome.session
        return welcome

    def state(self, seq: int, **changes: object) -> StateMessage:
        return state(self.robot, self.session, seq, **changes)

    def tick(self, seq: int, **changes: object) -> Message:
        """State `seq`, a millisecond after the one before it."""
        self.now = seq * MS
        return self.send(self.state(seq, **changes))
