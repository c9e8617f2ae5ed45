"""TOML files into typed settings: found by name or path, validated whole, wrong ones refused with the path of the fault."""

import importlib.resources
import tomllib
from enum import Enum
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from idyn.description import ContactPoint
from idyn.errors import ConfigError, nearest
from idyn.shapes import Box

T = TypeVar("T")

NonNegative = Annotated[float, msgspec.Meta(ge=0)]
"""A setting that may be 0 or inf, neither negative nor NaN."""

ROBOT_DATA = "example-robot-data:"
"""Prefix of URDF paths inside the `example-robot-data` package (extra `[robots]`)."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything that is read from TOML: unknown keys are errors."""


class RobotSettings(Settings, frozen=True):
    """A robot: `configs/robots/*.toml`.

    urdf: path relative to the TOML file, or `example-robot-data:<path below its robots folder>`
    base: 'free_flyer' or 'fixed'
    unactuated: joints without a motor, besides a floating base
    contact: places that may touch the ground, and boxes of other bodies
    box: what else may be touched
    tau_max: effort limits that replace the URDF's [N·m]
    armature: rotor inertia times gear ratio squared [kg·m²], of every actuated joint or by joint; 0: directly driven
    standing: joint angles of the nominal stance [rad]; joints left out stand at 0
    """

    urdf: str
    base: str = "free_flyer"
    unactuated: tuple[str, ...] = ()
    contact: tuple[ContactPoint, ...] = ()
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
    folder = Path(str(importlib.resources.files("configs"))) / kind
    path = folder / f"{name_or_path}.toml"
    if not path.is_file():
        names = [p.stem for p in folder.glob("*.toml")]
        raise ConfigError(f"{kind}.{name_or_path}", f"no such configuration{nearest(name_or_path, names)}")
    return path


def load(kind: str, name_or_path: str, settings: type[T]) -> T:
    """Read and validate one TOML file. Raises ConfigError with the path of the first thing that is wrong."""
    path = find(kind, name_or_path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"not valid TOML: {error}") from error
    return parse(data, settings, f"{kind}.{path.stem}")


def parse(data: dict[str, Any], settings: type[T], where: str) -> T:
    """Validate a parsed TOML table. `where` heads the path in errors."""
    try:
        return msgspec.convert(data, settings)
    except msgspec.ValidationError as error:
        message, _, at = str(error).partition(" - at `$")
        at = at.rstrip("`")
        raise ConfigError(where + at, message + _suggestion(message, settings, at)) from error


def _suggestion(message: str, settings: Any, at: str) -> str:
    """For a key that is unknown the nearest of the table it stands in, for a word that is none the words there are; `at` is the
    path of the table or of the word, as in `.contact[0]`."""
    kinds = [settings]
    for part in at.split(".")[1:]:
        name = part.partition("[")[0]
        tables = [table for kind in kinds for table in _parts(kind, msgspec.Struct)]
        kinds = [field.type for table in tables for field in msgspec.structs.fields(table) if field.name == name]
    if "unknown field" in message:
        tables = [table for kind in kinds for table in _parts(kind, msgspec.Struct)]
        return nearest(message.split("`")[1], {name for table in tables for name in table.__struct_fields__})
    if "Invalid enum value" in message:
        return f", expected one of {', '.join(word for kind in kinds for words in _parts(kind, Enum) for word in words)}"
    return ""


def _parts(kind: Any, base: type) -> list[Any]:
    """The structs, or the enums, that a type is made of, without those in their fields."""
    if isinstance(kind, type) and issubclass(kind, base):
        return [kind]
    return [each for part in getattr(kind, "__args__", ()) for each in _parts(part, base)]


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
