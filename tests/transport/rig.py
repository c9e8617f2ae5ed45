"""A service and a client, without sockets, for the tests of the transport."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from hypothesis import settings
from standin import MS, SpringDamper, hello, standing, state
from wire import PATIENCE_MS, expect, routed

from controllers.command import Inputs
from idyn import Robot, RobotClient, hello_for
from transport.protocol.codec import decode, encode
from transport.protocol.messages import Message
from transport.protocol.messages.base import ErrorMessage
from transport.protocol.messages.command import CommandMessage, PlanHello, PlanWelcome
from transport.protocol.messages.requests import ClientKind, Reset, Welcome
from transport.protocol.messages.state import StateMessage, TorqueMessage
from transport.server.service import Service
from transport.server.sessions.latches import Fault
from transport.server.settings import ServerSettings
from transport.server.sockets.router import Router
from transport.startup.warm_up import warm_up

FORWARD = [0.4, 0.0, 0.0]

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


class Rig:
    """A service with one client `a`, everything through bytes. The server's clock shows the next of `times` [ns], or `now`."""

    def __init__(self, robot: Robot, **changes: object) -> None:
        self.robot = robot
        self.controller, self.shadow = SpringDamper(robot), SpringDamper(robot)
        self.now = 0
        self.times: Iterator[int] = iter(())
        settings = ServerSettings(controller="standin", **changes)
        self.service = Service(self.controller, settings, shadow=self.shadow, clock=lambda: next(self.times, self.now))
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

    def torque(self, seq: int, **changes: object) -> TorqueMessage:
        return expect(TorqueMessage, self.tick(seq, **changes))

    def refused(self, seq: int, **changes: object) -> ErrorMessage:
        return expect(ErrorMessage, self.tick(seq, **changes))

    @property
    def at_rest(self) -> Reset:
        return Reset(session=self.session, q=standing(self.robot).tobytes(), vel=np.zeros(self.robot.nv).tobytes())

    def state(self, seq: int, **changes: object) -> StateMessage:
        return state(self.robot, self.session, seq, **changes)

    def tick(self, seq: int, **changes: object) -> Message:
        """State `seq`, a millisecond after the one before it."""
        self.now = seq * MS
        return self.send(self.state(seq, **changes))


def greeted(robot: Robot, **changes: object) -> Rig:
    """A rig after `hello`. changes: of the server's settings"""
    rig = Rig(robot, **changes)
    rig.greet()
    return rig


@contextmanager
def served(
    robot: Robot, address: str, settings: ServerSettings, **options: object
) -> Iterator[tuple[Router, threading.Thread, Service]]:
    """A server with the stand-in for a robot and a shadow, in a thread, which ends cleanly. options: of `routed`"""
    controller = SpringDamper(robot)
    warm_up(controller, settings)
    service = Service(controller, settings, shadow=SpringDamper(robot))
    with routed(service, address, **options) as (router, thread):
        yield router, thread, service


def client_of(robot: Robot, address: str, kind: ClientKind = "sim", **settings: object) -> RobotClient:
    """A patient client."""
    patience = {"deadline_ms": PATIENCE_MS, "connect_ms": PATIENCE_MS}
    return RobotClient(address, hello_for(robot, 1e-3, kind=kind), **(patience | settings))


class Planned(Rig):
    """A robot, after `hello`, and the planner `mpc` as client `p`; `joystick` may command, too."""

    def __init__(self, robot: Robot, kind: str = "robot") -> None:
        super().__init__(robot, planners=("mpc", "joystick"))
        self.greet(kind=kind)
        self.planner = self.greet_planner(b"p").session

    def greet_planner(self, identity: bytes, name: str = "mpc") -> PlanWelcome:
        return expect(PlanWelcome, self.send(PlanHello(name=name), identity))

    def command(self, *, by: bytes = b"p", **fields: object) -> Message:
        """The reply to a command of the planner, with the velocity `FORWARD` unless it has other parts."""
        parts = {} if {"velocity", "height", "attitude", "gait", "tasks"} & fields.keys() else {"velocity": FORWARD}
        return self.send(CommandMessage(**({"session": self.planner, "valid_for": 1.0} | parts | fields)), by)

    def applied(self, seq: int) -> tuple[Inputs, str]:
        """What the controller got with state `seq`, and the message of the reply."""
        reply = expect(TorqueMessage, self.tick(seq))
        return self.controller.last, reply.message

    def velocity(self, seq: int) -> tuple[list[float] | None, str]:
        inputs, message = self.applied(seq)
        velocity = None if inputs.steering is None else inputs.steering.velocity
        return (None if velocity is None else velocity.tolist()), message
