"""The bridge with a robot made of two topics, which does what its commands say."""

import os
import threading
import time
from functools import cache

import numpy as np
import pytest

from controllers.robot.load import load_robot
from transport.robot.client import RobotClient
from transport.robot.conversation import hello_for
from transport.unitree.bridge import Bridge
from transport.unitree.dds import Bus
from transport.unitree.layout import Message
from transport.unitree.low_level import COMMAND, STATE, LowLevel
from transport.unitree.robots import GO2
from transport.unitree.script import Step
from transport.unitree.served import ServedRobot

MOTORS = len(GO2.joints)


@cache
def bus():
    """One for each worker: robots of the same domain would share their topics."""
    return Bus(100 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]))


class Puppet:
    """Publishes states at 500 Hz; its joints follow the targets of the last command at once. commands: all that it received"""

    def __init__(self):
        self.states, self.commands = bus().writer(STATE, GO2.family.state), []
        self._heard = bus().reader(COMMAND, GO2.family.command)
        self.message, self._end = Message(GO2.family.state), threading.Event()
        self.message["imu_state.quaternion"] = np.array([1.0, 0.0, 0.0, 0.0])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._end.is_set():
            self.message["tick"] = self.message["tick"] + 2
            self.states.write(self.message.sealed())
            for command in self._heard.take():
                self.commands.append(command)
                if command["motor_cmd.kp"].any():
                    self.message["motor_state.q"] = command["motor_cmd.q"]
            time.sleep(0.002)

    def close(self):
        self._end.set()
        self._thread.join()


@pytest.fixture
def puppet():
    made = Puppet()
    yield made
    made.close()


def bridge(notes):
    link = LowLevel(GO2, GO2.joints, np.full(MOTORS, 40.0), bus())
    return Bridge(link, {"stand": np.full(MOTORS, 0.5), "lie": np.zeros(MOTORS)}, notes.append)


def test_a_script_is_done_and_ends_in_damping(puppet):
    notes: list[str] = []
    report = bridge(notes).run([Step("stand", 0.3), Step("lie")])
    assert report.ended == ""
    assert [note.split(":")[0] for note in notes] == ["stand", "lie"]
    targets = np.array([command["motor_cmd.q"][:MOTORS] for command in puppet.commands])
    assert abs(targets.max() - 0.5) < 1e-3
    gains = [float(command["motor_cmd.kp"][0]) for command in puppet.commands]
    assert gains[0] < 5.0  # they rise from 0
    assert max(gains) == pytest.approx(60.0)
    last = puppet.commands[-1]
    assert not last["motor_cmd.kp"].any()
    assert (last["motor_cmd.kd"][:MOTORS] > 0.0).all()
    assert all(command.is_sound for command in puppet.commands[::50])


@pytest.mark.parametrize(("buttons", "stops"), [(1 << 5 | 1 << 9, True), (1 << 5, False), (1 << 9 | 1 << 8, False)])
def test_the_remote_control_stops_the_robot(puppet, buttons, stops):
    remote = np.zeros(40)
    remote[2:4] = buttons & 0xFF, buttons >> 8
    puppet.message["wireless_remote"] = remote
    report = bridge([]).run([Step("lie")])
    assert (report.ended == "stopped by the remote control (L2 and B)") is stops
    assert not puppet.commands[-1]["motor_cmd.kp"].any()


def test_a_velocity_without_a_server_is_refused(puppet):
    report = bridge([]).run([Step("velocity", 1.0, (0.1, 0.0, 0.0))])
    assert report.ended == "the step 'velocity' needs a server (--connect)"


def test_the_user_ends_a_script(puppet):
    report = bridge([]).run([Step("stand", 60.0)], stopped=lambda: len(puppet.commands) > 100)
    assert report.ended == "stopped by the user"
    assert report.answered < 500


def test_a_server_that_is_gone_ends_in_damping(puppet, tmp_path):
    """The robot stands when it is to be handed over."""
    robot, stance = load_robot(GO2.model)
    client = RobotClient(f"ipc://{tmp_path}/nobody", hello_for(robot, 0.002), connect_ms=100)
    link = LowLevel(GO2, robot.joint_names, robot.limits.tau_max, bus())
    served = ServedRobot(robot, client, 3.0)
    report = Bridge(link, {"stand": robot.joint_angles(stance)}, lambda note: None, served).run([Step("stand", 5.0)])
    assert report.ended.startswith("no server at ipc://")
    assert not report.modes
    last = puppet.commands[-1]
    assert not last["motor_cmd.kp"].any()
    assert (last["motor_cmd.kd"][:MOTORS] > 0.0).all()
