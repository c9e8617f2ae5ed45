"""A robot that walks in MuJoCo, and how fast its base moves."""

import mujoco
import numpy as np

from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.mujoco.robot_model import Coordinates, build_model

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
