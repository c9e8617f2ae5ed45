"""Load TOML files into typed settings: find them, check keys, types and bounds, report errors with their path."""

import importlib.resources
import tomllib
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, overload

import msgspec

from controllers.config.tables import KIND, expand
from idyn.errors import ConfigError, nearest

T = TypeVar("T")

NonNegative = Annotated[float, msgspec.Meta(ge=0)]  # setting ≥ 0; inf is allowed, NaN is not
Positive = Annotated[float, msgspec.Meta(gt=0)]  # setting > 0; inf is allowed, NaN is not
Pattern = Literal["trot", "walk", "pace", "bound", "stand"]  # steps of a gait that a command may ask for; `stand`: none


SECTIONS = {"robots": "robot", "controllers": "controller", "server": "server", "experiments": "experiment"}
"""Kind of a file → section of a file that has several kinds."""

PARTS = {"controllers": "robot", "server": "controller", "experiments": "server"}
"""Kind of a file → its setting that names a file of the kind before it, by default the same file if it has sections."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all settings read from TOML. Unknown keys are errors."""


class Kind(Settings, frozen=True, tag_field=KIND):
    """Base of settings that choose code by their `kind`; see `controllers.config.tables`."""


def find(kind: str, name_or_path: str) -> Path:
    """Return the path of a shipped configuration, or of a file ending in `.toml`.

    kind: folder of `configs` in which shipped configurations are looked up
    Raises ConfigError if there is no such file.
    """
    if name_or_path.endswith(".toml"):
        path = Path(name_or_path)
        if not path.is_file():
            raise ConfigError(name_or_path, "no such file")
        return path
    shipped = files(kind)
    if name_or_path not in shipped:
        raise ConfigError(f"{kind}.{name_or_path}", f"no such configuration{nearest(name_or_path, shipped)}")
    return shipped[name_or_path]


@cache
def files(kind: str) -> dict[str, Path]:
    """Return the paths of the shipped configurations of a kind, by name without subfolder."""
    folder = Path(str(importlib.resources.files("configs"))) / kind
    return {path.stem: path for path in sorted(folder.rglob("*.toml"))}


REFERENCES = ("controller", "robot", "server", "experiment")  # settings with the name or path of another configuration
PATHS = ("secret", "log_directory")  # settings with a path


def load(kind: str, name_or_path: str, settings: type[T]) -> T:
    """Read and validate one TOML file, or its section of this kind. Paths in it are relative to its folder and become absolute.
    Raises ConfigError with the path of the first invalid setting.

    A file all of whose keys are tables named as in `SECTIONS` has sections, each with the contents of a file of that kind. Its
    sections name one another by default.
    """
    path = find(kind, name_or_path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"not valid TOML: {error}") from error
    data, where = _with_absolute_paths(data, path.parent.absolute()), f"{kind}.{path.stem}"
    if kind in SECTIONS and has_sections(data):
        where, data = f"{path.name}.{SECTIONS[kind]}", _section(data, kind, path)
    return parse(data, settings, where)


def has_sections(data: Any) -> bool:
    """Return whether a parsed file has sections, see `load`."""
    return bool(data) and all(key in SECTIONS.values() and isinstance(data[key], dict) for key in data)


def _section(data: Any, kind: str, path: Path) -> Any:
    """Return a section of a file. Raises ConfigError if it is missing and required."""
    section = data.get(SECTIONS[kind])
    if section is None and kind in ("robots", "experiments"):
        raise ConfigError(f"{path.name}.{SECTIONS[kind]}", f"no such section; the file has {', '.join(data)}")
    part = {PARTS[kind]: str(path.absolute())} if kind in PARTS else {}
    return part | (section or {})


def _with_absolute_paths(value: Any, folder: Path, key: str = "") -> Any:
    """Return parsed TOML with the paths of `REFERENCES`, `PATHS` and ipc endpoints, in all its tables, below `folder`."""
    if isinstance(value, list):
        return [_with_absolute_paths(each, folder) for each in value]
    if isinstance(value, dict):
        return {name: _with_absolute_paths(each, folder, name) for name, each in value.items()}
    if isinstance(value, str) and (key in PATHS or (key in REFERENCES and value.endswith(".toml"))):
        return str(folder / value)
    is_socket = key in ("endpoint", "robot_endpoint") and isinstance(value, str)
    if is_socket and value.startswith("ipc://") and not value.startswith("ipc://@"):
        return f"ipc://{folder / value.removeprefix('ipc://')}"
    return value


@overload
def parse(data: Any, settings: type[T], where: str) -> T: ...
@overload
def parse(data: Any, settings: UnionType, where: str) -> Any: ...
def parse(data: Any, settings: Any, where: str) -> Any:
    """Validate a parsed TOML table, or a string that stands for one. `where` is the first part of the path in errors."""
    try:
        return msgspec.convert(expand(data, settings, where), settings)
    except msgspec.ValidationError as error:
        message, _, at = str(error).partition(" - at `$")
        raise ConfigError(where + at.rstrip("`"), message) from error
