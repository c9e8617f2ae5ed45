"""A robot that follows its planner exactly, without dynamics, for tests of plans."""

import numpy as np

from controllers.planners.gait import GaitSettings
from controllers.planners.locomotion import Locomotion
from controllers.planners.path import PathSettings
from controllers.robot.load import load_robot
from idyn import Flat, State, contacts_from_geometry

DT = 0.001


class Walker:
    """The base moves as the plan's own base does, the joints are where the last reference put them."""

    def __init__(self, name="quadruped", start=0.1, gait=None, dt=DT, **path):
        self.robot, self.stance = load_robot(name)
        self.plan = Locomotion(self.robot, self.stance, start, gait or GaitSettings(capture=0.0), PathSettings(**path), dt)
        self.angles = self.robot.joint_angles(self.stance)
        self.k, self.dt = 0, dt

    @property
    def q(self):
        """Configuration (nq)."""
        x, y, yaw = self.plan.plan.pose
        q = self.stance.copy()
        q[:2] = x, y
        q[3:7] = 0.0, 0.0, np.sin(yaw / 2), np.cos(yaw / 2)
        return self.robot.with_joint_angles(q, self.angles)

    @property
    def feet(self):
        """In the base frame [m] (n, 3)."""
        return self.plan.legs.feet(self.angles)

    def tick(self):
        """One period; the reference."""
        q = self.q
        u = self.plan.plan.u
        v = np.zeros(self.robot.nv)
        v[[0, 1, 5]] = u
        contacts = contacts_from_geometry(self.robot, q, Flat(), margin=0.004)
        reference = self.plan.at(self.k * self.dt, State(q=q, v=v), contacts)
        self.angles = reference.q
        self.k += 1
        return reference

    def run(self, seconds):
        return [self.tick() for _ in range(round(seconds / self.dt))]
