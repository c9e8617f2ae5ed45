"""A quadruped that marches on the spot: springs and dampers move the joints, feet lift in pairs, there is no controller.

The torques depend on the motion only, so all differences between runs come from the contact models.
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
"""Stiffness [N·m/rad] and damping [N·m·s/rad] of the joints."""

LIFT, PERIOD = 0.25, 0.4
"""Largest increase of a lifted leg's joint angles, as a share of their values in the stance; duration of two steps [s]."""

RING = 0.004
"""Radius of the ring of contact points of a foot [m]."""


class March:
    """A marching robot and its `world`."""

    def __init__(self, robot: str, points: int, engine: Engine, dt: float) -> None:
        """points: number of contact points of each foot; several lie on a ring. dt: time step [s]"""
        given, q = load_robot(robot)
        model = given if points == 1 else Robot(_with_points(given, points), robot)
        self.world = build_world(engine, model, Flat(), q)
        self._dt, self._angles = dt, model.joint_angles(q)
        self._weight = _holding_torque(self.world)
        places = [contact.frame for contact in given.description.contact]
        support = given.tree.support[[given.joint_of_frame(frame) for frame in places]][:, given.tree.a]
        self._first = support[[0, 3]].any(axis=0) if len(places) == 4 else support[::2].any(axis=0)

    def step(self) -> StepResult:
        """Advance the world by one time step."""
        world = self.world
        phase = np.sin(2.0 * np.pi * world.t / PERIOD)
        bend = LIFT * np.where(self._first, max(phase, 0.0), max(-phase, 0.0))
        error = world.robot.joint_angles(world.q) - self._angles * (1.0 + bend)
        tau = self._weight - STIFFNESS * error - DAMPING * world.v[world.robot.tree.a]
        return world.step(tau, self._dt)


def _with_points(robot: Robot, points: int) -> Description:
    """Return the robot's description with `points` contact points in place of each one."""
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
    """Return the joint torques [N·m] that hold the robot at rest with equal normal forces (na)."""
    robot = world.robot
    terms = robot.terms(world.q, np.zeros(robot.nv))
    N = contact_jacobian(terms.axes, robot.tree.support, world.contacts)[2::3]
    return (terms.h - N.T @ np.full(len(N), robot.total_mass * 9.81 / len(N)))[robot.tree.a]
