"""Controllers from configurations, from settings, and from the snapshots that logs carry."""

from typing import Any

import msgspec
import numpy as np

from controllers.config import load, parse
from controllers.controller import PID, Controller, ControllerSettings
from controllers.robots import load_robot
from controllers.terrain import make_terrain, resting
from controllers.trajectory import TrajectorySettings
from idyn.description import Description
from idyn.errors import ConfigError
from idyn.laws import make_law
from idyn.robot import Robot
from idyn.types import Selection


def load_controller(
    name_or_path: str, law: str | None = None, selection: str | None = None, reference: str | None = None
) -> Controller:
    """The controller of a configuration, with law, selection or kind of reference replaced on request."""
    settings = load("controllers", name_or_path, ControllerSettings)
    return build_controller(override(settings, law, selection, reference))


def check_law(name: str) -> str:
    """The name, if it may stand in `ControllerSettings.law`. Raises ConfigError naming the nearest ones."""
    return PID if name == PID else make_law(name).name


def override(
    settings: ControllerSettings, law: str | None, selection: str | None, reference: str | None = None
) -> ControllerSettings:
    """Settings with some fields replaced. Raises ConfigError for names that do not exist."""
    changes: dict[str, Any] = {}
    if law is not None:
        changes["law"] = check_law(law)
    if selection is not None:
        if selection not in set(Selection):
            raise ConfigError("selection", f"expected one of {', '.join(Selection)}, got '{selection}'")
        changes["selection"] = Selection(selection)
    if reference is not None:
        kind = parse({"kind": reference}, TrajectorySettings, "reference").kind
        changes["reference"] = msgspec.structs.replace(settings.reference, kind=kind)
    return msgspec.structs.replace(settings, **changes)


def build_controller(settings: ControllerSettings) -> Controller:
    """The controller with the robot that its settings name."""
    robot, stance = load_robot(settings.robot)
    contact = settings.contact
    return Controller(settings, robot, resting(robot, stance, make_terrain(contact.terrain, contact.ground)))


def controller_from_snapshot(snapshot: dict[str, Any]) -> Controller:
    """The inverse of `Controller.snapshot`."""
    settings = parse(snapshot["settings"], ControllerSettings, "snapshot")
    description = msgspec.convert(snapshot, Description)
    return Controller(settings, Robot(description), np.array(snapshot["stance"]))
