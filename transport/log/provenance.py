"""The head of a log: settings, robot, versions and clocks, as a replay needs them."""

import json
import platform
import time
from importlib.metadata import version
from typing import Any

import msgspec

from controllers.config.loading import Settings
from idyn.model.robot import Robot
from transport.log.reader import LogReader
from transport.log.recorder import CLOCKS, Attachment, LogError

RECORD, KEY = "settings", "settings_version"  # metadata record that holds the version, and its key there


SETTINGS_VERSION = "6"  # of this code: logs of another version are not read

CONTROLLER, SERVER, URDF = "controller.json", "server.json", "robot.urdf"
"""Names of the attachments: controller snapshot, server settings, robot."""

_PACKAGES = ("idyn", "pin", "numpy", "msgspec", "pyzmq", "mcap")


def attachments(snapshot: dict[str, Any], settings: Settings) -> list[Attachment]:
    """Return the attachments of a new log: controller snapshot, server settings, URDF."""
    return [
        Attachment(CONTROLLER, "application/json", json.dumps(snapshot, indent=1).encode()),
        Attachment(SERVER, "application/json", json.dumps(msgspec.to_builtins(settings)).encode()),
        Attachment(URDF, "application/xml", snapshot["urdf"].encode()),
    ]


def metadata(robot: Robot, seed: int | None) -> dict[str, dict[str, str]]:
    """Return the metadata of a new log: versions, digest of the model, seed of the run, time on both clocks."""
    versions = {package: version(package) for package in _PACKAGES}
    return {
        RECORD: {KEY: SETTINGS_VERSION},
        "versions": versions | {"python": platform.python_version()},
        "model": {"name": robot.name, "urdf_sha256": robot.urdf_sha256},
        "run": {"seed": "" if seed is None else str(seed)},
        CLOCKS: {"monotonic_ns": str(time.monotonic_ns()), "wall_ns": str(time.time_ns())},
    }


def recorded_settings(log: LogReader) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the controller snapshot and the server settings of a log.

    Raises LogError when one of them is missing or malformed, or when another version of idyn wrote the log.
    """
    try:
        found = json.loads(log.attachments[CONTROLLER]), json.loads(log.attachments[SERVER])
    except KeyError as error:
        raise LogError(f"{log.path}: attachment {error} is missing") from error
    except ValueError as error:
        raise LogError(f"{log.path}: malformed settings ({error})") from error
    version = log.metadata.get(RECORD, {}).get(KEY, "0")
    if version != SETTINGS_VERSION:
        raise LogError(f"{log.path}: {KEY}: expected {SETTINGS_VERSION}, got '{version}'; another idyn wrote this log")
    return found
