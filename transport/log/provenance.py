"""The head of a log: settings, robot, versions and clocks, as a replay needs them."""

import copy
import json
import platform
import time
from collections.abc import Callable, Mapping
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


class Migration(msgspec.Struct, frozen=True):
    """The changes from one version of the settings to the next, by paths that begin with `controller.` or `server.`.

    constants: removed settings, and the constants that they became
    renamed: old path → new path
    added: new settings, with the values for which nothing changes; they are added to recorded tables that lack them
    joined: function that changes the settings in place where several became one
    """

    constants: Mapping[str, float] = {}
    renamed: Mapping[str, str] = {}
    added: Mapping[str, Any] = {}
    joined: Callable[[dict[str, Any]], None] | None = None


def _one_ground(settings: dict[str, Any]) -> None:
    """Replace what the gait knew of the ground, and the terrain of the law, by the terrain that both believe.

    Where these differ, as by default ('estimated', 'flat'), or the feet did not notice steps, the terrain keeps them apart.
    """
    known = _take(settings, "controller.reference.ground")
    if known is None:
        return
    contact = settings["controller"].setdefault("contact", {})
    law = contact.setdefault("terrain", {"kind": "flat"})
    if law["kind"] == "standing" and known == "told":
        known = "estimated"
    if known != "told" and (known, law["kind"]) != ("flat", "flat"):
        contact["terrain"] = {"kind": "apart", "law": law, "gait": known}


MIGRATIONS = (
    Migration(
        constants={
            "controller.reference.gait.touchdown_speed": 0.15,  # [m/s]
            "controller.reference.gait.redirect": 0.75,
            "controller.reference.gait.touching": 1e-4,  # [m]
            "controller.reference.gait.settle": 0.1,  # [s]
            "controller.reference.path.heading": 0.7,  # [rad]
            "controller.reference.path.turn_gain": 3.0,  # [1/s]
            "controller.reference.path.turn_acceleration": 2.0,  # [rad/s²]
        },
        renamed={"server.anticipation.lead_us": "server.anticipation_us"},
    ),
    Migration(added={"server.start": "motion", "server.watchdog.silence_ms": 1e6}),
    Migration(added={"server.session_bits": 64}),
    Migration(added={"controller.ground.drift": False}, joined=_one_ground),
    Migration(),  # efforts of 1000 N·m and more are limits: see `with_placeholder`
    Migration(
        constants={
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
    ),
)
"""Entry k leads from version k to version k + 1."""

FINITE_EFFORTS = 5  # first version in which all efforts of a URDF are limits
SETTINGS_VERSION = len(MIGRATIONS)  # version of the settings that this code reads and writes


def version_record() -> dict[str, dict[str, str]]:
    """Return the metadata record of a new log."""
    return {RECORD: {KEY: str(SETTINGS_VERSION)}}


def settings_version(metadata: Mapping[str, Mapping[str, str]]) -> int:
    """Return the version of a log's settings. Raises MigrationError for a malformed version and for one of newer code."""
    text = metadata.get(RECORD, {}).get(KEY, "0")
    if not (text.isascii() and text.isdigit()):
        raise MigrationError(f"{KEY}: expected an integer ≥ 0, got '{text}'")
    version = int(text)
    if version > SETTINGS_VERSION:
        raise MigrationError(f"{KEY}: expected at most {SETTINGS_VERSION}, got {version}; a newer idyn wrote this log")
    return version


def migrated(controller: dict[str, Any], server: dict[str, Any], version: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Convert the settings of controller and server from `version` to today's version.

    Raises MigrationError for a removed setting whose value differs from the constant that it became.
    """
    settings = copy.deepcopy({"controller": controller, "server": server})
    for migration in MIGRATIONS[version:]:
        for path, constant in migration.constants.items():
            value = _take(settings, path)
            if value not in (None, constant):
                raise MigrationError(f"{path} = {value!r}: this setting was removed and is now the constant {constant!r}")
        for old, new in migration.renamed.items():
            if (value := _take(settings, old)) is not None:
                _put(settings, new, value)
        for path, value in migration.added.items():
            _add(settings, path, value)
        if migration.joined is not None:
            migration.joined(settings)
    return settings["controller"], settings["server"]


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


def _put(settings: dict[str, Any], path: str, value: Any) -> None:
    *tables, key = path.split(".")
    for table in tables:
        settings = settings.setdefault(table, {})
    settings[key] = value


def _add(settings: dict[str, Any], path: str, value: Any) -> None:
    """Add a value where it is absent, unless its outermost table is empty."""
    root, *tables, key = path.split(".")
    table = settings[root]
    if not table:
        return
    for name in tables:
        table = table.setdefault(name, {})
    table.setdefault(key, value)


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
