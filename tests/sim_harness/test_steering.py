"""Steering a robot while it walks, in the process and over sockets, and the pose of its base."""

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import mujoco
import numpy as np
import pytest
from fast import first_is_fast, full

from controllers.build import load_controller
from controllers.config.loading import load
from controllers.robot.attitude import tilt
from controllers.robot.load import load_robot
from controllers.settings import ControllerSettings
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.mujoco.robot_model import Coordinates, build_model
from sim_harness.run.server_process import ServerProcess
from transport.log.provenance import attachments, metadata
from transport.log.recorder import Recorder
from transport.log.replay import replay
from transport.protocol.codec import decode, encode
from transport.protocol.messages.command import CommandMessage, GaitPart, PlanHello
from transport.protocol.messages.state import StateMessage
from transport.robot.client import RobotClient
from transport.robot.conversation import hello_for
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback

DT = 1e-3


class Walk:
    """A robot in MuJoCo. motion: rows of x, y [m] and yaw [rad] of the base, one per step"""

    def __init__(self, robot, stance):
        self.robot, self.motion = robot, []
        self.model = build_model(robot, MujocoSettings(timestep=DT))
        self.model.opt.timestep = DT
        self.data, self.coordinates = mujoco.MjData(self.model), Coordinates(robot, self.model)
        self.data.qpos[:], self.data.qvel[:] = self.coordinates.to_mujoco(stance, np.zeros(robot.nv))

    def state(self):
        """Return q and v."""
        return self.coordinates.from_mujoco(self.data.qpos, self.data.qvel)

    def step(self, tau):
        """Simulate one period with these joint torques [N·m]."""
        q, _ = self.state()
        yaw = np.arctan2(2 * (q[6] * q[5] + q[3] * q[4]), 1 - 2 * (q[4] ** 2 + q[5] ** 2))
        self.motion.append((q[0], q[1], yaw))
        self.data.qfrc_applied[self.coordinates.dofs[self.robot.tree.a]] = tau
        mujoco.mj_step(self.model, self.data)

    def mean_velocity(self, seconds):
        """Return the mean velocity forward, left [m/s] and the turn rate [rad/s] over the last seconds."""
        x, y, yaw = np.array(self.motion[-round(seconds / DT) :]).T
        yaw, vx, vy = np.unwrap(yaw), np.gradient(x, DT), np.gradient(y, DT)
        forward, left = np.cos(yaw) * vx + np.sin(yaw) * vy, np.cos(yaw) * vy - np.sin(yaw) * vx
        return np.array([forward.mean(), left.mean(), (yaw[-1] - yaw[0]) / (len(yaw) * DT)])


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


ROOT = Path(__file__).parents[2]

STEPS = [((0.4, 0.0, 0.0), 7.0), ((0.0, 0.3, 0.0), 7.0), ((0.0, 0.0, 1.0), 7.0), ((0.3, 0.1, 0.5), 9.0)]
"""Velocity forward, left [m/s], turn [rad/s], and how long it is commanded [s]."""

STEADY = 4.5
"""Length of the end of each step in which the mean velocity is taken [s]: nine periods of the gait."""


PLANNER = """
import json, select, sys
from transport.robot.planner import PlannerClient

velocity = json.loads(sys.stdin.readline())
with PlannerClient(sys.argv[1], "joystick") as planner:
    print("ready", flush=True)
    while velocity is not None:
        planner.command(velocity, valid_for=0.3)
        if select.select([sys.stdin], [], [], 0.05)[0]:
            velocity = json.loads(sys.stdin.readline())
"""
"""Process of the planner: sends the last velocity from its standard input 20 times a second, until that is null."""


class Planner:
    """Context manager of the planner's process."""

    def __init__(self, endpoint):
        arguments = [sys.executable, "-c", PLANNER, endpoint]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.kill()
        self.process.communicate()

    def send(self, velocity):
        self.process.stdin.write(json.dumps(velocity) + "\n")
        self.process.stdin.flush()


class Client(Walk):
    """A robot that walks in MuJoCo as a client of a server."""

    def __init__(self, name, client):
        super().__init__(*load_robot(name))
        self.client, self.messages = client, []

    def run(self, seconds):
        for _ in range(round(seconds / DT)):
            q, v = self.state()
            reply = self.client.exchange(StateMessage(q=q.tobytes(), vel=v.tobytes(), t_robot=(len(self.motion) + 1) * MS))
            assert reply is not None, self.client.error
            self.messages.append(reply.message)
            self.step(np.frombuffer(reply.tau))


@full
@pytest.mark.parametrize("name", ["go2", "a1", "solo12"])
def test_a_robot_follows_stepwise_commands_of_another_process_and_stands_when_they_end(name, tmp_path, record_property):
    settings = ServerSettings(controller=f"{name}-trot", planners=("joystick",), endpoint=f"ipc://{tmp_path}/s")
    controller = load("controllers", f"{name}-trot", ControllerSettings)
    with (
        ServerProcess(settings, controller) as server,
        RobotClient(server.endpoint, hello_for(load_robot(name)[0], DT, kind="sim"), deadline_ms=5000) as client,
        Planner(server.endpoint) as planner,
    ):
        client.hello()
        planner.send(STEPS[0][0])
        assert planner.process.stdout.readline() == "ready\n"
        walk = Client(name, client)
        for velocity, seconds in STEPS:
            planner.send(velocity)
            walk.run(seconds)
            error = np.abs(walk.mean_velocity(STEADY) - velocity).max() / np.abs(velocity).max()
            record_property(f"{velocity}", float(error))  # workers send properties as plain numbers
            assert error < 0.03
        planner.send(None)
        while "expired" not in walk.messages[-1]:
            walk.run(0.01)
        walk.run(1.0)
        begin = len(walk.motion)
        walk.run(0.5)
        assert len(walk.motion) == begin + 500
        assert np.abs(walk.mean_velocity(0.5)).max() < 0.02


