"""`idyn replay`: compute the torques of a log again, bit for bit with the recorded controller, or with another law."""

import argparse
from pathlib import Path
from typing import Any

import msgspec

from sim_harness.commands.figures import add_json
from sim_harness.commands.output import progress_bar
from transport.replay import replay


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", type=Path, help="a log.mcap; it may be incomplete")
    parser.add_argument("--law", help="replace the contact law and print the differences")
    parser.add_argument("--selection", help="replace the selection and print the differences")
    add_json(parser, "the figures")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    with progress_bar(0) as progress:
        report = replay(
            options.log, law=options.law, selection=options.selection, progress=lambda n: progress(str(options.log), n)
        )
    print(report.table())
    same_law = options.law is None and options.selection is None
    return msgspec.to_builtins(report), report.exact or not same_law
