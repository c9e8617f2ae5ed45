"""Load robots from their configurations."""

from pathlib import Path
from typing import Any

import msgspec

from controllers.config.loading import NonNegative, Settings, find, load
from controllers.robot.collections import DESCRIPTIONS, ROBOT_DATA, described_path, shared_path
from controllers.robot.stance import standing
from idyn.errors import ConfigError
from idyn.model.description import Closure, ContactPoint, Sole
from idyn.model.robot import Robot
from idyn.model.shapes import Box
from idyn.types import Array


class RobotSettings(Settings, frozen=True):
    """Settings of a robot: `configs/robots/*.toml`.

    urdf: path of a URDF or MJCF, relative to the TOML file,
        `example-robot-data:<path below its robots folder>`, or `robot_descriptions:<name>`
    base: 'free_flyer' or 'fixed'
    actuated: planar and floating joints with a motor for each of their degrees of freedom; names as in
        `idyn.model.description.Description`
    unactuated: other joints without a motor
    contact: contact spheres: points that may touch the ground, or the boxes of other bodies
    sole: flat feet, whose corners become contact spheres
    box: boxes that contact spheres of other bodies may touch
    closure: closed chains: pairs of frames on two bodies whose origins coincide
    tau_max: effort limits that replace those of the URDF [N·m]
    armature: rotor inertia times gear ratio squared [kg·m²], of every actuated joint or by joint; 0: direct drive
    gravity: acceleration in the world [m/s²]; absent: that of an MJCF, else 9.81 downwards
    standing: joint angles of the nominal stance [rad], within the limits of the URDF; 0 for joints left out. Joints without a
        motor in a closed chain are moved until it is closed
    """

    urdf: str
    base: str = "free_flyer"
    actuated: tuple[str, ...] = ()
    unactuated: tuple[str, ...] = ()
    contact: tuple[ContactPoint, ...] = ()
    sole: tuple[Sole, ...] = ()
    box: tuple[Box, ...] = ()
    closure: tuple[Closure, ...] = ()
    tau_max: dict[str, float] = msgspec.field(default_factory=dict)
    armature: NonNegative | dict[str, NonNegative] = 0.0
    gravity: tuple[float, float, float] | None = None
    standing: dict[str, float] = msgspec.field(default_factory=dict)


def load_robot(name_or_path: str) -> tuple[Robot, Array]:
    """Return the robot of a configuration and its nominal stance (nq). Raises ConfigError or ModelError."""
    settings = load("robots", name_or_path, RobotSettings)
    path = robot_file(name_or_path)
    fields: dict[str, Any] = {
        "contact": settings.contact + tuple(corner for sole in settings.sole for corner in sole.corners()),
        "box": settings.box,
        "closure": settings.closure,
        "actuated": settings.actuated,
        "unactuated": settings.unactuated,
        "tau_max": settings.tau_max,
        "armature": settings.armature,
        "gravity": settings.gravity,
    }
    given = {name: value for name, value in fields.items() if value}  # what is left out is that of the file
    robot = Robot.from_file(path, settings.base, **given)
    return robot, _within_limits(robot, standing(robot, settings.standing))


def _within_limits(robot: Robot, stance: Array) -> Array:
    """Return the stance. Raises ConfigError for a joint beyond its position limits."""
    limits, angles = robot.limits, robot.joint_angles(stance)
    within = (angles >= limits.q_min) & (angles <= limits.q_max)
    if not within.all():
        k = int(within.argmin())
        expected = f"expected {limits.q_min[k]:g} to {limits.q_max[k]:g} rad (or m), as in the URDF, got {angles[k]:g}"
        raise ConfigError(f"robot.standing.{robot.joint_names[k]}", expected)
    return stance


def robot_file(name_or_path: str) -> Path:
    """Return the path of the URDF or MJCF of a robot's configuration. Raises ConfigError."""
    return urdf_path(load("robots", name_or_path, RobotSettings).urdf, find("robots", name_or_path).parent)


def urdf_path(urdf: str, base: Path) -> Path:
    """Return the path of a robot's URDF. Raises ConfigError if the file, or the package that contains it, is missing."""
    if urdf.startswith(ROBOT_DATA):
        path = shared_path(urdf)
    elif urdf.startswith(DESCRIPTIONS):
        path = described_path(urdf)
    else:
        path = base / urdf
    if not path.is_file():
        raise ConfigError("robot.urdf", f"no such file: {path}")
    return path
