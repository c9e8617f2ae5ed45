"""A client and a service in one process, through bytes."""

import numpy as np
import pytest
from standin import MS, SpringDamper, standing

from idyn.model.robot import Robot
from transport.protocol.messages.error import Code
from transport.protocol.messages.requests import Reset, ResetAck
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.robot.conversation import ConnectionFailed, hello_for
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback


def loopback(robot: Robot, kind: str = "sim") -> Loopback:
    service = Service(SpringDamper(robot), ServerSettings(controller="standin"))
    return Loopback(service, hello_for(robot, 1e-3, kind=kind))  # type: ignore[arg-type]


def state(robot: Robot, tick: int, **changes: object) -> StateMessage:
    fields: dict[str, object] = {"q": standing(robot).tobytes(), "vel": np.zeros(robot.nv).tobytes()}
    return StateMessage(t_robot=tick * MS, **(fields | changes))  # type: ignore[arg-type]


def test_each_state_gets_its_torque(robot: Robot) -> None:
    with loopback(robot) as client:
        client.hello()
        for tick in range(200):
            torque = client.exchange(state(robot, tick))
            assert isinstance(torque, TorqueMessage)
            assert torque.seq == tick + 1
        assert torque.comm.rtt_p50_us is not None
        assert torque.comm.rtt_p50_us > 0


def test_after_a_refusal_the_next_state_is_answered(robot: Robot) -> None:
    client = loopback(robot)
    client.hello()
    assert client.exchange(state(robot, 0, q=[0.0])) is None
    assert client.error is not None
    assert client.error.code is Code.WRONG_LENGTH
    assert client.exchange(state(robot, 1)) is not None
    assert client.error is None


def test_other_messages_are_answered(robot: Robot) -> None:
    client = loopback(robot)
    client.hello()
    client.exchange(state(robot, 0))
    assert client.exchange(state(robot, 500)) is None
    rest = Reset(session=client.session, q=standing(robot).tobytes(), vel=np.zeros(robot.nv).tobytes())
    assert isinstance(client.ask(rest), ResetAck)
    assert client.exchange(state(robot, 501)) is not None


def test_a_refused_hello_raises(robot: Robot) -> None:
    with pytest.raises(ConnectionFailed, match="not_controlling"):
        loopback(robot, kind="shadow").hello()
