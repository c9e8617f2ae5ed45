"""Test rigs: controllers of shipped robots with any settings; a robot that follows its planner exactly, without dynamics."""

import numpy as np

from controllers.config.tables import merged
from controllers.controller import Controller
from controllers.planners.gait import GaitSettings
from controllers.planners.locomotion import Locomotion
from controllers.planners.path import PathSettings
from idyn import Flat, contacts_from_geometry, load_controller, load_robot
from idyn.types import Array, State

RIGID = {  # the law to the letter: what it says and what the rigid world does are the same to rounding errors
    "ground__kind": "rigid",
    "ground__gap_noise": 0.0,
    "ground__drift": False,  # worlds of tests are time-steppers whose step is the period
    "torque_feedback__kp": 0.0,
    "torque_feedback__kd": 0.0,
}
DT = 0.001


def controller(name: str = "solo12", **changes: object) -> Controller:
    """The shipped controller with some settings replaced, as if its file said so; `table__field` reaches into a table."""
    data: dict[str, object] = {}
    for key, value in changes.items():
        table, _, field = key.rpartition("__")
        data = merged(data, {table: {field: value}} if table else {field: value})
    return load_controller(name, data)


def at_rest(c: Controller) -> State:
    return State(q=c.stance.copy(), v=np.zeros(c.robot.nv))


def nudged(c: Controller, rng: np.random.Generator, size: float = 0.02) -> State:
    """A state near the stance."""
    q = c.robot.integrate(c.stance, size * rng.normal(size=c.robot.nv))
    v: Array = size * rng.normal(size=c.robot.nv)
    return State(q=q, v=v)


class Walker:
    """The base moves as the plan's own base does, the joints are where the last reference put them."""

    terrain = Flat()

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

    @property
    def twist(self):
        """Of the base, in its own frame (6)."""
        x, y, turn = self.plan.plan.u
        return x, y, 0.0, 0.0, 0.0, turn

    def tick(self):
        """One period; the reference."""
        q, v = self.q, np.zeros(self.robot.nv)
        v[:6] = self.twist
        contacts = contacts_from_geometry(self.robot, q, self.terrain, margin=0.004)
        reference = self.plan.at(self.k * self.dt, State(q=q, v=v), contacts)
        self.angles = reference.q
        self.k += 1
        return reference

    def run(self, seconds):
        return [self.tick() for _ in range(round(seconds / self.dt))]


def stances(references):
    """Which feet stand at each tick (n, feet)."""
    return np.array([reference.schedule.stance for reference in references])
