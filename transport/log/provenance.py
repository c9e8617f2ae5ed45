"""The head of a log: settings, robot, versions and clocks, as a replay needs them."""

import json
import platform
import time
from importlib.metadata import version
from typing import Any

import msgspec

from controllers.config.loading import Settings
from idyn.model.robot import Robot
from transport.log.migrations import MigrationError, migrated, settings_version, version_record, with_placeholder
from transport.log.part import CLOCKS, Attachment, LogError
from transport.log.reader import LogReader

CONTROLLER, SERVER, URDF = "controller.json", "server.json", "robot.urdf"
"""Names of the attachments: controller snapshot, server settings, robot."""

_PACKAGES = ("idyn", "pin", "numpy", "numba", "msgspec", "pyzmq", "mcap")


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
        **version_record(),
        "versions": versions | {"python": platform.python_version()},
        "model": {"name": robot.name, "urdf_sha256": robot.urdf_sha256},
        "run": {"seed": "" if seed is None else str(seed)},
        CLOCKS: {"monotonic_ns": str(time.monotonic_ns()), "wall_ns": str(time.time_ns())},
    }


def recorded_settings(log: LogReader) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the controller snapshot and the server settings of a log, migrated to today's settings.

    Raises LogError when one of them is missing or malformed, or when a setting has no equivalent today.
    """
    try:
        snapshot, server = json.loads(log.attachments[CONTROLLER]), json.loads(log.attachments[SERVER])
        version = settings_version(log.metadata)
        snapshot["settings"], server = migrated(snapshot["settings"], server, version)
        with_placeholder(snapshot, version)
    except MigrationError as error:
        raise LogError(f"{log.path}: {error}") from error
    except KeyError as error:
        raise LogError(f"{log.path}: attachment or key {error} is missing") from error
    except (ValueError, TypeError) as error:
        raise LogError(f"{log.path}: malformed settings ({error})") from error
    return snapshot, server
