"""A wheel on the wire: its angle counts turns, in states and references; an angle that restarts is not accepted."""

import numpy as np
import pytest

from controllers.config.loading import parse
from controllers.controller import Controller
from controllers.settings import ControllerSettings
from idyn.model.description import Description
from idyn.model.robot import Robot
from transport.protocol.messages.error import Code
from transport.protocol.messages.state import Reference, StateMessage
from transport.robot.conversation import hello_for
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback

DT, INERTIA, KP, SPEED = 1e-3, 0.02, 400.0, 20.0
WHEEL = f"""
<robot name="wheel"><link name="stand"/>
<link name="wheel"><inertial><mass value="1"/>
<inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="{INERTIA}"/></inertial></link>
<joint name="axle" type="continuous"><parent link="stand"/><child link="wheel"/><axis xyz="0 0 1"/></joint></robot>
"""


@pytest.fixture
def ask():
    """The answer to the k-th state of a wheel at 20 rad/s, told to be at `wanted` [rad]."""
    robot = Robot(Description(urdf=WHEEL, base="fixed"))
    settings = {"robot": "wheel", "feedback": {"kp": KP, "kd": 0.0}, "safety": {"torque_rate": np.inf}}
    controller = Controller(parse(settings, ControllerSettings, "test"), robot, robot.neutral())
    client = Loopback(Service(controller, ServerSettings(controller="wheel", start="motion")), hello_for(robot, DT, kind="sim"))
    client.hello()

    def exchange(k, angle, wanted):
        reference = Reference(q=[wanted], v=[0.0], a=[0.0])
        message = StateMessage(q=[angle], vel=[SPEED], t_robot=round(k * DT * 1e9), ref=reference)
        return client.exchange(message) or client.error

    return exchange


@pytest.mark.parametrize("wanted", [3.2, 10 * np.pi])
def test_the_reply_uses_the_counted_angle(ask, wanted):
    for k in range(300):
        angle = 1.0 + SPEED * DT * k
        reply = ask(k, angle, wanted)
        assert (reply.status, reply.message) == ("ok", "")
        assert np.frombuffer(reply.tau)[0] == pytest.approx(INERTIA * KP * (wanted - angle), rel=1e-9, abs=1e-9)
    assert angle > 2 * np.pi


def test_an_angle_that_restarts_is_ignored_once_and_then_a_fault(ask):
    before = ask(0, np.pi - 0.01, 4.0)
    wrapped = ask(1, np.pi + 0.01 - 2 * np.pi, 4.0)
    assert "axle moved 6.2" in wrapped.message
    assert wrapped.tau == before.tau
    again = ask(2, np.pi + 0.03 - 2 * np.pi, 4.0)
    assert again.code is Code.LATCHED_FAULT
    assert "axle moved 6.2" in again.message
