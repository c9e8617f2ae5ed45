"""A process of its own steers a robot through a server process, over sockets: 30 s of stepwise commands, then none."""

import json
import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest
from fast import full

from controllers.config.loading import load
from controllers.robot.load import load_robot
from controllers.settings import ControllerSettings
from sim_harness.mujoco.coordinates import Coordinates
from sim_harness.mujoco.robot_model import build_model
from sim_harness.mujoco.settings import MujocoSettings
from sim_harness.run.server_process import ServerProcess
from transport.protocol.messages.state import StateMessage
from transport.robot.client import RobotClient
from transport.robot.conversation import hello_for
from transport.server.settings import ServerSettings

DT, MS = 1e-3, 1_000_000

ROOT = Path(__file__).parents[2]

STEPS = [
    ((0.4, 0.0, 0.0), 7.0),
    ((0.0, 0.3, 0.0), 7.0),
    ((0.0, 0.0, 1.0), 7.0),
    ((0.3, 0.1, 0.5), 9.0),
]
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


class Walk:
    """A robot in MuJoCo as a client of a server. motion: rows of planar pose of the base"""

    def __init__(self, name, client):
        self.robot, self.client, self.motion, self.messages = load_robot(name)[0], client, [], []
        _, stance = load_robot(name)
        self.model = build_model(self.robot, MujocoSettings(timestep=DT))
        self.model.opt.timestep = DT
        self.data, self.coordinates = mujoco.MjData(self.model), Coordinates(self.robot, self.model)
        self.data.qpos[:], self.data.qvel[:] = self.coordinates.to_mujoco(stance, np.zeros(self.robot.nv))

    def run(self, seconds):
        for _ in range(round(seconds / DT)):
            q, v = self.coordinates.from_mujoco(self.data.qpos, self.data.qvel)
            reply = self.client.exchange(StateMessage(q=q.tobytes(), vel=v.tobytes(), t_robot=(len(self.motion) + 1) * MS))
            assert reply is not None, self.client.error
            self.messages.append(reply.message)
            self.data.qfrc_applied[self.coordinates.dofs[self.robot.tree.a]] = np.frombuffer(reply.tau)
            mujoco.mj_step(self.model, self.data)
            yaw = np.arctan2(2 * (q[6] * q[5] + q[3] * q[4]), 1 - 2 * (q[4] ** 2 + q[5] ** 2))
            self.motion.append((q[0], q[1], yaw))

    def mean_velocity(self, seconds):
        """Mean velocity forward, left [m/s] and turn rate [rad/s] over the last seconds."""
        x, y, yaw = np.array(self.motion[-round(seconds / DT) :]).T
        yaw, vx, vy = np.unwrap(yaw), np.gradient(x, DT), np.gradient(y, DT)
        forward, left = np.cos(yaw) * vx + np.sin(yaw) * vy, np.cos(yaw) * vy - np.sin(yaw) * vx
        return np.array([forward.mean(), left.mean(), (yaw[-1] - yaw[0]) / (len(yaw) * DT)])


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
        walk = Walk(name, client)
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
