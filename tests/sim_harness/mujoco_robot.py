"""Robots in MuJoCo at 1 kHz: alone, as clients of a server, with a planner, under `predict_tasks`; paths for tasks."""

from collections import deque
from contextlib import contextmanager

import mujoco
import numpy as np

from controllers.build import load_controller
from controllers.config.loading import load
from controllers.robot.load import load_robot
from controllers.settings import ControllerSettings
from idyn import Flat, State, contacts_from_geometry
from idyn.tasks import FrameTask, PostureTask, TaskStack, predict_tasks
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.mujoco.robot_model import Coordinates, build_model
from sim_harness.run.server_process import ServerProcess
from transport.log.provenance import attachments, metadata
from transport.log.recorder import Recorder
from transport.protocol.codec import decode, encode
from transport.protocol.messages.command import CommandAck, CommandMessage, PlanHello
from transport.protocol.messages.state import StateMessage
from transport.protocol.task_input import write_tasks
from transport.robot.client import RobotClient, hello_for
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback

DT, MS = 1e-3, 1_000_000
PERIOD = 20
"""Period of the commands [ticks]."""

SETTLED = 3.0
"""Figures of a `TaskRun` are taken from this time on [s]."""


class MujocoRobot:
    """A robot in MuJoCo.

    motion: rows of x, y [m] and yaw [rad] of the base, one before each step; poses: rows of height [m], roll and pitch [rad],
    one after each step; torques: of the steps [N·m]
    """

    def __init__(self, robot, stance, ground="default"):
        self.robot, self.stance, self.motion, self.poses, self.torques = robot, stance, [], [], []
        self.model = build_model(robot, MujocoSettings(ground=ground, timestep=DT))
        self.model.opt.timestep = DT
        self.data, self.coordinates = mujoco.MjData(self.model), Coordinates(robot, self.model)
        self.data.qpos[:], self.data.qvel[:] = self.coordinates.to_mujoco(stance, np.zeros(robot.nv))

    @property
    def state(self):
        """q and v."""
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
    """A robot in MuJoCo, its controller behind a service, and a planner, all by one clock.

    valid: validity of a command [s]; changes: of the controller's settings
    replies: of the last ten seconds, each with its time [s] and the position of the base before it [m]
    messages: of all replies
    """

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
    return FrameTask(
        frame=frame, position=origin + x, velocity=np.concatenate([v, still]), acceleration=np.concatenate([a, still]), **fields
    )


class TaskRun(MujocoRobot):
    """go2 in MuJoCo under `predict_tasks`.

    ground: see `MujocoSettings`; mu: friction of world and model; noise: standard deviations of the measured state, in units of
    0.2 mm, 1 mrad (base), 0.5 mrad (joints), 10 mm/s and 10 mrad/s (base), 50 mrad/s (joints)
    """

    def __init__(self, *, ground="default", mu=None, noise=0.0, law="coulomb"):
        super().__init__(*load_robot("go2"), ground)
        if mu is not None:
            self.model.pair_friction[:, :2] = mu
        self.mu, self.noise, self.law, self.rng, self.guess = mu, noise, law, np.random.default_rng(0), None
        self.errors, self.upright = [], True

    def position(self, frame, q):
        return self.robot.frames.placement(frame, q).translation

    def measured(self, q, v):
        if not self.noise:
            return q, v
        a, nv, draw = self.robot.tree.a, self.robot.nv, self.rng.normal
        shift, speed = np.zeros(nv), np.zeros(nv)
        shift[:3], shift[3:6], shift[a] = 2e-4 * draw(size=3), 1e-3 * draw(size=3), 5e-4 * draw(size=len(a))
        speed[:3], speed[3:6], speed[a] = 1e-2 * draw(size=3), 1e-2 * draw(size=3), 5e-2 * draw(size=len(a))
        return self.robot.integrate(q, self.noise * shift), v + self.noise * speed

    def loop(self, seconds, tasks_at, error_at, without=None):
        """Run the loop. tasks_at(t, q): the tasks; error_at(t, q): what is recorded from `SETTLED` on; without: key of a
        contact that is not in the set from one second on"""
        for k in range(round(seconds / DT)):
            t = k * DT
            q, v = self.state
            seen_q, seen_v = self.measured(q, v)
            mu = None if self.mu is None else np.full(4, self.mu)
            contacts = contacts_from_geometry(self.robot, seen_q, Flat(), margin=0.002, mu=mu)
            if without is not None and t >= 1.0:
                contacts = contacts.take(np.array([key != without for key in contacts.keys]))
            posture = PostureTask(angles=self.robot.joint_angles(self.stance), level=1)
            stack = TaskStack(tasks=[*tasks_at(t, q), posture])
            answer = predict_tasks(
                self.robot, State(q=seen_q, v=seen_v), contacts, stack, law=self.law, dt=DT, guess=self.guess
            )
            assert answer.prediction.status.ok
            self.guess = answer.prediction.guess
            self.step(answer.prediction.tau)
            if t >= SETTLED:
                self.errors.append(error_at(t, q))
            if not 0.7 < q[2] / self.stance[2] < 1.3:
                self.upright = False
                return self
        return self

    @property
    def rms(self):
        """Root mean square of the recorded errors [mm]."""
        return 1e3 * float(np.sqrt(np.mean(np.square(self.errors))))

    @property
    def rate(self):
        """Mean |dτ/dt| from `SETTLED` on [N·m/s]."""
        return float(np.abs(np.diff(self.torques[round(SETTLED / DT) - 1 :], axis=0)).mean() / DT)
