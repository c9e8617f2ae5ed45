"""`idyn simulate`: the robot side of an experiment, against a running server or one in this process."""

import argparse
from typing import Any

import msgspec

from idyn.commands.output import add_engine, add_json, progress_bar
from idyn.errors import ConfigError
from sim_harness.experiment import load_plan, run_connected, run_in_process, with_controller
from sim_harness.metrics import table, text_table


def add_to(subparsers: Any) -> None:
    parser = subparsers.add_parser("simulate", help="be the robot of an experiment")
    parser.add_argument("experiment", help="name or path of an experiment")
    parser.add_argument("--connect", metavar="ENDPOINT", help="a running `idyn serve`; without it, each law in this process")
    parser.add_argument("--seconds", type=float, help="simulated time instead of the experiment's")
    parser.add_argument("--trace", metavar="FILE", help="write the run's arrays there (npz); with --connect only")
    add_engine(parser)
    add_json(parser, "the summaries")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    if options.trace and not options.connect:
        raise ConfigError("--trace", "goes with --connect")
    plan = load_plan(options.experiment, options.seconds, options.engine)
    laws = ["server's law"] if options.connect else list(plan.settings.laws)
    with progress_bar(len(laws) * plan.ticks) as progress:
        if options.connect:
            runs = [run_connected(plan, options.connect, laws[0], progress)]
        else:
            runs = [run_in_process(with_controller(plan, {"law": law}), law, progress) for law in laws]
    if options.trace:
        runs[0].trace.save_npz(options.trace)
    summaries = [run.summary for run in runs]
    print(text_table(table(summaries)))
    return msgspec.to_builtins(summaries), all(summary.upright for summary in summaries)
