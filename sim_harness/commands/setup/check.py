"""`idyn check`: check a configuration, a URDF or a log.

Configurations and URDFs are checked without running them. In a log, the command looks for states in which the contacts admit
several outcomes under the same torques.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import msgspec

from controllers.build import build_controller
from controllers.config.loading import SECTIONS, Settings, files, has_sections, load
from controllers.floors import floor_map, floor_text
from controllers.robot.load import RobotSettings, load_robot
from controllers.settings import ControllerSettings
from idyn.errors import ConfigError, InputError
from idyn.model.robot import Robot
from sim_harness.commands.output import progress_bar
from sim_harness.compare.ambiguity import ambiguities, ambiguities_text
from sim_harness.compare.settings import ComparisonSettings, is_comparison, load_comparison, plans
from sim_harness.run.plan import ExperimentSettings, load_plan
from sim_harness.scenes.load import load_scene
from sim_harness.scenes.scene_model import SceneModel
from sim_harness.scenes.scene_settings import SceneSettings, is_scene
from transport.robot.conversation import hello_for
from transport.server.settings import ServerSettings, endpoint, robot_endpoint

MODELS = (".urdf", ".xml")
"""Ends of the names of files with a model alone."""

FILES: dict[str, tuple[type[Settings], ...]] = {
    "robots": (RobotSettings,),
    "controllers": (ControllerSettings,),
    "server": (ServerSettings,),
    "experiments": (ExperimentSettings, ComparisonSettings, SceneSettings),
}
"""Folder of `configs` → types of settings that its files may have."""


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    if options.hello:
        return _hello(options.what), True
    return _log(options) if options.what.endswith(".mcap") else _model(options)


def _hello(what: str) -> dict[str, Any]:
    """Print and return what a client says of a robot: its `hello`, and its stance as `q` of a `state`."""
    robot, stance = load_robot(what)
    facts = {"hello": msgspec.to_builtins(hello_for(robot, 0.001)), "q": stance.tolist(), "contacts": robot.contact_names}
    print(json.dumps(facts))
    return facts


def _log(options: argparse.Namespace) -> tuple[Any, bool]:
    """Report the ticks of a log with several outcomes under the same torques. Such ticks are not errors."""
    with progress_bar(0) as progress:
        checks = ambiguities(Path(options.what), options.every, options.samples, lambda _: progress(options.what, 1))
    print(ambiguities_text(checks))
    return msgspec.to_builtins(checks), True


def _model(options: argparse.Namespace) -> tuple[Any, bool]:
    robots = [_from_file(options.what, options.fixed)] if options.what.lower().endswith(MODELS) else _robots(options.what)
    findings = [(robot, finding) for robot in robots for finding in robot.inspect()]
    lines = [_describe(robot) for robot in robots]
    lines += [f"{finding.severity}: {robot.name}.{finding.where}: {finding.message}" for robot, finding in findings]
    for line in dict.fromkeys(lines):  # several configurations may have the same robot
        print(line)
    if not options.what.lower().endswith(MODELS):
        _print_floors(options.what)
    rows = [{"robot": r.name, "severity": f.severity, "where": f.where, "message": f.message} for r, f in findings]
    return rows, not any(finding.severity == "warning" for _, finding in findings)


def _from_file(path: str, fixed: bool) -> Robot:
    """Return the robot of a URDF or an MJCF. fixed: whether the base of a URDF is fixed"""
    try:
        return Robot.from_file(path, "fixed" if fixed else None)
    except InputError as error:
        if error.field != "base":
            raise
        raise ConfigError("--fixed", "expected a URDF; an MJCF says itself whether its base is fixed") from error


def _robots(what: str) -> list[Robot]:
    """Load the configurations named `what` from every folder that has one; return their robots."""
    folders = _folders(what) if what.endswith(".toml") else [folder for folder in FILES if what in files(folder)]
    if not folders:
        raise ConfigError(what, f"expected the name of a configuration in {', '.join(FILES)}; no file has this name")
    robots = []
    for folder in folders:
        robots.append(_load(folder, what))
        print(f"{folder}.{what}: valid")
    return robots


def _folders(path: str) -> list[str]:
    """Return the folders of the file's sections; without sections, the folder whose settings share the most keys with it."""
    data = load("file", path, dict)
    if has_sections(data):
        return [folder for folder, section in SECTIONS.items() if section in data]
    keys = set(data)
    best = max(FILES, key=lambda folder: max(len(keys & set(each.__struct_fields__)) for each in FILES[folder]))
    return [best]


def _load(kind: str, what: str) -> Robot:
    if kind == "robots":
        return load_robot(what)[0]
    if kind == "controllers":
        return build_controller(load(kind, what, ControllerSettings)).robot
    if kind == "server":
        settings = load(kind, what, ServerSettings)
        endpoint(settings)
        robot_endpoint(settings)
        return build_controller(load("controllers", settings.controller, ControllerSettings)).robot
    if is_scene(what):
        return SceneModel(load_scene(what)).robot
    if is_comparison(what):
        comparison = load_comparison(what)
        robots = [plan.controller.robot for plan in plans(comparison)]
        name = robots[0] if comparison.timing is None else comparison.timing.robot
        return load_robot(name)[0]
    return build_controller(load_plan(what).controller).robot


def _print_floors(what: str) -> None:
    """Print on which floors a controller stands without oscillating."""
    if what in files("controllers") or (what.endswith(".toml") and "controllers" in _folders(what)):
        found = floor_map(build_controller(load("controllers", what, ControllerSettings)))
        if found is not None:
            text, warning = floor_text(*found)
            print(text)
            if warning:
                print(f"warning: {warning}")


def _describe(robot: Robot) -> str:
    return (
        f"{robot.name}: {robot.description.base} base, {robot.na} actuated and {robot.nu} unactuated velocities, "
        f"{robot.total_mass:.4g} kg, contact points {', '.join(robot.spheres.keys) or 'none'}"
    )
