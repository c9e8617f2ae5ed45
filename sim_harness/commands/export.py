"""`idyn export`: convert a log for other tools."""

import argparse
from typing import Any

from sim_harness.commands.output import progress_bar
from transport.log.export import export


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    out = options.out or options.log.with_suffix(".json.mcap")
    with progress_bar(0, "message") as progress:
        done = export(options.log, out, lambda done: progress(str(out), done))
    print(f"{out}: {done.messages} messages" + ("" if done.complete else "; the log is truncated or damaged after them"))
    return {"file": str(out), "messages": done.messages, "complete": done.complete}, done.complete
