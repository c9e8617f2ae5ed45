"""`idyn simulate`: simulate a scene, or the robot of an experiment with a running server or a server in this process."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from controllers.config.loading import files
from controllers.config.tables import named
from idyn.errors import ConfigError, IdynError
from sim_harness.commands.output import live_view, new_folder, print_expected, progress_bar
from sim_harness.commands.runs import scene
from sim_harness.mujoco.law import differences
from sim_harness.new.draft import draft
from sim_harness.new.source import find_model, is_model, poses_of, shared_names
from sim_harness.report.tables import text_summary
from sim_harness.run.experiment import run_connected, run_in_process
from sim_harness.run.plan import frictions, load_plan, note_of_world, with_controller
from sim_harness.scenes.scene_settings import is_scene
from transport.keys import client_keys


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    if is_model(options.experiment) or _is_robot(options.experiment):
        with _drafted(options.experiment) as path:
            return _simulate(path, options)
    with _naming_experiments(options.experiment):
        bodies = is_scene(options.experiment)
    if bodies:
        return scene.run(options)
    return _simulate(options.experiment, options)


def _is_robot(word: str) -> bool:
    """Return whether a word is the name of a robot of example-robot-data, and of no experiment."""
    return (
        not word.endswith(".toml")
        and word not in files("experiments")
        and any(word in names for names in shared_names().values())
    )


@contextmanager
def _naming_experiments(robot: str) -> Iterator[None]:
    """Name the experiments of a robot, such as `walk-g1` of `g1`, in an error."""
    try:
        yield
    except IdynError as error:
        names = [name for name in sorted(files("experiments")) if f"-{robot}-" in f"-{name}-"]
        if not names:
            raise
        raise IdynError(f"{error}; experiments of that name: {', '.join(names)}") from error


@contextmanager
def _drafted(robot: str) -> Iterator[str]:
    """Yield the path of a draft for the robot, which is deleted afterwards; print what was guessed."""
    with _naming_experiments(robot):
        model = find_model(robot, Path.cwd())
        drafted = draft(model, poses_of(model))
    for line in drafted.found + drafted.warnings:
        print(line)
    print(f"to keep and change these settings: idyn new {robot}", flush=True)
    with TemporaryDirectory(prefix="idyn-") as folder:
        path = Path(folder) / "robot.toml"
        path.write_text(drafted.text, encoding="utf-8")
        yield str(path)


def _simulate(experiment: str, options: argparse.Namespace) -> tuple[Any, bool]:
    """Simulate an experiment. Return the summaries of its runs, and whether all ended as expected."""
    plan = load_plan(experiment, options.seconds, options.engine)
    labels = ["server"] if options.connect else [named(law) for law in plan.settings.laws]
    if (options.secret is None) != (options.server_key is None):
        raise ConfigError("--secret", "expected --secret and --server-key together, got only one of them")
    for law in plan.settings.laws:
        controller = with_controller(plan, {"law": law}).controller
        for line in differences(controller.law, plan.settings.engine, controller.period):
            print(f"note: the law {named(law)} is not that of the world: {line}")
    world_mu, own_mu = frictions(plan)
    if world_mu != own_mu:
        believed = "that of robot and terrain" if own_mu is None else f"{own_mu:g}"
        print(f"note: friction: {world_mu:g} in the world, the controller believes {believed}")
    if note := note_of_world(plan):
        print(f"note: {note}")
    keys = client_keys(options.secret, options.server_key) if options.secret else None
    with live_view(options.view, plan.controller) as watch, progress_bar(len(labels) * plan.ticks) as progress:
        folder = new_folder(options.out) if options.out else None
        if options.connect:
            runs = [run_connected(plan, options.connect, labels[0], progress, watch, keys)]
        else:
            plans = [with_controller(plan, {"law": law}) for law in plan.settings.laws]
            runs = [run_in_process(each, label, progress, watch=watch) for each, label in zip(plans, labels, strict=True)]
    if folder:
        for label, run in zip(labels, runs, strict=True):
            run.save(folder / label)
    summaries = [run.summary for run in runs]
    print(text_summary(summaries))
    for line in (line for run in runs for line in run.said):
        print(line)
    if folder:
        print(f"to view it: idyn view {folder}")
    return msgspec.to_builtins(summaries), print_expected(plan, summaries)
