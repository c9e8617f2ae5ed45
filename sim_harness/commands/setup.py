"""`idyn check`, `list`, `new` and `doctor`: configurations, models and logs; this installation."""

import argparse
import json
import shutil
import textwrap
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any, get_args

import msgspec

from controllers.build import build_controller
from controllers.config.listing import settings_of
from controllers.config.loading import SECTIONS, Settings, files, has_sections, load
from controllers.config.tables import kind_of
from controllers.floors import floor_map, floor_text
from controllers.planners.mpc import MpcSettings
from controllers.robot.load import RobotSettings, load_robot
from controllers.settings import ControllerSettings
from idyn.errors import ConfigError, InputError
from idyn.laws import LAWS
from idyn.model.robot import Robot
from sim_harness.commands.output import progress_bar
from sim_harness.compare.settings import ComparisonSettings, is_comparison
from sim_harness.compare.studies import CHECKOUT, comparison_module, is_scene, scene_module, study_module
from sim_harness.doctor import Fact, bench_server, facts
from sim_harness.new.draft import draft
from sim_harness.new.source import draft_name, find_model, poses_of
from sim_harness.run.plan import ExperimentSettings, load_plan
from sim_harness.world.worlds import AnyEngine
from transport.robot.client import hello_for
from transport.server.settings import ServerSettings, endpoint, robot_endpoint


def settings_of_scenes() -> tuple[type[Settings], ...]:
    """Return the settings of a scene, in a checkout only."""
    return () if find_spec(CHECKOUT) is None else (import_module(f"{CHECKOUT}.scenes.scene_settings").SceneSettings,)


MODELS = (".urdf", ".xml")  # ends of the names of files with a model alone

FILES: dict[str, tuple[type[Settings], ...]] = {
    "robots": (RobotSettings,),
    "controllers": (ControllerSettings,),
    "server": (ServerSettings,),
    "experiments": (ExperimentSettings, ComparisonSettings, *settings_of_scenes()),
}
"""Folder of `configs` → types of settings that its files may have."""


def run_check(options: argparse.Namespace) -> tuple[Any, bool]:
    if options.hello:
        robot, stance = load_robot(options.what)
        facts = {"hello": msgspec.to_builtins(hello_for(robot, 0.001)), "q": stance.tolist(), "contacts": robot.contact_names}
        print(json.dumps(facts))
        return facts, True
    return _log(options) if options.what.endswith(".mcap") else _model(options)


def _log(options: argparse.Namespace) -> tuple[Any, bool]:
    """Report the ticks of a log with several outcomes under the same torques, in a checkout only. Such ticks are no errors."""
    study, log = study_module("check LOG", f"{CHECKOUT}.ambiguity"), options.what
    with progress_bar(0) as progress:
        checks = study.ambiguities(Path(log), options.every, options.samples, lambda _: progress(log, 1))
    print(study.ambiguities_text(checks))
    return msgspec.to_builtins(checks), True


def _model(options: argparse.Namespace) -> tuple[Any, bool]:
    robots = [_from_file(options.what, options.fixed)] if options.what.lower().endswith(MODELS) else _robots(options.what)
    findings = [(robot, finding) for robot in robots for finding in robot.inspect()]
    lines = [
        f"{robot.name}: {robot.description.base} base, {robot.na} actuated and {robot.nu} unactuated velocities, "
        f"{robot.total_mass:.4g} kg, contact points {', '.join(robot.spheres.keys) or 'none'}"
        for robot in robots
    ]
    lines += [f"{finding.severity}: {robot.name}.{finding.where}: {finding.message}" for robot, finding in findings]
    for line in dict.fromkeys(lines):  # several configurations may have the same robot
        print(line)
    if not options.what.lower().endswith(MODELS):
        _print_floors(options.what)
    rows = [{"robot": r.name, "severity": f.severity, "where": f.where, "message": f.message} for r, f in findings]
    return rows, not any(finding.severity == "warning" for _, finding in findings)


def _from_file(path: str, fixed: bool) -> Robot:
    try:
        return Robot.from_file(path, "fixed" if fixed else None)
    except InputError as error:
        if error.field != "base":
            raise
        raise ConfigError("--fixed", "expected a URDF; an MJCF says itself whether its base is fixed") from error


def _robots(what: str) -> list[Robot]:
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
        bodies: Robot = scene_module(what).bodies_of(what)
        return bodies
    if is_comparison(what):
        module = comparison_module(what)
        return load_robot(module.robot_of(module.load_comparison(what)))[0]
    return build_controller(load_plan(what).controller).robot


def _print_floors(what: str) -> None:
    if what in files("controllers") or (what.endswith(".toml") and "controllers" in _folders(what)):
        found = floor_map(build_controller(load("controllers", what, ControllerSettings)))
        if found is not None:
            text, warning = floor_text(*found)
            print(text)
            if warning:
                print(f"warning: {warning}")


WIDTH = 100  # most columns of a table

PERIOD_US = 1000.0

TOLERATED = 1e-3  # share of late answers with which 1 kHz counts as held


