"""Code that commands share: progress bars, browser, reports and their folders."""

import os
import sys
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

from controllers.settings import ControllerSettings
from sim_harness.measure.metrics import Summary
from sim_harness.report.report import Report
from sim_harness.run.experiment import Progress, Watch
from sim_harness.run.plan import Plan
from sim_harness.view.live import LiveView
from transport.protocol.errors import printable, raw


@contextmanager
def progress_bar(total: int, unit: str = "tick") -> Iterator[Progress]:
    """Show a progress bar with the label of the current run on stderr; no output when stderr is not a terminal."""
    terminal = raw(sys.stderr)
    with tqdm(total=total, unit=unit, unit_scale=True, disable=not terminal.isatty(), leave=False, file=terminal) as bar:

        def update(label: str, done: int) -> None:
            bar.set_description_str(printable(label), refresh=False)
            bar.update(done)

        yield update


@contextmanager
def run_bar(unit: str = "run") -> Iterator[Callable[[int, int, str], None]]:
    """Show a progress bar that counts finished runs on stderr; no output when stderr is not a terminal."""
    with tqdm(unit=unit, smoothing=0.1, leave=False, disable=not sys.stderr.isatty(), file=raw(sys.stderr)) as bar:

        def progress(done: int, total: int, name: str) -> None:
            bar.total = total
            bar.set_description_str(printable(name), refresh=False)
            bar.update(done - bar.n)
            bar.refresh()

        yield progress


def open_browser(url: str) -> None:
    """Open a browser when the machine has a display: a text-mode browser would take over the terminal."""
    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(url)


def publish(report: Report, folder: Path, figures: Any = None) -> None:
    """Write a report; print its text and its path."""
    path = report.write(folder, figures=figures)
    print(f"{report.text}\nreport: {path}")


def new_folder(root: Path) -> Path:
    """Create and return the folder `root`, or `root-2`, `root-3`, … if it exists: results are never overwritten."""
    folder, count = root, 1
    while folder.exists():
        count += 1
        folder = root.with_name(f"{root.name}-{count}")
    folder.mkdir(parents=True)
    return folder


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


def print_expected(plan: Plan, summaries: Sequence[Summary]) -> bool:
    """Print what the laws did that may fail. Return whether all runs ended as the experiment expects."""
    for summary in summaries:
        if summary.label in plan.settings.may_fail:
            outcome = "did not" if summary.verdict.good else "did"
            print(f"{summary.label}: expected to fail in this experiment, and {outcome}: {summary.verdict.text}")
    return all(plan.as_expected(summary.label, summary.verdict.good) for summary in summaries)