LOWER, ROLL, PITCH = -0.04, 0.1, -0.06


class Posed(Drive):
    """A robot in MuJoCo whose base is commanded. poses: rows of height [m], roll and pitch [rad], one per tick"""

    def __init__(self, name, log=None):
        super().__init__(name, log)
        self.poses, self.torques = [], []

    def step(self, tau):
        self.torques.append(tau)
        super().step(tau)

    def roughness(self, seconds):
        """Mean |dτ/dt| over the last seconds, summed over the joints [N·m/s]."""
        return np.abs(np.diff(self.torques[-round(seconds * 1e3) :], axis=0)).sum(axis=1).mean() / 1e-3

    def run(self, seconds, **command):
        """Simulate, with a command every `PERIOD` ticks; without fields: no commands."""
        for tick in range(round(seconds / 1e-3)):
            if command and tick % PERIOD == 0:
                self.commands += 1
                reply = self.ask(CommandMessage(session=self.session, seq=self.commands, valid_for=VALID, **command))
                assert reply.__struct_config__.tag == "command_ack", reply
            super().run(1e-3, None)
            self.poses.append(pose(self.state()[0]))

    def mean(self, seconds):
        """Mean pose over the last seconds (3)."""
        return np.mean(self.poses[-round(seconds * 1e3) :], axis=0)


def pose(q):
    """Height of the base [m], roll and pitch [rad] (3), by the conventions of aviation: yaw, then pitch, then roll."""
    x, y, z, w = q[3:7]
    roll = np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    return np.array([q[2], roll, np.arcsin(2 * (w * y - z * x))])


@pytest.mark.parametrize("name", first_is_fast(["go2", "a1", "solo12", "quadruped"]))
def test_a_standing_robot_moves_to_the_commanded_pose_and_back(name):
    robot, wanted = Posed(name), np.array([LOWER, ROLL, PITCH])  # in the same order as in replies
    robot.run(0.8)
    level = robot.mean(0.1)
    robot.run(1.5, height=LOWER, attitude=[ROLL, PITCH])
    error = np.abs(robot.mean(0.1) - level - wanted)
    np.testing.assert_allclose(robot.reply.pose, wanted, atol=1e-6)
    assert error[0] < 2e-3
    assert error[1:].max() < 5e-3
    robot.run(VALID + 1.5)
    back = np.abs(robot.mean(0.1) - level)
    assert back[0] < 1e-3
    assert back[1:].max() < 2e-3
    rates = np.diff(robot.poses, axis=0) / 1e-3
    assert (np.abs(rates).max(axis=0) < [0.15, 0.6, 0.6]).all()
    assert robot.reply.pose is None
    assert any("expired" in message for message in robot.messages)


@full
@pytest.mark.parametrize("name", ["go2-trot", "a1-trot", "solo12-trot", "quadruped-trot"])
def test_a_trotting_robot_follows_the_pose_while_it_moves(name):
    robot = Posed(name)
    robot.run(2.5, velocity=[0.2, 0.0, 0.0])
    level = robot.mean(0.8)
    robot.run(2.5, velocity=[0.2, 0.0, 0.0], height=LOWER, attitude=[ROLL, 0.0])
    error = np.abs(robot.mean(0.8) - level - [LOWER, ROLL, 0.0])
    assert error[0] < 2e-3
    assert error[1:].max() < 5e-3
    assert abs(robot.mean_velocity(0.8)[0] - 0.2) < 0.02


def test_a_run_with_poses_is_replayed_bit_for_bit(tmp_path):
    robot = Posed("quadruped", tmp_path / "log.mcap")
    robot.run(0.3, height=-0.02, attitude=[0.05, 0.0])
    robot.run(0.3)
    robot.recorder.close()
    report = replay(tmp_path / "log.mcap")
    assert report.exact
    assert report.ticks == 600


@full
@pytest.mark.parametrize("name", ["go2-trot", "a1-trot", "solo12-trot", "quadruped-trot", "solo8-trot", "fivebar-trot"])
def test_gaits_change_while_the_robot_walks(name):
    robot, forward = Posed(name), [0.15, 0.0, 0.0]
    walk = GaitPart(pattern="walk", period=0.8, duty=0.8)
    stand = GaitPart(pattern="stand")
    for gait in (None, walk, GaitPart(period=0.5, step_height=0.04), walk, stand, None):
        robot.run(2.5, velocity=None if gait == stand else forward, gait=gait)
        height, roll, pitch = pose(robot.state()[0])
        assert abs(height - robot.poses[0][0]) < 0.03
        assert max(abs(roll), abs(pitch)) < 0.05
        assert gait != stand or robot.roughness(0.4) < 10.0
    assert robot.mean_velocity(0.8)[0] == pytest.approx(0.15, abs=0.02)


def test_a_run_with_gaits_is_replayed_bit_for_bit(tmp_path):
    robot = Posed("quadruped-trot", tmp_path / "log.mcap")
    robot.run(0.6, velocity=[0.2, 0.0, 0.0], gait=GaitPart(period=0.4))
    robot.run(0.6, velocity=[0.2, 0.0, 0.0])
    robot.recorder.close()
    report = replay(tmp_path / "log.mcap")
    assert report.exact
    assert report.ticks == 1200
