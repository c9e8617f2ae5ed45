"""`idyn simulate SCENE`: simulate bodies with engines and compare the figures with known answers."""

import argparse
from functools import partial
from typing import Any

import msgspec

from idyn.errors import ConfigError
from sim_harness.commands.output import new_folder, progress_bar
from sim_harness.report.tables import text_table
from sim_harness.scenes.load import engine_named, engines_of, load_scene
from sim_harness.scenes.measures import Outcome, figures_table, outcome_of, save_run, steps_table
from sim_harness.scenes.recording import run_scene
from sim_harness.world.worlds import check_engine

NOT_FOR_SCENES = ("connect", "secret", "server_key", "view")
"""Options of `idyn simulate` that need an experiment with a server."""


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    """Simulate the scene with the engine of `--engine`, or with each engine that the scene lists.

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
    if options.out:
        import sim_harness.report.canvas  # noqa: F401, PLC0415 - an extra, which draws the picture of a run
    folder = new_folder(options.out) if options.out else None
    steps, outcomes = round(settings.duration / settings.dt), []
    with progress_bar(len(engines) * steps, "step") as progress:
        for name, engine in engines.items():
            recording = run_scene(settings, engine, partial(progress, name))
            outcomes.append(outcome_of(options.experiment, name, settings, recording))
            if folder:
                save_run(folder / name, settings, recording, outcomes[-1])
    show(settings.about, outcomes)
    if folder:
        print(f"\nto view it: idyn view {folder}")
    return msgspec.to_builtins(outcomes), all(outcome.good for outcome in outcomes)


def show(about: str, outcomes: list[Outcome]) -> None:
    """Print the figures of each engine, then all residuals in one table."""
    print(about)
    for outcome in outcomes:
        print(f"\n{outcome.engine}, {outcome.steps} steps of {1e3 * outcome.seconds / outcome.steps:.4g} ms")
        print(text_table(figures_table(outcome)))
    tables = [steps_table(outcome) for outcome in outcomes]
    print("\n" + text_table([tables[0][0], *(table[1] for table in tables)]))
