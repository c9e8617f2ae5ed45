"""Robots in MuJoCo at 1 kHz: alone, as clients of a server, with a planner; paths for tasks."""

from collections import deque
from contextlib import contextmanager

import mujoco
import numpy as np

from controllers.config.loading import load
from controllers.settings import ControllerSettings
from idyn import RobotClient, StateMessage, hello_for, load_controller, load_robot
from idyn.tasks import FrameTask
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.mujoco.robot_model import Coordinates, build_model
from sim_harness.run.server_process import ServerProcess
from transport.log.provenance import attachments, metadata
from transport.log.recorder import Recorder
from transport.protocol.codec import decode, encode
from transport.protocol.messages.command import CommandAck, CommandMessage, PlanHello
from transport.protocol.task_input import write_tasks
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback

DT, MS = 1e-3, 1_000_000
PERIOD = 20  # period of the commands [ticks]


class MujocoRobot:
    """A robot in MuJoCo. motion: rows of x, y [m] and yaw [rad] of the base, one before each step; poses: rows of height [m],
    roll and pitch [rad], one after each step; torques: of the steps [N·m]"""

    def __init__(self, robot, stance, ground="default"):
        self.robot, self.stance, self.motion, self.poses, self.torques = robot, stance, [], [], []
        self.model = build_model(robot, MujocoSettings(ground=ground, timestep=DT))
        self.model.opt.timestep = DT
        self.data, self.coordinates = mujoco.MjData(self.model), Coordinates(robot, self.model)
        self.data.qpos[:], self.data.qvel[:] = self.coordinates.to_mujoco(stance, np.zeros(robot.nv))

    @property
    def state(self):
        return self.coordinates.from_mujoco(self.data.qpos, self.data.qvel)

    def step(self, tau):
        """Simulate one period with these joint torques [N·m]."""
        q, _ = self.state
        self.motion.append((q[0], q[1], np.arctan2(2 * (q[6] * q[5] + q[3] * q[4]), 1 - 2 * (q[4] ** 2 + q[5] ** 2))))
        self.torques.append(tau)
        self.data.qfrc_applied[self.coordinates.dofs[self.robot.tree.a]] = tau
        mujoco.mj_step(self.model, self.data)
        self.poses.append(pose(self.state[0]))

    def mean_velocity(self, seconds):
        """Return the mean velocity forward, left [m/s] and the turn rate [rad/s] over the last seconds."""
        x, y, yaw = np.array(self.motion[-round(seconds / DT) :]).T
        yaw, vx, vy = np.unwrap(yaw), np.gradient(x, DT), np.gradient(y, DT)
        forward, left = np.cos(yaw) * vx + np.sin(yaw) * vy, np.cos(yaw) * vy - np.sin(yaw) * vx
        return np.array([forward.mean(), left.mean(), (yaw[-1] - yaw[0]) / (len(yaw) * DT)])

    def mean_pose(self, seconds):
        """Return the mean pose over the last seconds (3)."""
        return np.mean(self.poses[-round(seconds / DT) :], axis=0)

    def roughness(self, seconds):
        """Mean |dτ/dt| over the last seconds, summed over the joints [N·m/s]."""
        return np.abs(np.diff(self.torques[-round(seconds / DT) :], axis=0)).sum(axis=1).mean() / DT


def pose(q):
    """Height of the base [m], roll and pitch [rad] (3), by the conventions of aviation: yaw, then pitch, then roll."""
    x, y, z, w = q[3:7]
    roll = np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    return np.array([q[2], roll, np.arcsin(2 * (w * y - z * x))])


class ClientRobot(MujocoRobot):
    """A robot in MuJoCo as the client of a server. messages: of the server; angles: of the motors, one row per step"""

    def __init__(self, name, client):
        super().__init__(*load_robot(name))
        self.client, self.messages, self.angles = client, [], []

    def run(self, seconds):
        for _ in range(round(seconds / DT)):
            q, v = self.state
            reply = self.client.exchange(StateMessage(q=q.tobytes(), vel=v.tobytes(), t_robot=(len(self.motion) + 1) * MS))
            assert reply is not None, self.client.error
            self.messages.append(reply.message)
            self.angles.append(q[7:])
            self.step(np.frombuffer(reply.tau))


