"""Exceptions for invalid settings, models and inputs. Failures of a solve are returned as a `Status` instead."""

import json
from collections.abc import Iterable
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, distribution


class IdynError(Exception):
    """Base class of all exceptions of the package."""


class ConfigError(IdynError):
    """A setting is invalid.

    path: name of the setting, such as `controllers.stand.feedback.kp`
    message: what was expected and what was given
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path, self.message = path, message


class ModelError(IdynError):
    """A robot model cannot be loaded or used."""


class KernelError(IdynError):
    """The library of kernels cannot be used, or has no kernel for these arguments. The message says what to do."""


class FrameNotFound(ModelError):
    """The model has no frame of this name; the message lists the most similar names."""

    def __init__(self, name: str, available: Iterable[str]) -> None:
        super().__init__(f"no frame named '{name}' in the model{nearest(name, available)}")


class InputError(IdynError):
    """An input is malformed. No part of the input was used.

    field: name of the field
    message: what was expected and what was given
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field, self.message = field, message


LONGEST_NAME = 100  # longer names are cut before comparison, whose time grows with the square of the length


def nearest(name: str, available: Iterable[str]) -> str:
    """Return ` (nearest: a, b)` with the names most similar to `name`; without similar ones all, if they are few."""
    names = sorted(available)
    close = get_close_matches(name[:LONGEST_NAME], names, n=3, cutoff=0.4) or (names if len(names) <= 8 else [])
    return f" (nearest: {', '.join(close)})" if close else ""


def install_command(extra: str) -> str:
    """Return the command that installs an extra from where idyn was installed from."""
    try:
        text = distribution("idyn").read_text("direct_url.json")
    except PackageNotFoundError:  # a source folder that is not installed
        text = None
    origin = json.loads(text) if text else {}
    url = str(origin.get("url", ""))
    if not url.startswith("file://"):
        return f"pip install 'idyn[{extra}]'"
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}'{url.removeprefix('file://')}[{extra}]'"


def missing_extra(field: str, what: str, package: str, extra: str) -> ConfigError:
    """Return the error about a missing package. field: setting or option that needs it; what: needs it"""
    return ConfigError(field, f"{what} needs the package {package}, which is not installed: {install_command(extra)}")
