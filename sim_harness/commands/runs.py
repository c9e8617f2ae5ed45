"""`idyn simulate` and `judge`: experiments, scenes of bodies, and steps of any simulator."""

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
from sim_harness.commands.clients import keys_of
from sim_harness.commands.output import live_view, new_folder, print_expected, progress_bar, publish
from sim_harness.compare.studies import CHECKOUT, ENGINES, is_scene, scene_module, study_module
from sim_harness.judge.files import steps_of
from sim_harness.judge.verdict import answer_to, judge, report_of
from sim_harness.mujoco.mujoco_settings import differences
from sim_harness.new.draft import draft
from sim_harness.new.source import find_model, is_model, poses_of, shared_names
from sim_harness.report.tables import text_summary
from sim_harness.run.experiment import run_connected, run_in_process
from sim_harness.run.plan import frictions, load_plan, note_of_world, with_controller


def run_simulate(options: argparse.Namespace) -> tuple[Any, bool]:
    if is_model(options.experiment) or _is_robot(options.experiment):
        with _drafted(options.experiment) as path:
            return _simulate(path, options)
    with _naming_experiments(options.experiment):
        bodies = is_scene(options.experiment)
    if bodies:
        return scene_module(options.experiment).simulate(options)
    return _simulate(options.experiment, options)


def _is_robot(word: str) -> bool:
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
    plan = load_plan(experiment, options.seconds, options.engine)
    labels = ["server"] if options.connect else [named(law) for law in plan.settings.laws]
    keys = keys_of(options)
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


def run_judge(options: argparse.Namespace) -> tuple[Any, bool]:
    if options.every < 1:
        raise ConfigError("--every", f"expected ≥ 1, got {options.every}")
    if not options.tolerance > 0.0:
        raise ConfigError("--tolerance", f"expected > 0 m/s, got {options.tolerance}")
    if all(what == ENGINES or (not Path(what).suffix and is_scene(what)) for what in options.what):
        return study_module(options.what[0], f"{CHECKOUT}.commands").run_judged_scenes(options)
    verdicts = [judge(step, options.tolerance) for what in options.what for step in steps_of(Path(what), options.every)]
    answers = [answer_to(verdict.step, options.law, options.tolerance) for verdict in verdicts]
    publish(report_of(", ".join(options.what), verdicts, answers, options.law), options.out)
    found = [
        {"step": v.step.name, "violations": [str(each) for each in v.violations], "laws": v.laws, "energy_J": v.energy.contacts}
        for v in verdicts
    ]
    return found, all(verdict.good for verdict in verdicts)
