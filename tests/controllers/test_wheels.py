"""Continuous joints: no jump of the feedback after a full turn, and references several turns away."""

import numpy as np
import pytest
from fast import every, first_is_fast

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


@every("wanted", [0.0, 3.2, -3.2, 10 * np.pi, -1000.0])
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


def wrapped(controller, turns, speed=0.3):
    """Commands while the measured angle, less so many turns in each tick, creeps over π."""
    angles = np.pi + speed * DT * np.arange(-2, len(turns) - 2) - 2 * np.pi * np.array(turns)
    states = [State(q=np.array([angle]), v=np.array([speed])) for angle in angles]
    return [controller.step(s, controller.contacts(s.q), Inputs(dt=DT * (k > 0))) for k, s in enumerate(states)]


@every("turn", [1, -1])
def test_an_encoder_that_wraps_stops_the_joint_until_a_reset(controller, turn):
    """Instead of unwinding a whole turn: damping, also after the angle has come back."""
    commands = wrapped(controller, [0, 0, turn, turn, turn, 0])
    assert [command.mode for command in commands] == [Mode.OK] * 2 + [Mode.FAULT] * 4
    assert "axle moved 6.28 rad further than its speed explains" in commands[2].message
    assert max(abs(command.tau).max() for command in commands[2:]) <= 0.1 * 0.3  # the largest damping torque of the settings
    controller.reset()
    assert {command.mode for command in wrapped(controller, [turn] * 5)} == {Mode.OK}


def test_one_wrong_turn_stops_the_joint_for_one_tick(controller):
    assert [command.mode for command in wrapped(controller, [0, 0, 1, 0, 0])] == [Mode.OK] * 2 + [Mode.FAULT] + [Mode.OK] * 2


def test_a_fast_wheel_turns_as_far_as_its_speed_explains(controller):
    """Half a turn and more in one long tick at 90 rad/s."""
    for k in range(5):
        state = State(q=np.array([3.6 * k]), v=np.array([90.0]))
        assert controller.step(state, controller.contacts(state.q), Inputs(dt=0.04 * (k > 0))).mode is Mode.OK
