"""Whole-body control in MuJoCo: references of class C², loops, and figures of `test_tasks_in_mujoco.py`."""

import mujoco
import numpy as np

from controllers.robot.load import load_robot
from idyn import Flat, State, contacts_from_geometry
from idyn.tasks import FrameTask, PostureTask, TaskStack, predict_tasks
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.mujoco.robot_model import Coordinates, build_model

DT = 0.001
SETTLED = 3.0
"""Figures are taken from this time on [s]."""


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


class Run:
    """go2 in MuJoCo under `predict_tasks`.

    ground: see `MujocoSettings`; mu: friction of world and model; noise: standard deviations of the measured state, in units of
    0.2 mm, 1 mrad (base), 0.5 mrad (joints), 10 mm/s and 10 mrad/s (base), 50 mrad/s (joints)
    """

    def __init__(self, *, ground="default", mu=None, noise=0.0, law="coulomb"):
        self.robot, self.stance = load_robot("go2")
        self.model = build_model(self.robot, MujocoSettings(ground=ground, timestep=DT))
        self.model.opt.timestep = DT
        if mu is not None:
            self.model.pair_friction[:, :2] = mu
        self.data, self.coordinates = mujoco.MjData(self.model), Coordinates(self.robot, self.model)
        self.data.qpos[:], self.data.qvel[:] = self.coordinates.to_mujoco(self.stance, np.zeros(self.robot.nv))
        self.mu, self.noise, self.law, self.rng, self.guess = mu, noise, law, np.random.default_rng(0), None
        self.errors, self.rates, self.normal, self.torque, self.upright = [], [], [], None, True

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
            q, v = self.coordinates.from_mujoco(self.data.qpos, self.data.qvel)
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
            self.guess, tau = answer.prediction.guess, answer.prediction.tau
            self.data.qfrc_applied[self.coordinates.dofs[self.robot.tree.a]] = tau
            mujoco.mj_step(self.model, self.data)
            if t >= SETTLED:
                self.errors.append(error_at(t, q))
                self.rates.append(np.abs(tau - self.torque).mean() / DT)
            self.torque = tau
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
        """Mean |dτ/dt| [N·m/s]."""
        return float(np.mean(self.rates))
