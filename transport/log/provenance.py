"""The head of a log: settings, robot, versions and clocks, as a replay needs them."""

import copy
import json
import platform
import time
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import msgspec

from controllers.config.loading import Settings
from idyn.model.robot import Robot
from transport.log.reader import LogReader
from transport.log.recorder import CLOCKS, Attachment, LogError

RECORD, KEY = "settings", "settings_version"  # metadata record that holds the version, and its key there


class MigrationError(ValueError):
    """The settings of a log have no equivalent today."""


REMOVED = {
    "controller.reference.pose.speed": 0.1,  # [m/s]
    "controller.reference.pose.tilt_speed": 0.4,  # [rad/s]
    "controller.reference.hold": 0.3,  # [s]
    "controller.reference.level": 0.6,  # [rad]
    "controller.reference.tipped": 1.0,  # [rad]
    "controller.reference.still": 0.3,  # [rad/s]
    "controller.reference.rest": 1.0,  # [s]
    "controller.reference.gains.swing": 900.0,  # [1/s²]
    "controller.reference.gains.height": 100.0,  # [1/s²]
    "controller.reference.gains.trunk": 100.0,  # [1/s²]
    "controller.reference.balance.ankle": 0.8,
    "controller.grip.close": 1.0,  # [rad/s]
    "controller.grip.touching": 1e-4,  # [m]
    "controller.alarms.power_stop": 0.1,  # [s]
    "controller.estimator.gyro_drift": 1e-4,  # [rad/s]
    "controller.estimator.accelerometer_drift": 1e-3,  # [m/s²]
    "controller.estimator.settle": 0.03,  # [s]
    "controller.estimator.observer": 250.0,  # [1/s]
}
"""Settings of versions before 6 → the constants that they became."""

OLDEST, FINITE_EFFORTS, SETTINGS_VERSION = 4, 5, 6
"""Versions of the settings: the oldest that is read; the first in which all efforts of a URDF are limits; that of this code."""


def settings_version(metadata: Mapping[str, Mapping[str, str]]) -> int:
    """Return the version of a log's settings. Raises MigrationError for a malformed version and for one that is not read."""
    text = metadata.get(RECORD, {}).get(KEY, "0")
    version = int(text) if text.isascii() and text.isdigit() else -1
    if not OLDEST <= version <= SETTINGS_VERSION:
        raise MigrationError(f"{KEY}: expected {OLDEST} to {SETTINGS_VERSION}, got '{text}'; another idyn wrote this log")
    return version


def migrated(controller: dict[str, Any], version: int) -> dict[str, Any]:
    """Convert the settings of a controller from `version` to today's version.

    Raises MigrationError for a removed setting whose value differs from the constant that it became.
    """
    settings = {"controller": copy.deepcopy(controller)}
    if version < SETTINGS_VERSION:
        for path, constant in REMOVED.items():
            value = _take(settings, path)
            if value not in (None, constant):
                raise MigrationError(f"{path} = {value!r}: this setting was removed and is now the constant {constant!r}")
    return settings["controller"]


def with_placeholder(snapshot: dict[str, Any], version: int) -> None:
    """Let the efforts of the URDF of an older log mean what they meant: from 1000 N·m on they were no limits."""
    if version < FINITE_EFFORTS:
        snapshot.setdefault("placeholder", 1000.0)


def _take(settings: dict[str, Any], path: str) -> Any:
    """Remove a value and return it; None if it is absent. Remove its table, too, once that is empty."""
    key, _, rest = path.partition(".")
    if not rest:
        return settings.pop(key, None)
    table = settings.get(key)
    if not isinstance(table, dict):
        return None
    value = _take(table, rest)
    if value is not None and not table:
        del settings[key]
    return value


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
        RECORD: {KEY: str(SETTINGS_VERSION)},
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
        snapshot["settings"] = migrated(snapshot["settings"], version)
        with_placeholder(snapshot, version)
    except MigrationError as error:
        raise LogError(f"{log.path}: {error}") from error
    except KeyError as error:
        raise LogError(f"{log.path}: attachment or key {error} is missing") from error
    except (ValueError, TypeError) as error:
        raise LogError(f"{log.path}: malformed settings ({error})") from error
    return snapshot, server
