"""`idyn replay`: a log through the same decoder and controller, bit for bit, or through another law."""

import argparse
from pathlib import Path
from typing import Any

import msgspec

from idyn.commands.output import progress_bar, write_json
from transport.replay import replay


def add_to(subparsers: Any) -> None:
    parser = subparsers.add_parser("replay", help="compute a log's torques again, with the same law or another")
    parser.add_argument("log", type=Path, help="a log.mcap, whole or cut off")
    parser.add_argument("--law", help="another contact law; prints the differences")
    parser.add_argument("--selection", help="another selection; prints the differences")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, '-' for stdout")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    with progress_bar(0) as progress:
        report = replay(
            options.log, law=options.law, selection=options.selection, progress=lambda _: progress(str(options.log), 1)
        )
    print(report.table())
    if options.json:
        write_json(msgspec.to_builtins(report), options.json)
    same_law = options.law is None and options.selection is None
    return 1 if same_law and not report.exact else 0
