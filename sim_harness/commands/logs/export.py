"""`idyn export`: convert a log for other tools."""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

from idyn.errors import ConfigError
from sim_harness.commands.output import progress_bar
from sim_harness.export.foxglove_file import write_foxglove
from sim_harness.export.parquet_file import write_parquet
from sim_harness.export.rerun_file import write_rerun
from sim_harness.export.scene import urdf_of
from sim_harness.run.logs import LogBlocks, Runs
from transport.log.export import export, new_file
from transport.log.part import LogError


class Format(NamedTuple):
    """A format. ends: of the default name of its files; write: writes the sessions of a log; unit: of what it counts"""

    ends: str
    write: Any
    unit: str


FORMATS = {
    "foxglove": Format(".foxglove.mcap", write_foxglove, "messages"),
    "rerun": Format(".rrd", write_rerun, "ticks"),
    "parquet": Format(".parquet", write_parquet, "rows"),
}
"""Formats besides the raw messages."""


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    log: Path = options.log
    if options.format == "messages":
        out = options.out or log.with_suffix(".json.mcap")
        with progress_bar(0, "message") as progress:
            done = export(log, out, lambda done: progress(str(out), done))
        return _report(out, done.messages, "messages", done.complete)
    form = FORMATS[options.format]
    default = log.with_suffix(form.ends)
    out = options.out or default
    if out.suffix != default.suffix:
        raise ConfigError("--out", f"expected a file that ends with {default.suffix}, got {out}")
    with LogBlocks(log) as blocks, new_file(out) as part, progress_bar(0) as progress:
        runs = Runs(blocks)
        if urdf_of(blocks.controller.robot) is None:
            print(f"{log}: the robot is an MJCF, which these viewers do not show; its links are exported as frames")
        count = form.write(runs, part, lambda done: progress(str(out), done))
        if not count:
            raise LogError(f"{log}: expected a session with states, found none; --messages exports all messages")
    return _report(out, count, form.unit, blocks.complete)


def _report(out: Path, count: int, unit: str, complete: bool) -> tuple[Any, bool]:
    print(f"{out}: {count} {unit}" + ("" if complete else "; the log is truncated or damaged after them"))
    return {"file": str(out), unit: count, "complete": complete}, complete
