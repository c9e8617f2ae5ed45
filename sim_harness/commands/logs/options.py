"""The options of the commands that read logs and saved runs."""

from argparse import ArgumentParser
from pathlib import Path

from sim_harness.commands.shared_options import EXECUTORS, add_json

FORMATS = (
    ("foxglove", "LOG.foxglove.mcap", "robot, forces and numbers for Foxglove and PlotJuggler (default; extra 'foxglove')"),
    ("rerun", "LOG.rrd", "the same for rerun (extra 'rerun')"),
    ("parquet", "LOG.parquet", "a table with a row per tick (extra 'parquet')"),
    ("messages", "LOG.json.mcap", "all messages as JSON in an MCAP"),
)
"""Formats of `idyn export`: name, default file, content."""


def replay(parser: ArgumentParser) -> None:
    """Compute the torques of logs again, with the same or other laws."""
    parser.add_argument(
        "logs", nargs="+", type=Path, metavar="LOG", help="a log.mcap; it may be incomplete; several with --out"
    )
    parser.add_argument(
        "--law", action="append", default=[], help="replace the contact law and print the differences; repeatable with --out"
    )
    parser.add_argument("--selection", help="replace the selection and print the differences")
    parser.add_argument("--explain", action="store_true", help="also tell in which ticks other motions obey the law, too")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for all torques, as Parquet (extra 'parquet')")
    parser.add_argument("--executor", choices=EXECUTORS, help="library that distributes the work (default: processes)")
    parser.add_argument("--jobs", type=int, metavar="N", help="number of parallel tasks (default: 1)")
    parser.add_argument("--window", type=int, metavar="TICKS", help="ticks of a file of the results (default: 20000)")
    parser.add_argument(
        "--lead-in", type=int, metavar="TICKS", help="begin each window this many ticks earlier (default: with the log)"
    )
    add_json(parser, "the figures")


def export(parser: ArgumentParser) -> None:
    """Convert a log for other tools: MCAP with Foxglove's schemas, rerun, Parquet, or its messages as JSON."""
    _log(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="the new file (default: beside the log)")
    formats = parser.add_mutually_exclusive_group()
    for name, file, what in FORMATS:
        formats.add_argument(f"--{name}", dest="format", action="store_const", const=name, help=f"{what}: {file}")
    parser.set_defaults(format=FORMATS[0][0])
    add_json(parser, "the figures")


def view(parser: ArgumentParser) -> None:
    """Write a self-contained page that shows a run in three dimensions."""
    parser.add_argument("what", type=Path, metavar="RUN|LOG", help="folder of a run, folder of run folders, or a log.mcap")
    parser.add_argument("--out", type=Path, metavar="FILE.html", help="the page (default: view.html beside the run or the log)")
    parser.add_argument("--with", dest="beside", type=Path, metavar="RUN|LOG", help="show a second run, transparent and dashed")
    parser.add_argument("--video", type=Path, metavar="FILE", help="also write a video, .mp4 or .webm (needs the extra video)")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")


def _log(parser: ArgumentParser) -> None:
    parser.add_argument("log", type=Path, help="a log.mcap; it may be incomplete")
