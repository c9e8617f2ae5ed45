"""Collections of robots in Python packages: example-robot-data and robot_descriptions. Both are optional."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from idyn.errors import ConfigError, nearest
from idyn.extras import missing_extra

ROBOT_DATA = "example-robot-data:"
"""Prefix of paths below the robots folder of `example-robot-data` (extra `[robots]`)."""

DESCRIPTIONS = "robot_descriptions:"
"""Prefix of names of `robot_descriptions` (extra `[descriptions]`), with or without its ending `_description`."""

FORMATS = ("URDF_PATH", "MJCF_PATH")
"""Names of the paths in a module of `robot_descriptions`."""


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
