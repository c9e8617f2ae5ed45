"""Controllers from configurations, from settings, and from the snapshots that logs carry."""

from typing import Any

import msgspec
import numpy as np

from controllers.config.loading import load, parse
from controllers.config.tables import Table, merged
from controllers.controller import Controller
from controllers.robot.load import load_robot
from controllers.robot.stance import resting
from controllers.settings import ControllerSettings
from idyn.model.description import Description
from idyn.model.robot import Robot


def load_controller(name_or_path: str, changes: Table | None = None) -> Controller:
    """The controller of a configuration, with `changes` in its settings."""
    settings = load("controllers", name_or_path, ControllerSettings)
    return build_controller(changed(settings, changes or {}))


def changed(settings: ControllerSettings, changes: Table, where: str = "controller") -> ControllerSettings:
    """Settings with changes put in, table by table. Raises ConfigError headed by `where`."""
    return parse(merged(msgspec.to_builtins(settings), changes), ControllerSettings, where) if changes else settings


def build_controller(settings: ControllerSettings) -> Controller:
    """The controller with the robot that its settings name."""
    robot, stance = load_robot(settings.robot)
    contact = settings.contact
    return Controller(settings, robot, resting(robot, stance, contact.terrain.build(contact.ground)))


def controller_from_snapshot(snapshot: dict[str, Any]) -> Controller:
    """The inverse of `Controller.snapshot`."""
    settings = parse(snapshot["settings"], ControllerSettings, "settings")
    description = msgspec.convert(snapshot, Description)
    return Controller(settings, Robot(description), np.array(snapshot["stance"]))
