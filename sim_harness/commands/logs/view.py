"""`idyn view`: write a page for the browser that shows a run in three dimensions."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from idyn.errors import ConfigError
from sim_harness.commands.output import open_browser, progress_bar
from sim_harness.run.experiment import TRACE
from sim_harness.scenes.measures import saved_runs
from sim_harness.view.bodies import scene_page
from sim_harness.view.page import page_of
from sim_harness.view.runs import RecordedRun, read_runs
from sim_harness.view.video import Video


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    source: Path = options.what
    target: Path = options.out or (source if source.is_dir() else source.parent) / "view.html"
    if target.is_dir() or not target.parent.is_dir():
        raise ConfigError("--out", f"expected a file in an existing folder, got {target}")
    video = Video(options.video) if options.video else None
    name, kept = source.resolve().stem, saved_runs(source)
    if kept:
        if options.beside:
            raise ConfigError("--with", f"expected a run of a robot to show it with, got scenes of bodies: {source}")
        page, count = scene_page(f"{name}: {kept[0].settings.about}", kept), len(kept)
    else:
        first, others = read_runs(source), read_runs(options.beside) if options.beside else []
        runs = _named(first, source) + _named(others, options.beside) if others else first
        for run in runs:
            print(f"{run.label}: {run.verdict.whole}")
        page = page_of(f"{name}: {runs[0].controller.robot.name}", runs, len(first) if others else None)
        count = len(runs)
    target.write_text(page, encoding="utf-8")
    print(f"{target}: {count} {'run' if count == 1 else 'runs'}, {target.stat().st_size / 1e6:.1f} MB")
    if video is not None:
        with progress_bar(0, "frame") as progress:
            frames = video.write(target, lambda done: progress(str(options.video), done))
        print(f"{options.video}: {frames} frames, {options.video.stat().st_size / 1e6:.1f} MB")
    if options.open:
        open_browser(target.resolve().as_uri())
    return None, True


def _named(runs: Sequence[RecordedRun], source: Path) -> list[RecordedRun]:
    """Return runs with labels that name their parent folder too: runs of two folders often have the same names."""
    single = source.is_file() or (source / TRACE).is_file()
    above = source.resolve().parent if single else source.resolve()
    return [replace(run, label=f"{above.name}/{Path(run.label).name}") for run in runs]
