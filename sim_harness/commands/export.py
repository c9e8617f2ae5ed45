"""`idyn export`: convert a log for other tools."""

import argparse
from pathlib import Path
from typing import Any

from sim_harness.commands.figures import add_json
from sim_harness.commands.output import progress_bar
from transport.log.export import export


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", type=Path, help="a log.mcap; it may be incomplete")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the new file (default: LOG.json.mcap)")
    add_json(parser, "the figures")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    out = options.out or options.log.with_suffix(".json.mcap")
    with progress_bar(0, "message") as progress:
        done = export(options.log, out, lambda done: progress(str(out), done))
    print(f"{out}: {done.messages} messages" + ("" if done.complete else "; the log is truncated or damaged after them"))
    return {"file": str(out), "messages": done.messages, "complete": done.complete}, done.complete
