"""`idyn pauses`: stop the server's or the robot's process for a while during a walk."""

import argparse
from pathlib import Path
from typing import Any

from sim_harness.commands.figures import add_json
from sim_harness.commands.output import new_folder, publish, run_bar
from sim_harness.compare.study import measure, report_of
from sim_harness.studies.pauses import study as pauses


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", nargs="?", default="demo", help="name or path of an experiment (default: demo)")
    parser.add_argument("--law", default="coulomb", help="contact law of the server (default: %(default)s)")
    parser.add_argument(
        "--milliseconds",
        type=int,
        nargs="+",
        default=[30, 150, 500],
        metavar="MS",
        help="durations of the pauses (default: 30 150 500)",
    )
    parser.add_argument(
        "--out", default="runs/pauses", help="folder for the report (default: %(default)s, or the next free name)"
    )
    add_json(parser, "the outcomes")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    study = pauses(options.experiment, options.law, options.milliseconds)
    folder = new_folder(Path(options.out))
    with run_bar("pause") as progress:
        found = measure(study, progress)
    publish(report_of(study, found), folder)
    outcomes = found["pauses"].values()
    return [outcome.figures for outcome in outcomes], all(outcome.upright for outcome in outcomes)
