"""TOML files into typed settings: found by name or path, validated whole, wrong ones refused with the path of the fault."""

import importlib.resources
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, overload

import msgspec

from controllers.tables import KIND, written_out
from idyn.description import ContactPoint, Sole
from idyn.errors import ConfigError, nearest
from idyn.shapes import Box

T = TypeVar("T")

NonNegative = Annotated[float, msgspec.Meta(ge=0)]
"""A setting that may be 0 or inf, neither negative nor NaN."""

ROBOT_DATA = "example-robot-data:"
"""Prefix of URDF paths inside the `example-robot-data` package (extra `[robots]`)."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything that is read from TOML: unknown keys are errors."""


class Kind(Settings, frozen=True, tag_field=KIND):
    """Base of settings that choose code: one of a family of tables, see `controllers.tables`."""


class RobotSettings(Settings, frozen=True):
    """A robot: `configs/robots/*.toml`.

    urdf: path relative to the TOML file, or `example-robot-data:<path below its robots folder>`
    base: 'free_flyer' or 'fixed'
    actuated: planar and floating joints with a motor for each of their degrees of freedom; unactuated: others without one.
        Names: see `idyn.description.Description`
    contact: places that may touch the ground, and boxes of other bodies; sole: flat feet, which do so with their corners
    box: what else may be touched
    tau_max: effort limits that replace the URDF's [N·m]
    armature: rotor inertia times gear ratio squared [kg·m²], of every actuated joint or by joint; 0: directly driven
    standing: joint angles of the nominal stance [rad]; joints left out stand at 0
    """

    urdf: str
    base: str = "free_flyer"
    actuated: tuple[str, ...] = ()
    unactuated: tuple[str, ...] = ()
    contact: tuple[ContactPoint, ...] = ()
    sole: tuple[Sole, ...] = ()
    box: tuple[Box, ...] = ()
    tau_max: dict[str, float] = {}
    armature: NonNegative | dict[str, NonNegative] = 0.0
    standing: dict[str, float] = {}


def find(kind: str, name_or_path: str) -> Path:
    """The file of a shipped configuration (`kind` is a folder of `configs`) or of a path. Raises ConfigError."""
    if name_or_path.endswith(".toml"):
        path = Path(name_or_path)
        if not path.is_file():
            raise ConfigError(name_or_path, "no such file")
        return path
    if name_or_path not in names(kind):
        raise ConfigError(f"{kind}.{name_or_path}", f"no such configuration{nearest(name_or_path, names(kind))}")
    return _folder(kind) / f"{name_or_path}.toml"


def names(kind: str) -> list[str]:
    """Of the shipped configurations of a kind."""
    return [path.stem for path in _folder(kind).glob("*.toml")]


def _folder(kind: str) -> Path:
    return Path(str(importlib.resources.files("configs"))) / kind


def load(kind: str, name_or_path: str, settings: type[T]) -> T:
    """Read and validate one TOML file. Raises ConfigError with the path of the first thing that is wrong."""
    path = find(kind, name_or_path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"not valid TOML: {error}") from error
    return parse(data, settings, f"{kind}.{path.stem}")


@overload
def parse(data: Any, settings: type[T], where: str) -> T: ...
@overload
def parse(data: Any, settings: UnionType, where: str) -> Any: ...
def parse(data: Any, settings: Any, where: str) -> Any:
    """Validate a parsed TOML table, or a word that stands for one. `where` heads the path in errors."""
    try:
        return msgspec.convert(written_out(data, settings, where), settings)
    except msgspec.ValidationError as error:
        message, _, at = str(error).partition(" - at `$")
        raise ConfigError(where + at.rstrip("`"), message) from error


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
