"""What commands do with scenes of bodies: `idyn simulate`, `view` and `check`."""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from idyn.errors import ConfigError
from idyn.model.robot import Robot
from sim_harness.commands.output import new_folder, progress_bar
from sim_harness.report.tables import text_table
from sim_harness.studies.scenes.load import engine_named, engines_of, load_scene
from sim_harness.studies.scenes.measures import Outcome, figures_table, outcome_of, read, save_run, steps_table
from sim_harness.studies.scenes.page import scene_page
from sim_harness.studies.scenes.recording import run_scene
from sim_harness.studies.scenes.scene_model import SceneModel
from sim_harness.world.worlds import check_engine

NOT_FOR_SCENES = ("connect", "secret", "server_key", "view")  # options of `idyn simulate` that need a server


def simulate(options: argparse.Namespace) -> tuple[Any, bool]:
    """Simulate a scene with the engine of `--engine`, or with each engine that the scene lists.

    Return the figures, and whether all are within their tolerances.
    """
    for name in NOT_FOR_SCENES:
        if getattr(options, name):
            raise ConfigError(f"--{name.replace('_', '-')}", "expected an experiment, got a scene, which has no server")
    settings = load_scene(options.experiment, options.seconds)
    engines = engines_of(settings)
    if options.engine:
        engines = {options.engine: engine_named(settings, options.engine)}
    for engine in engines.values():
        check_engine(engine)
    folder = new_folder(options.out) if options.out else None
    steps, outcomes = round(settings.duration / settings.dt), []
    with progress_bar(len(engines) * steps, "step") as progress:
        for name, engine in engines.items():
            recording = run_scene(settings, engine, partial(progress, name))
            outcomes.append(outcome_of(options.experiment, name, settings, recording))
            if folder:
                save_run(folder / name, settings, recording, outcomes[-1])
    _show(settings.about, outcomes)
    if folder:
        print(f"\nto view it: idyn view {folder}")
    return msgspec.to_builtins(outcomes), all(outcome.good for outcome in outcomes)


def _show(about: str, outcomes: list[Outcome]) -> None:
    print(about)
    for outcome in outcomes:
        print(f"\n{outcome.engine}, {outcome.steps} steps of {1e3 * outcome.seconds / outcome.steps:.4g} ms")
        print(text_table(figures_table(outcome)))
    tables = [steps_table(outcome) for outcome in outcomes]
    print("\n" + text_table([tables[0][0], *(table[1] for table in tables)]))


def page_of(name: str, folders: Sequence[Path]) -> str:
    """Return the page of the runs in some folders."""
    runs = [read(folder) for folder in folders]
    return scene_page(f"{name}: {runs[0].settings.about}", runs)


def bodies_of(name_or_path: str) -> Robot:
    """Return the bodies of a scene as a robot of several trees. Raises ConfigError for an invalid scene."""
    return SceneModel(load_scene(name_or_path)).robot
