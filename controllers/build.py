"""Build controllers from configurations, from settings and from the snapshots in logs."""

from typing import Any

import msgspec
import numpy as np

from controllers.config.loading import load, parse
from controllers.config.tables import Table, kind_of, merged
from controllers.controller import Controller
from controllers.robot.kinematics import resting
from controllers.robot.load import load_robot
from controllers.settings import ControllerSettings
from idyn.errors import ConfigError
from idyn.model.description import Description
from idyn.model.robot import Robot


def load_controller(name_or_path: str, changes: Table | None = None) -> Controller:
    """Build the controller of a configuration, with `changes` merged into its settings. Raises ConfigError."""
    settings = load("controllers", name_or_path, ControllerSettings)
    return build_controller(changed(settings, changes or {}))


def changed(settings: ControllerSettings, changes: Table, where: str = "controller") -> ControllerSettings:
    """Return the settings with `changes` merged in, table by table.

    where: first part of the path in error messages
    Raises ConfigError for an unknown setting or a wrong value.
    """
    return parse(merged(msgspec.to_builtins(settings), changes), ControllerSettings, where) if changes else settings


def build_controller(settings: ControllerSettings) -> Controller:
    """Build the controller of the settings with the robot that they name. Its stance is moved onto the configured terrain."""
    check_ground(settings)
    robot, stance = load_robot(settings.robot)
    contact = settings.contact
    return Controller(settings, robot, resting(robot, stance, contact.terrain.build(contact.ground)))


def check_ground(settings: ControllerSettings) -> None:
    """Raise ConfigError if reference and law would believe different grounds."""
    terrain, reference, where = settings.contact.terrain, settings.reference, "contact.terrain.kind"
    if terrain.known not in reference.grounds:
        kinds = f"'{kind_of(terrain)}' contradicts reference.kind = '{kind_of(reference)}'"
        raise ConfigError(where, f"{kinds}, which expects ground that is {' or '.join(reference.grounds)}")


def controller_from_snapshot(snapshot: dict[str, Any]) -> Controller:
    """Rebuild a controller from the result of `Controller.snapshot`. Raises ConfigError for a malformed one."""
    for key in ("settings", "stance"):
        if key not in snapshot:
            raise ConfigError(f"snapshot.{key}", "missing")
    settings = parse(snapshot["settings"], ControllerSettings, "settings")
    try:
        description, stance = msgspec.convert(snapshot, Description), msgspec.convert(snapshot["stance"], list[float])
    except msgspec.ValidationError as error:
        raise ConfigError("snapshot", str(error)) from error
    robot = Robot(description)
    if len(stance) != robot.nq or not np.isfinite(stance).all():
        raise ConfigError("snapshot.stance", f"expected {robot.nq} finite numbers, got {len(stance)}")
    return Controller(settings, robot, np.array(stance))
