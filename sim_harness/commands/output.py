"""Code that commands share: progress bars, live view, JSON output, reports.

A command's `run` takes the parsed options, prints tables, and returns its figures and whether they are good.
"""

import argparse
import os
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import msgspec
from tqdm import tqdm

from controllers.settings import ControllerSettings
from idyn.errors import ConfigError
from sim_harness.report.report import Report
from sim_harness.run.experiment import Progress, Watch
from sim_harness.view.live import LiveView
from sim_harness.world.worlds import NAMES


@contextmanager
def progress_bar(total: int, unit: str = "tick") -> Iterator[Progress]:
    """Show a progress bar with the label of the current run on stderr; no output when stderr is not a terminal."""
    with tqdm(total=total, unit=unit, unit_scale=True, disable=not sys.stderr.isatty(), leave=False) as bar:

        def update(label: str, done: int) -> None:
            bar.set_description_str(label, refresh=False)
            bar.update(done)

        yield update


@contextmanager
def run_bar(unit: str = "run") -> Iterator[Callable[[int, int, str], None]]:
    """Show a progress bar that counts finished runs on stderr; no output when stderr is not a terminal."""
    with tqdm(unit=unit, smoothing=0.1, leave=False, disable=not sys.stderr.isatty()) as bar:

        def progress(done: int, total: int, name: str) -> None:
            bar.total = total
            bar.set_description_str(name, refresh=False)
            bar.update(done - bar.n)
            bar.refresh()

        yield progress


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add the option `--engine`."""
    parser.add_argument(
        "--engine",
        metavar="NAME",
        help=f"simulation engine, with its default settings (default: the experiment's): {', '.join(NAMES)}",
    )


def add_view(parser: argparse.ArgumentParser) -> None:
    """Add the option `--view`."""
    parser.add_argument("--view", action="store_true", help="show the robot live in the browser (needs the extra viz)")


@contextmanager
def live_view(wanted: bool, controller: ControllerSettings) -> Iterator[Watch | None]:
    """Open a live view, if wanted. Yield the function to call in each tick; None without a view."""
    if not wanted:
        yield None
        return
    with LiveView(controller) as view:
        print(f"live view: {view.url}", flush=True)
        open_browser(view.url)
        yield view.watch


def open_browser(url: str) -> None:
    """Open a browser when the machine has a display: a text-mode browser would take over the terminal."""
    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(url)


def add_json(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the option `--json`."""
    parser.add_argument(
        "--json", metavar="FILE", help=f"write {what} as JSON to FILE; '-': to stdout, with all other output on stderr"
    )


def run_command(options: argparse.Namespace) -> bool:
    """Run the command and write its figures as JSON when `--json` is given. Return whether the figures are good."""
    target: str | None = getattr(options, "json", None)
    _check_json(target)
    with redirect_stdout(sys.stderr) if target == "-" else nullcontext():
        figures, good = options.run(options)
    if target:
        _write_json(figures, target)
    return bool(good)


def _check_json(target: str | None) -> None:
    """Check that the file can be created, before the command runs. Raises ConfigError."""
    if target and (Path(target).is_dir() or not Path(target).parent.is_dir()):
        raise ConfigError("--json", f"expected a file in an existing folder, got {target}")


def _write_json(data: Any, target: str) -> None:
    """Write JSON to a file, or to stdout for '-'. NaN and infinity become null."""
    text = msgspec.json.format(msgspec.json.encode(data, enc_hook=float)).decode()
    if target == "-":
        print(text)
    else:
        Path(target).write_text(text + "\n", encoding="utf-8")


def publish(report: Report, folder: Path, name: str = "report", figures: Any = None) -> None:
    """Write a report; print its text and its path."""
    path = report.write(folder, name, figures)
    print(f"{report.text}\nreport: {path}")


def new_folder(root: Path) -> Path:
    """Create and return the folder `root`, or `root-2`, `root-3`, … if it exists: results are never overwritten."""
    folder, count = root, 1
    while folder.exists():
        count += 1
        folder = root.with_name(f"{root.name}-{count}")
    folder.mkdir(parents=True)
    return folder
