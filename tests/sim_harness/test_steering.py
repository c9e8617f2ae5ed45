"""A second client steers robots that trot in MuJoCo: the base moves as commanded, and stands when the commands end."""

from itertools import product

import numpy as np
import pytest
from fast import first_is_fast, full
from steered_walk import DT, Walk

from controllers.build import load_controller
from controllers.robot.attitude import tilt
from transport.log.provenance import attachments, metadata
from transport.log.recorder import Recorder
from transport.log.replay import replay
from transport.protocol.codec import decode, encode
from transport.protocol.messages.command import CommandMessage, GaitPart, PlanHello
from transport.protocol.messages.state import StateMessage
from transport.robot.conversation import hello_for
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback

MS = 1_000_000

PERIOD, VALID = 20, 0.1
"""Period of the commands [ticks], and their validity [s]."""


class Drive(Walk):
    """A robot that walks in MuJoCo, its controller behind a service, and a planner."""

    def __init__(self, name, log=None):
        self.now, controller = 0, load_controller(name, {})
        settings = ServerSettings(controller=name, planners=("joystick",))
        super().__init__(controller.robot, controller.stance)
        if log is not None:
            log = Recorder(log, attachments(controller.snapshot(), settings), metadata(self.robot, None))
        self.recorder, self.service = log, Service(controller, settings, clock=lambda: self.now, recorder=log)
        self.client = Loopback(self.service, hello_for(self.robot, DT, kind="sim"), clock=lambda: self.now)
        self.client.hello()
        self.session = self.ask(PlanHello(name="joystick")).session
        self.messages, self.commands = set(), 0

    def ask(self, message):
        reply = decode(self.service.handle(b"planner", encode(message), self.now).reply)
        self.service.settle()
        return reply

    def run(self, seconds, velocity, gait=None):
        """Simulate, with a command every `PERIOD` ticks. Velocity None: without commands"""
        for tick in range(round(seconds / DT)):
            self.now += MS
            if velocity is not None and tick % PERIOD == 0:
                self.commands += 1
                sent = {"session": self.session, "seq": self.commands, "valid_for": VALID}
                assert self.ask(CommandMessage(**sent, velocity=velocity, gait=gait)).__struct_config__.tag == "command_ack"
            q, v = self.state()
            self.reply = reply = self.client.exchange(StateMessage(q=q.tobytes(), vel=v.tobytes(), t_robot=self.now))
            assert reply is not None, self.client.error
            self.messages.add(reply.message)
            self.step(np.frombuffer(reply.tau))


@pytest.mark.parametrize("name", [pytest.param("go2", marks=full), pytest.param("a1", marks=pytest.mark.long)])
def test_patterns_change_while_the_robot_walks(name):
    drive = Drive(f"{name}-trot")
    drive.run(2.0, (0.3, 0.0, 0.0))
    for pattern in ("pace", "bound", "trot", "walk", "bound", "pace", "stand", "pace"):
        slow, speed = pattern == "walk", 0.0 if pattern == "stand" else 0.3
        gait = GaitPart(pattern=pattern, period=0.6 if slow else 0.3, duty=0.8 if slow else 0.6)
        drive.run(4.0, (speed, 0.0, 0.0), gait)
        assert tilt(drive.state()[0][3:7]) < 0.12
        error = np.abs(drive.mean_velocity(2.0) - (speed, 0.0, 0.0))
        assert error.max() < (0.12 if pattern == "bound" else 0.015)


COMMANDS = [(0.3, 0.1, 0.5), (0.4, 0.0, 0.0), (0.0, 0.3, 0.0), (0.0, 0.0, 1.0)]


FAST = [(1.0, 0.0, 0.0), (1.5, 0.0, 0.0), (0.0, 0.5, 0.0), (0.0, 0.0, 2.0)]


@pytest.mark.long
@pytest.mark.parametrize("velocity", FAST)
@pytest.mark.parametrize("name", ["go2", "a1", "solo12"])
def test_one_configuration_follows_fast_commands_too(name, velocity):
    drive = Drive(f"{name}-trot")
    drive.run(8.0, velocity)
    assert np.abs(drive.mean_velocity(3.0) - velocity).max() < 0.05 * np.abs(velocity).max()


@pytest.mark.long
@pytest.mark.parametrize(("name", "seed"), [*product(["go2", "a1"], range(10)), ("solo12", 0), ("solo12", 1)])
def test_a_minute_of_random_commands(name, seed):
    """A new command every two seconds: up to 1.5 m/s forward, 0.5 m/s backward and sideways, 2 rad/s."""
    rng, drive = np.random.default_rng(seed), Drive(f"{name}-trot")
    for _ in range(30):
        drive.run(2.0, tuple(rng.uniform((-0.5, -0.5, -2.0), (1.5, 0.5, 2.0)).tolist()))
        q, _ = drive.state()
        assert tilt(q[3:7]) < 0.5


@full
@pytest.mark.parametrize("velocity", COMMANDS)
@pytest.mark.parametrize("name", ["go2", "a1", "solo12", "quadruped"])
def test_the_base_moves_as_commanded(name, velocity):
    drive = Drive(f"{name}-trot")
    drive.run(9.0, velocity)
    drive.run(4.5, velocity)
    assert np.abs(drive.mean_velocity(4.5) - velocity).max() < 0.03 * np.abs(velocity).max()


@pytest.mark.parametrize("name", first_is_fast(["quadruped", "go2", "solo12"]))
def test_the_robot_stands_within_a_second_after_the_commands_end(name):
    drive = Drive(f"{name}-trot")
    drive.run(2.5, (0.3, 0.0, 0.0))
    assert drive.mean_velocity(0.6)[0] > 0.2
    assert drive.messages <= {""} or name != "quadruped"
    drive.run(1.0 + VALID, None)
    drive.run(0.5, None)
    assert np.abs(drive.mean_velocity(0.5)).max() < 0.02
    assert any("expired" in message for message in drive.messages)


def test_a_steered_run_is_replayed_bit_for_bit(tmp_path):
    drive = Drive("quadruped-trot", tmp_path / "log.mcap")
    drive.run(1.0, (0.3, 0.0, 0.5))
    drive.run(0.5, None)
    drive.recorder.close()
    report = replay(tmp_path / "log.mcap")
    assert report.exact
    assert report.ticks == 1500
