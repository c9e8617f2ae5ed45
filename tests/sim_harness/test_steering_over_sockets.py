"""A process of its own steers a robot through a server process, over sockets: 30 s of stepwise commands, then none."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fast import full
from steered_walk import DT, Walk

from controllers.config.loading import load
from controllers.robot.load import load_robot
from controllers.settings import ControllerSettings
from sim_harness.run.server_process import ServerProcess
from transport.protocol.messages.state import StateMessage
from transport.robot.client import RobotClient
from transport.robot.conversation import hello_for
from transport.server.settings import ServerSettings

MS = 1_000_000

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
