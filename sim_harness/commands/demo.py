"""`idyn demo`: run a server process and a robot process with every law; write a table and a report."""

import argparse
from pathlib import Path
from typing import Any

import msgspec

from controllers.config.tables import named
from sim_harness.commands.figures import add_json
from sim_harness.commands.output import add_engine, add_view, live_view, new_folder, progress_bar, publish
from sim_harness.run.plan import load_plan
from sim_harness.studies.demo import CHATTER_SECONDS, report_of, run_demo


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", nargs="?", default="demo", help="name or path of an experiment (default: demo)")
    parser.add_argument("--seconds", type=float, help="simulated time per law (default: the experiment's)")
    parser.add_argument(
        "--out", default="runs/demo", help="folder for the results (default: %(default)s, or the next free name)"
    )
    add_engine(parser)
    add_view(parser)
    add_json(parser, "the summaries")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    plan = load_plan(options.experiment, options.seconds, options.engine)
    folder = new_folder(Path(options.out))
    print("starting (the first run compiles kernels for about a minute)", flush=True)
    ticks = len(plan.settings.laws) * plan.ticks + 3 * round(CHATTER_SECONDS / plan.controller.period)
    with live_view(options.view, plan.controller) as watch, progress_bar(ticks) as progress:
        demo = run_demo(plan, folder, progress, watch)
    publish(report_of(plan, demo, folder), folder, figures=demo.figures)
    print(f"replay: idyn replay {folder / named(plan.settings.laws[0]) / 'log.mcap'}")
    return msgspec.to_builtins(demo.summaries), demo.upright