@contextmanager
def served(folder, controller, *planners):
    """A server in a process of its own, and a client of its robot in which the session has begun."""
    settings = ServerSettings(controller=controller, planners=planners, endpoint=f"ipc://{folder}/s")
    loaded = load("controllers", controller, ControllerSettings)
    hello = hello_for(load_robot(loaded.robot)[0], DT, kind="sim")
    with ServerProcess(settings, loaded) as server, RobotClient(server.endpoint, hello, deadline_ms=5000) as client:
        client.hello()
        yield server, client


class DrivenRobot(MujocoRobot):
    """A robot in MuJoCo, its controller behind a service, and a planner, all by one clock. valid: validity of a command [s];
    changes: of the controller's settings; replies: of the last ten seconds, each with its time [s] and the position of the base
    before it [m]; messages: of all replies"""

    def __init__(self, name, log=None, valid=0.1, **changes):
        self.now, self.t, self.valid, controller = 0, 0.0, valid, load_controller(name, changes)
        settings = ServerSettings(controller=name, planners=("planner",))
        super().__init__(controller.robot, controller.stance)
        if log is not None:
            log = Recorder(log, attachments(controller.snapshot(), settings), metadata(self.robot, None))
        self.recorder, self.service = log, Service(controller, settings, clock=lambda: self.now, recorder=log)
        self.client = Loopback(self.service, hello_for(self.robot, DT, kind="sim"), clock=lambda: self.now)
        self.client.hello()
        self.session, self.commands = self.ask(PlanHello(name="planner")).session, 0
        self.q, self.replies, self.messages = self.stance, deque(maxlen=10_000), set()

    @property
    def reply(self):
        return self.replies[-1][2]

    def ask(self, message):
        reply = decode(self.service.handle(b"planner", encode(message), self.now).reply)
        self.service.settle()
        return reply

    def command(self, tasks=None, **fields):
        self.commands += 1
        sent = {"session": self.session, "seq": self.commands, "valid_for": self.valid}
        answer = self.ask(CommandMessage(**sent, tasks=None if tasks is None else write_tasks(tasks), **fields))
        assert isinstance(answer, CommandAck), answer

    def run(self, seconds, at=None, *, state=None, **command):
        """Simulate. command: fields of a command that is sent every `PERIOD` ticks, or at(t) returns them; neither: without
        commands. state: further fields of the state messages"""
        for tick in range(round(seconds / DT)):
            self.now += MS
            self.t += DT
            if (at or command) and tick % PERIOD == 0:
                self.command(**(at(self.t) if at else command))
            self.q, v = self.state
            sent = StateMessage(q=self.q.tobytes(), vel=v.tobytes(), t_robot=self.now, **(state or {}))
            reply = self.client.exchange(sent)
            assert reply is not None, self.client.error
            self.replies.append((self.t, self.q[:3].copy(), reply))
            self.messages.add(reply.message)
            self.step(np.frombuffer(reply.tau))


def ramp(t):
    """A polynomial of fifth degree from 0 at t = 0 to 1 at t = 1, with zero slope and curvature at both ends."""
    s = min(max(t, 0.0), 1.0)
    return s**3 * (10.0 - 15.0 * s + 6.0 * s * s)


def target(path, t, step=1e-4):
    """Position, velocity and acceleration of a path at time t, by central differences."""
    before, now, after = (path(t + k * step) for k in (-1, 0, 1))
    return now, (after - before) / (2 * step), (after - 2 * now + before) / step**2


def circle(radius, frequency, axes):
    """A circle in the plane of two axes whose radius grows from 0 within a second."""
    first, second = np.eye(3)[list(axes)]

    def path(t):
        angle = 2 * np.pi * frequency * t
        return radius * ramp(t) * (np.cos(angle) * first + np.sin(angle) * second)

    return path


def follow(frame, path, t, origin, **fields):
    """A task for the position of a frame that follows a path about an origin."""
    x, v, a = target(path, t)
    still = np.zeros(3)
    return FrameTask(frame=frame, position=origin + x, velocity=[*v, *still], acceleration=[*a, *still], **fields)
