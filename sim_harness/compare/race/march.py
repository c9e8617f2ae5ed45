"""A quadruped that marches on the spot: joints held by springs and dampers, feet lifted two and two, no controller besides.

The same torques follow from the same motion under every contact model, so the models alone make the difference.
"""

import msgspec
import numpy as np

from controllers.robot.load import load_robot
from idyn.contact.terrain import Flat
from idyn.model.description import Description
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.engines.engine import Engine
from sim_harness.world.jacobian import contact_jacobian
from sim_harness.world.world import StepResult, World
from sim_harness.world.worlds import build_world

STIFFNESS, DAMPING = 40.0, 0.2
"""Of the joints [N·m/rad], [N·m·s/rad]."""

LIFT, PERIOD = 0.25, 0.4
"""How far joints bend [rad], and how long two steps take [s]."""

RING = 0.004
"""Radius on which the points of a foot lie [m]."""


class March:
    """world: where it marches"""

    def __init__(self, robot: str, points: int, engine: Engine, dt: float) -> None:
        """points: at each foot, on a ring where there are several"""
        given, q = load_robot(robot)
        model = given if points == 1 else Robot(_with_points(given, points), robot)
        self.world = build_world(engine, model, Flat(), q)
        self._dt, self._angles = dt, model.joint_angles(q)
        self._weight = _holding_torque(self.world)
        places = [contact.frame for contact in given.description.contact]
        support = given.tree.support[[given.joint_of_frame(frame) for frame in places]][:, given.tree.a]
        self._first = support[[0, 3]].any(axis=0) if len(places) == 4 else support[::2].any(axis=0)

    def step(self) -> StepResult:
        world = self.world
        phase = np.sin(2.0 * np.pi * world.t / PERIOD)
        bend = LIFT * np.where(self._first, max(phase, 0.0), max(-phase, 0.0))
        error = world.robot.joint_angles(world.q) - self._angles * (1.0 + bend)
        tau = self._weight - STIFFNESS * error - DAMPING * world.v[world.robot.tree.a]
        return world.step(tau, self._dt)


def _with_points(robot: Robot, points: int) -> Description:
    """The robot's description with several points for each place of contact."""
    angles = 2.0 * np.pi * np.arange(points) / points
    contact = [
        msgspec.structs.replace(
            place,
            offset=(place.offset[0] + RING * float(np.cos(a)), place.offset[1] + RING * float(np.sin(a)), place.offset[2]),
            name=f"{place.name}{k}",
        )
        for place in robot.description.contact
        for k, a in enumerate(angles)
    ]
    return msgspec.structs.replace(robot.description, contact=contact)


def _holding_torque(world: World) -> Array:
    """Against gravity at rest, the weight on equal normal forces (na)."""
    robot = world.robot
    terms = robot.terms(world.q, np.zeros(robot.nv))
    N = contact_jacobian(terms.axes, robot.tree.support, world.contacts)[2::3]
    return (terms.h - N.T @ np.full(len(N), robot.total_mass * 9.81 / len(N)))[robot.tree.a]
