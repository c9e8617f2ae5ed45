"""What a log must carry besides the messages, so that it can be replayed and trusted later."""

import json
import platform
import time
from importlib.metadata import version

import msgspec

from transport.log_part import CLOCKS, Attachment
from transport.port import ControllerPort
from transport.session import Fault
from transport.settings import ServerSettings

CONTROLLER, SERVER, URDF = "controller.json", "server.json", "robot.urdf"
"""Names of the attachments."""

_PACKAGES = ("idyn", "pin", "numpy", "numba", "msgspec", "pyzmq", "mcap")


def attachments(controller: ControllerPort, settings: ServerSettings) -> list[Attachment]:
    """The controller's snapshot, the server's settings, and the robot."""
    snapshot = json.dumps(controller.snapshot(), indent=1).encode()
    return [
        Attachment(CONTROLLER, "application/json", snapshot),
        Attachment(SERVER, "application/json", msgspec.json.encode(settings)),
        Attachment(URDF, "application/xml", controller.robot.urdf.encode()),
    ]


def metadata(controller: ControllerPort, seed: int | None) -> dict[str, dict[str, str]]:
    """Versions, the model's digest, the seed of whoever runs this, and one pair of clock readings."""
    versions = {package: version(package) for package in _PACKAGES}
    return {
        "versions": versions | {"python": platform.python_version()},
        "model": {"name": controller.robot.name, "urdf_sha256": controller.robot.urdf_sha256},
        "run": {"seed": "" if seed is None else str(seed)},
        CLOCKS: {"monotonic_ns": str(time.monotonic_ns()), "wall_ns": str(time.time_ns())},
    }


def fault_metadata(fault: Fault) -> dict[str, dict[str, str]]:
    return {"fault": {"reason": fault.reason, "t_ns": str(fault.t_ns), "session": str(fault.session)}}
