"""`idyn pauses`: stop the server's or the robot's process for a while during a walk."""

import argparse
from pathlib import Path
from typing import Any

from sim_harness.commands.output import new_folder, publish, run_bar
from sim_harness.compare.pauses import study as pauses
from sim_harness.compare.study import measure, report_of


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    study = pauses(options.experiment, options.law, options.milliseconds)
    folder = new_folder(Path(options.out))
    with run_bar("pause") as progress:
        found = measure(study, progress)
    publish(report_of(study, found), folder)
    outcomes = found["pauses"].values()
    return [outcome.figures for outcome in outcomes], all(outcome.upright for outcome in outcomes)
