"""What a log must carry besides the messages, so that it can be replayed and trusted later."""

import json
import platform
import time
from importlib.metadata import version
from typing import Any

import msgspec

from controllers.config.loading import Settings
from idyn.model.robot import Robot
from transport.log.part import CLOCKS, Attachment

CONTROLLER, SERVER, URDF = "controller.json", "server.json", "robot.urdf"
"""Names of the attachments."""

_PACKAGES = ("idyn", "pin", "numpy", "numba", "msgspec", "pyzmq", "mcap")


def attachments(snapshot: dict[str, Any], settings: Settings) -> list[Attachment]:
    """The controller's snapshot, the server's settings, and the robot."""
    return [
        Attachment(CONTROLLER, "application/json", json.dumps(snapshot, indent=1).encode()),
        Attachment(SERVER, "application/json", msgspec.json.encode(settings)),
        Attachment(URDF, "application/xml", snapshot["urdf"].encode()),
    ]


def metadata(robot: Robot, seed: int | None) -> dict[str, dict[str, str]]:
    """Versions, the model's digest, the seed of the run, and one pair of clock readings."""
    versions = {package: version(package) for package in _PACKAGES}
    return {
        "versions": versions | {"python": platform.python_version()},
        "model": {"name": robot.name, "urdf_sha256": robot.urdf_sha256},
        "run": {"seed": "" if seed is None else str(seed)},
        CLOCKS: {"monotonic_ns": str(time.monotonic_ns()), "wall_ns": str(time.time_ns())},
    }
