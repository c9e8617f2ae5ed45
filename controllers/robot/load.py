"""Robots from their configurations."""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import msgspec

from controllers.config.loading import NonNegative, Settings, find, load
from controllers.robot.stance import standing
from idyn.errors import ConfigError
from idyn.model.description import Closure, ContactPoint, Sole
from idyn.model.robot import Robot
from idyn.model.shapes import Box
from idyn.types import Array

ROBOT_DATA = "example-robot-data:"
"""Prefix of URDF paths inside the `example-robot-data` package (extra `[robots]`)."""


class RobotSettings(Settings, frozen=True):
    """A robot: `configs/robots/*.toml`.

    urdf: path relative to the TOML file, or `example-robot-data:<path below its robots folder>`
    base: 'free_flyer' or 'fixed'
    actuated: planar and floating joints with a motor for each of their degrees of freedom; unactuated: others without one.
        Names: see `idyn.model.description.Description`
    contact: places that may touch the ground, and boxes of other bodies; sole: flat feet, which do so with their corners
    box: what else may be touched
    closure: where chains are closed: frames of two bodies whose origins stay together
    tau_max: effort limits that replace the URDF's [N·m]
    armature: rotor inertia times gear ratio squared [kg·m²], of every actuated joint or by joint; 0: directly driven
    standing: joint angles of the nominal stance [rad]; joints left out stand at 0. Joints without a motor that close a chain
        are moved until it is closed
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
    standing: dict[str, float] = msgspec.field(default_factory=dict)


def load_robot(name_or_path: str) -> tuple[Robot, Array]:
    """The robot of a configuration and its standing configuration (nq). Raises ConfigError or ModelError."""
    settings = load("robots", name_or_path, RobotSettings)
    path = urdf_path(settings.urdf, find("robots", name_or_path).parent)
    robot = Robot.from_urdf(
        path,
        base=settings.base,
        contact=settings.contact + tuple(corner for sole in settings.sole for corner in sole.corners()),
        box=settings.box,
        closure=settings.closure,
        actuated=settings.actuated,
        unactuated=settings.unactuated,
        tau_max=settings.tau_max,
        armature=settings.armature,
    )
    return robot, standing(robot, settings.standing)


def urdf_path(urdf: str, base: Path) -> Path:
    """Where a robot's URDF lies. Raises ConfigError when it, or the package that carries it, is missing."""
    if not urdf.startswith(ROBOT_DATA):
        path = base / urdf
    else:
        try:
            share = distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")
        except PackageNotFoundError as error:
            raise ConfigError("robot.urdf", f"'{urdf}' needs the robot collection: pip install 'idyn[robots]'") from error
        path = Path(str(share)) / urdf.removeprefix(ROBOT_DATA)
    if not path.is_file():
        raise ConfigError("robot.urdf", f"no such file: {path}")
    return path
