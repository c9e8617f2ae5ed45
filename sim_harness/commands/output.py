"""What commands share: progress on the terminal, a live view and JSON on request.

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
    """A bar on stderr that shows the label of the current run; silent when stderr is no terminal."""
    with tqdm(total=total, unit=unit, unit_scale=True, disable=not sys.stderr.isatty(), leave=False) as bar:

        def update(label: str, done: int) -> None:
            bar.set_description_str(label, refresh=False)
            bar.update(done)

        yield update


@contextmanager
def run_bar(unit: str = "run") -> Iterator[Callable[[int, int, str], None]]:
    """A bar on stderr of runs that are done; silent when stderr is no terminal."""
    with tqdm(unit=unit, smoothing=0.1, leave=False, disable=not sys.stderr.isatty()) as bar:

        def progress(done: int, total: int, name: str) -> None:
            bar.total = total
            bar.set_description_str(name, refresh=False)
            bar.update(done - bar.n)
            bar.refresh()

        yield progress


def add_engine(parser: argparse.ArgumentParser) -> None:
    """The option `--engine`."""
    parser.add_argument(
        "--engine", metavar="NAME", help=f"{', '.join(NAMES)}: instead of the experiment's, with the engine's defaults"
    )


def add_view(parser: argparse.ArgumentParser) -> None:
    """The option `--view`."""
    parser.add_argument("--view", action="store_true", help="show the robot live in the browser (extra viz)")


@contextmanager
def live_view(wanted: bool, controller: ControllerSettings) -> Iterator[Watch | None]:
    """What is to be called tick by tick for the live view, None when it is not wanted."""
    if not wanted:
        yield None
        return
    with LiveView(controller) as view:
        print(f"live view: {view.url}", flush=True)
        open_browser(view.url)
        yield view.watch


def open_browser(url: str) -> None:
    """Where there is a screen: a browser of the terminal would take that over."""
    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(url)


def add_json(parser: argparse.ArgumentParser, what: str) -> None:
    """The option `--json`."""
    parser.add_argument("--json", metavar="FILE", help=f"write {what} there, '-' for stdout and nothing else on it")


def report(options: argparse.Namespace) -> bool:
    """Run the command; its figures as JSON where they are asked for. Whether they are good."""
    target: str | None = getattr(options, "json", None)
    _check_json(target)
    with redirect_stdout(sys.stderr) if target == "-" else nullcontext():
        figures, good = options.run(options)
    if target:
        _write_json(figures, target)
    return bool(good)


def _check_json(target: str | None) -> None:
    """Raises ConfigError when no file can be there: before the work, not after it."""
    if target and (Path(target).is_dir() or not Path(target).parent.is_dir()):
        raise ConfigError("--json", f"expected a file in a folder that exists, got {target}")


def _write_json(data: Any, target: str) -> None:
    """JSON into a file, or to stdout for '-'; null for what is no finite number."""
    text = msgspec.json.format(msgspec.json.encode(data, enc_hook=float)).decode()
    if target == "-":
        print(text)
    else:
        Path(target).write_text(text + "\n", encoding="utf-8")


def publish(report: Report, folder: Path, name: str = "report", figures: Any = None) -> None:
    """Write a report and print its text and where it is."""
    path = report.write(folder, name, figures)
    print(f"{report.text}\nreport: {path}")


def new_folder(root: Path) -> Path:
    """`root`, or `root-2`, `root-3`, … when it is taken: results are never overwritten."""
    folder, count = root, 1
    while folder.exists():
        count += 1
        folder = root.with_name(f"{root.name}-{count}")
    folder.mkdir(parents=True)
    return folder
