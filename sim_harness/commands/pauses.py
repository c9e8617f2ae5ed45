"""`idyn pauses`: what becomes of a walk when the server's process, or the robot's, is stopped for a while."""

import argparse
from pathlib import Path
from typing import Any

from sim_harness.commands.output import add_json, new_folder, progress_bar
from sim_harness.measure.metrics import text_table
from sim_harness.studies.pauses import WHO, run_pause, walking
from sim_harness.studies.pauses_report import page, picture, table


def add_to(subparsers: Any) -> None:
    parser = subparsers.add_parser("pauses", help="stop server and robot in mid-trot, and see")
    parser.add_argument("experiment", nargs="?", default="demo", help="name or path of an experiment (default: demo)")
    parser.add_argument("--law", default="coulomb", help="of the server (default: %(default)s)")
    parser.add_argument(
        "--milliseconds", type=int, nargs="+", default=[30, 150, 500], metavar="MS", help="for how long (default: 30 150 500)"
    )
    parser.add_argument("--out", default="runs/pauses", help="folder for the report (default: %(default)s, or the next free)")
    add_json(parser, "the outcomes")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    plan, folder, outcomes = walking(options.experiment), new_folder(Path(options.out)), []
    pauses = [(who, milliseconds) for who in WHO for milliseconds in options.milliseconds]
    with progress_bar(len(pauses), unit="pause") as progress:
        for who, milliseconds in pauses:
            outcomes.append(run_pause(plan, options.law, who, milliseconds))
            progress(f"{who} {milliseconds} ms", 1)
    print(text_table(table(outcomes)))
    for outcome in outcomes:
        print(outcome.words)
    (folder / "report.html").write_text(page(outcomes), encoding="utf-8")
    (folder / "pauses.png").write_bytes(picture(outcomes))
    print(f"report: {folder / 'report.html'}")
    return [outcome.figures for outcome in outcomes], all(outcome.upright for outcome in outcomes)
