"""Load robots from their configurations."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from controllers.config.loading import NonNegative, Settings, find, load
from controllers.robot.kinematics import standing
from idyn.errors import ConfigError, missing_extra, nearest
from idyn.model.description import Box, Closure, ContactPoint, Sole
from idyn.model.robot import Robot
from idyn.types import Array

ROBOT_DATA = "example-robot-data:"  # prefix of paths below the robots folder of `example-robot-data` (extra `[robots]`)
DESCRIPTIONS = "robot_descriptions:"  # prefix of names of `robot_descriptions`, with or without their ending `_description`
FORMATS = ("URDF_PATH", "MJCF_PATH")  # names of the paths in a module of `robot_descriptions`


def shared_folder() -> Path | None:
    """Return the robots folder of `example-robot-data`, None if it is not installed."""
    try:
        return Path(str(distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")))
    except PackageNotFoundError:
        return None


def has_descriptions() -> bool:
    """Return whether `robot_descriptions` is installed."""
    return find_spec("robot_descriptions") is not None


def shared_path(reference: str) -> Path:
    """Return the path of a model of `example-robot-data`, named with its prefix. Raises ConfigError without the package."""
    folder = shared_folder()
    if folder is None:
        raise missing_extra("robot.urdf", f"'{reference}'", "example-robot-data", "robots")
    return folder / reference.removeprefix(ROBOT_DATA)


def described_path(reference: str) -> Path:
    """Return the path of a model of `robot_descriptions`, named with its prefix; the package downloads it once.

    Raises ConfigError without the package, for a name that it does not have, and when it cannot download the model.
    """
    if not has_descriptions():
        raise missing_extra("robot.urdf", f"'{reference}'", "robot_descriptions", "descriptions")
    name = reference.removeprefix(DESCRIPTIONS)
    known = import_module("robot_descriptions._descriptions").DESCRIPTIONS
    module = next((each for each in (name, f"{name}_description", f"{name}_mj_description") if each in known), None)
    if module is None:
        raise ConfigError("robot.urdf", f"robot_descriptions has no '{name}'{nearest(name, known)}")
    try:
        described = import_module(f"robot_descriptions.{module}")
    except Exception as error:  # of git, which has exceptions of its own, or of the description's own packages
        raise ConfigError("robot.urdf", f"robot_descriptions cannot load {module}: {error}") from error
    path = next((getattr(described, each) for each in FORMATS if hasattr(described, each)), None)
    if path is None:
        raise ConfigError("robot.urdf", f"{module} of robot_descriptions has neither a URDF nor an MJCF")
    return Path(path)


class RobotSettings(Settings, frozen=True):
    """Settings of a robot: `configs/robots/*.toml`."""

    # path of a URDF or MJCF, relative to the TOML file, `example-robot-data:<path below its robots folder>`, or
    # `robot_descriptions:<name>`
    urdf: str
    base: str = "free_flyer"  # 'free_flyer' or 'fixed'
    # planar and floating joints with a motor for each of their degrees of freedom; names as in
    # `idyn.model.description.Description`
    actuated: tuple[str, ...] = ()
    unactuated: tuple[str, ...] = ()  # other joints without a motor
    contact: tuple[ContactPoint, ...] = ()  # contact spheres: points that may touch the ground, or the boxes of other bodies
    sole: tuple[Sole, ...] = ()  # flat feet, whose corners become contact spheres
    box: tuple[Box, ...] = ()  # boxes that contact spheres of other bodies may touch
    closure: tuple[Closure, ...] = ()  # closed chains: pairs of frames on two bodies whose origins coincide
    tau_max: dict[str, float] = msgspec.field(default_factory=dict)  # effort limits that replace those of the URDF [N·m]
    # rotor inertia times gear ratio squared [kg·m²], of every actuated joint or by joint; 0: direct drive
    armature: NonNegative | dict[str, NonNegative] = 0.0
    # acceleration in the world [m/s²]; absent: that of an MJCF, else 9.81 downwards
    gravity: tuple[float, float, float] | None = None
    # joints of the motors in the order of the robot's own messages, '' where one moves none, for `idyn bridge unitree`
    motors: tuple[str, ...] = ()
    # joint angles of the nominal stance [rad], within the limits of the URDF; 0 for joints left out. Joints without a motor in
    # a closed chain are moved until it is closed
    standing: dict[str, float] = msgspec.field(default_factory=dict)


def load_robot(name_or_path: str) -> tuple[Robot, Array]:
    """Return the robot of a configuration and its nominal stance (nq). Raises ConfigError or ModelError."""
    settings = load("robots", name_or_path, RobotSettings)
    path = robot_file(name_or_path)
    names = ("box", "closure", "actuated", "unactuated", "tau_max", "armature", "gravity")
    fields: dict[str, Any] = {name: getattr(settings, name) for name in names}
    fields["contact"] = settings.contact + tuple(corner for sole in settings.sole for corner in sole.corners())
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