def run_list(options: argparse.Namespace) -> tuple[Any, bool]:
    if options.what == "settings":
        return _settings(options.text)
    shown = {name: LISTS[name]() for name in ([options.what] if options.what else LISTS)}
    shown = {name: {key: text for key, text in rows.items() if options.text in f"{key} {text}"} for name, rows in shown.items()}
    for name, rows in shown.items():
        print(f"{name}:")
        _print_rows(rows)
    if options.what is None:
        print("`idyn list settings TEXT` explains settings")
    return shown, any(shown.values())


def _print_rows(rows: dict[str, str]) -> None:
    width = min(shutil.get_terminal_size().columns, WIDTH)
    column = max(map(len, rows), default=0) + 4
    for name, text in rows.items():
        lines = textwrap.wrap(text, width - column) or [""]
        print(f"  {name.ljust(column - 2)}{lines[0]}")
        for line in lines[1:]:
            print(" " * column + line)


def _settings(text: str) -> tuple[Any, bool]:
    width = min(shutil.get_terminal_size().columns, WIDTH)
    rows = []
    for folder, kinds in (FILES | {"planners": (MpcSettings,)}).items():
        for struct in kinds:
            for setting in settings_of(struct):
                if text in setting.path or text in setting.meaning:
                    rows.append({"file": folder, **setting._asdict()})
    last = ""
    for row in rows:
        if row["file"] != last:
            last = row["file"]
            print(f"[{last}]")
        print(f"  {row['path']} = {row['default']}    ({row['type']})")
        for line in textwrap.wrap(row["meaning"], width - 6):
            print(f"      {line}")
    print(f"{len(rows)} settings")
    return rows, bool(rows)


def _configurations(folder: str, wanted: Callable[[str], bool] = lambda _: True) -> dict[str, str]:
    texts = {name: path.read_text(encoding="utf-8").splitlines() for name, path in files(folder).items() if wanted(name)}
    comments = {name: takewhile(lambda line: line.startswith("#"), lines) for name, lines in texts.items()}
    return {name: " ".join(line.lstrip("# ") for line in lines) for name, lines in comments.items()}


def _kinds(family: dict[str, type]) -> dict[str, str]:
    return {name: " ".join((kind.__doc__ or "").strip().split("\n\n")[0].split()) for name, kind in family.items()}


LISTS: dict[str, Callable[[], dict[str, str]]] = {
    "robots": lambda: _configurations("robots"),
    "controllers": lambda: _configurations("controllers"),
    "server": lambda: _configurations("server"),
    "experiments": lambda: _configurations("experiments", lambda name: not is_scene(name)),
    "scenes": lambda: _configurations("experiments", is_scene),
    "laws": lambda: _kinds(LAWS),
    "engines": lambda: _kinds({str(kind_of(engine)): engine for engine in get_args(AnyEngine)}),
}


def run_new(options: argparse.Namespace) -> tuple[Any, bool]:
    model = find_model(options.robot, Path.cwd())
    target = options.out or Path(draft_name(options.robot, model))
    if target.exists() and not options.force:
        raise ConfigError(str(target), "the file exists; --force replaces it")
    drafted = draft(model, poses_of(model, options.srdf), stand=options.stand, fixed=options.fixed)
    target.write_text(drafted.text, encoding="utf-8")
    for line in drafted.found + drafted.warnings:
        print(line)
    print(f"{target}: try `idyn simulate {target}`")
    return {"file": str(target), "legs": drafted.legs, "found": drafted.found, "warnings": drafted.warnings}, True


def run_doctor(options: argparse.Namespace) -> tuple[Any, bool]:
    found, good = [], True
    for fact in facts():
        found.append(fact)
        _print_fact(fact)
    if options.ticks:
        fact, good = _round_trip(options.ticks)
        found.append(fact)
        _print_fact(fact)
    limits = [fact for fact in found if fact.advice and not fact.name.startswith("extra")]
    print("1 kHz: " + ("held" if good else "not held") if options.ticks else "1 kHz: not tested")
    if limits:
        print(f"what may limit it: {', '.join(fact.name for fact in limits)}")
    return [fact._asdict() for fact in found], good


def _round_trip(ticks: int) -> tuple[Fact, bool]:
    """Return the round trips of a server of the quadruped at 1 kHz, and whether it holds this rate."""
    with progress_bar(2 * ticks) as progress:
        figures = bench_server(ticks, progress)
    share = figures["misses"] / figures["ticks"]
    value = (
        f"{figures['p50_us']:.0f} µs, 99 %: {figures['p99_us']:.0f} µs, {100 * share:.2g} % later than 1 ms; "
        f"an echo {figures['echo_p50_us']:.0f} µs, 99 %: {figures['echo_p99_us']:.0f} µs"
    )
    advice = ""
    if share > TOLERATED:
        slow_echo = figures["echo_p99_us"] > PERIOD_US / 2
        advice = "a bare echo is late too: the machine is busy or slow to wake up" if slow_echo else "the server takes too long"
    return Fact("round trip of a server", value, advice), share <= TOLERATED


def _print_fact(fact: Fact) -> None:
    width = min(shutil.get_terminal_size().columns, WIDTH)
    for k, line in enumerate(textwrap.wrap(fact.value, width - 26) or [""]):
        print(f"{fact.name if k == 0 else '':24s}  {line}")
    for k, line in enumerate(textwrap.wrap(fact.advice, width - 28)):
        print(f"{'':24s}  {'→ ' if k == 0 else '  '}{line}")
