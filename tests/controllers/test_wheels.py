"""Continuous joints: no jump of the feedback after a full turn, and references several turns away."""

import numpy as np
import pytest
from fast import first_is_fast

from controllers.command import Inputs, Mode, Reference
from controllers.config.loading import parse
from controllers.controller import Controller
from controllers.settings import ControllerSettings
from idyn.contact.terrain import Flat
from idyn.model.description import Description
from idyn.model.robot import Robot
from idyn.types import State
from sim_harness.world.worlds import ENGINES, build_world

DT, INERTIA, KP, KD = 1e-3, 0.02, 400.0, 40.0
WHEEL = f"""
<robot name="wheel"><link name="stand"/>
<link name="wheel"><inertial><mass value="1"/>
<inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="{INERTIA}"/></inertial></link>
<joint name="axle" type="continuous"><parent link="stand"/><child link="wheel"/><axis xyz="0 0 1"/></joint></robot>
"""


@pytest.fixture
def controller():
    robot = Robot(Description(urdf=WHEEL, base="fixed"))
    settings = {"robot": "wheel", "feedback": {"kp": KP, "kd": KD}, "safety": {"torque_rate": np.inf, "max_joint_speed": 100.0}}
    return Controller(parse(settings, ControllerSettings, "test"), robot, robot.neutral())


def still(angle):
    return Reference(q=np.array([angle]), v=np.zeros(1), a=np.zeros(1))


@pytest.mark.parametrize("wanted", [0.0, 3.2, -3.2, 10 * np.pi, -1000.0])
@pytest.mark.parametrize("speed", first_is_fast([20.0, -20.0]))
def test_the_feedback_torque_uses_the_counted_angle(controller, wanted, speed):
    """Past π and −π at 20 rad/s: I (kp (θ_ref − θ) − kd θ̇), to rounding, tick by tick."""
    for k in range(400):
        angle = speed * DT * k - np.sign(speed)
        state = State(q=np.array([angle]), v=np.array([speed]))
        command = controller.step(state, controller.contacts(state.q), Inputs(dt=DT * (k > 0), reference=still(wanted)))
        assert command.mode is Mode.OK
        assert command.tau[0] == pytest.approx(INERTIA * (KP * (wanted - angle) - KD * speed), rel=1e-9, abs=1e-9)
    assert abs(angle) > 2 * np.pi


@pytest.mark.parametrize("turns", first_is_fast([3, -5]))
def test_a_wheel_turns_as_often_as_the_reference(controller, turns):
    world = build_world(ENGINES["lcp"](), controller.robot, Flat(), controller.robot.neutral())
    goal, fastest = 2 * np.pi * turns, 0.0
    for k in range(2000):
        state = world.state
        share = min(k / 1000, 1.0)
        command = controller.step(state, controller.contacts(state.q), Inputs(dt=DT * (k > 0), reference=still(share * goal)))
        world.step(command.tau, DT)
        fastest = max(fastest, abs(world.v[0]))
    assert world.q[0] == pytest.approx(goal, abs=1e-3)
    assert fastest < 1.1 * abs(goal)  # of one second: nowhere did it turn back or jump
