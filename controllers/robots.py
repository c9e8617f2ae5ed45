"""Robots from their configurations, and the stance they start in."""

import numpy as np

from controllers.config import RobotSettings, find, load, urdf_path
from controllers.kinematics import contact_places
from idyn.errors import ConfigError, nearest
from idyn.robot import Robot
from idyn.types import Array


def load_robot(name_or_path: str) -> tuple[Robot, Array]:
    """The robot of a configuration and its standing configuration (nq). Raises ConfigError or ModelError."""
    settings = load("robots", name_or_path, RobotSettings)
    path = urdf_path(settings.urdf, find("robots", name_or_path).parent)
    robot = Robot.from_urdf(
        path,
        base=settings.base,
        contact=settings.contact + tuple(corner for sole in settings.sole for corner in sole.corners()),
        box=settings.box,
        actuated=settings.actuated,
        unactuated=settings.unactuated,
        tau_max=settings.tau_max,
        armature=settings.armature,
    )
    return robot, standing(robot, settings.standing)


def standing(robot: Robot, angles: dict[str, float]) -> Array:
    """The stance with the given joint angles [rad], base level, its lowest contact sphere on the plane z = 0 (nq)."""
    target = np.zeros(robot.na)
    for name, angle in angles.items():
        if name not in robot.joint_names:
            raise ConfigError(f"standing.{name}", f"no such actuated joint{nearest(name, robot.joint_names)}")
        target[robot.joint_names.index(name)] = angle
    q = robot.with_joint_angles(robot.neutral(), target)
    if robot.floating and robot.spheres.keys:
        q[2] -= float((contact_places(robot, q)[:, 2] - robot.spheres.radii).min())
    return q
