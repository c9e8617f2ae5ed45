"""`idyn replay`, `export` and `view`: torques of logs again, logs for other tools, and pages that show a run."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from idyn.errors import ConfigError
from sim_harness.commands.options import FORMATS
from sim_harness.commands.output import open_browser, progress_bar, run_bar
from sim_harness.compare.studies import scene_module, scene_runs
from sim_harness.export.files import write_foxglove, write_parquet, write_rerun
from sim_harness.export.scene import urdf_of
from sim_harness.fleet.run import RECORDED, How, run_fleet
from sim_harness.report.tables import text_table
from sim_harness.run.experiment import TRACE
from sim_harness.run.logs import LogBlocks, Runs, logged_runs
from sim_harness.view.page import RecordedRun, page_of, read_runs
from sim_harness.view.video import Video
from transport.log.export import export, new_file
from transport.log.recorder import LogError
from transport.log.replay import replay


def run_replay(options: argparse.Namespace) -> tuple[Any, bool]:
    return _one(options) if options.out is None else _fleet(options)


def _one(options: argparse.Namespace) -> tuple[Any, bool]:
    for name in ("executor", "jobs"):
        if getattr(options, name) is not None:
            raise ConfigError(f"--{name}", "expected --out DIR beside it, for the results")
    if len(options.logs) > 1 or len(options.law) > 1:
        raise ConfigError("--out", "expected a folder for the results of several logs or laws")
    log: Path = options.logs[0]
    law = options.law[0] if options.law else None
    with progress_bar(0) as progress:
        report = replay(log, law=law, selection=options.selection, progress=lambda n: progress(str(log), n))
    print(report.table())
    verdicts = {run.label: run.verdict.whole for run in logged_runs(log)}
    for label, verdict in verdicts.items():
        print(f"recorded run {label}: {verdict}")
    figures = msgspec.to_builtins(report) | {"recorded": verdicts}
    same_law = law is None and options.selection is None
    return figures, report.exact or not same_law


def _fleet(options: argparse.Namespace) -> tuple[Any, bool]:
    laws = tuple(options.law) or (RECORDED,)
    how = How(laws=laws, selection=options.selection)
    executor = options.executor or "processes", 1 if options.jobs is None else options.jobs
    with run_bar("task") as progress:
        report = run_fleet(options.logs, how, options.out, executor, progress)
    print(text_table(report.table))
    for log in report.logs:
        if not log.complete:
            print(f"{log.path}: incomplete; {log.ticks} ticks recovered")
    print(f"results: {options.out}\nSHA-256 of the results: {report.sha256}")
    exact = RECORDED not in laws or options.selection is not None or report.exact(RECORDED)
    return msgspec.to_builtins(report, enc_hook=str), exact


WRITERS = {"foxglove": (write_foxglove, "messages"), "rerun": (write_rerun, "ticks"), "parquet": (write_parquet, "rows")}
"""Formats besides the raw messages: what writes the sessions of a log, and the unit of what it counts."""


def run_export(options: argparse.Namespace) -> tuple[Any, bool]:
    log: Path = options.log
    if options.format == "messages":
        out = options.out or log.with_suffix(FORMATS["messages"].ends)
        with progress_bar(0, "message") as progress:
            done = export(log, out, lambda done: progress(str(out), done))
        return _report(out, done.messages, "messages", done.complete)
    write, unit = WRITERS[options.format]
    default = log.with_suffix(FORMATS[options.format].ends)
    out = options.out or default
    if out.suffix != default.suffix:
        raise ConfigError("--out", f"expected a file that ends with {default.suffix}, got {out}")
    with LogBlocks(log) as blocks, new_file(out) as part, progress_bar(0) as progress:
        runs = Runs(blocks)
        if urdf_of(blocks.controller.robot) is None:
            print(f"{log}: the robot is an MJCF, which these viewers do not show; its links are exported as frames")
        count = write(runs, part, lambda done: progress(str(out), done))
        if not count:
            raise LogError(f"{log}: expected a session with states, found none; --messages exports all messages")
    return _report(out, count, unit, blocks.complete)


def _report(out: Path, count: int, unit: str, complete: bool) -> tuple[Any, bool]:
    print(f"{out}: {count} {unit}" + ("" if complete else "; the log is truncated or damaged after them"))
    return {"file": str(out), unit: count, "complete": complete}, complete


def run_view(options: argparse.Namespace) -> tuple[Any, bool]:
    source: Path = options.what
    target: Path = options.out or (source if source.is_dir() else source.parent) / "view.html"
    if target.is_dir() or not target.parent.is_dir():
        raise ConfigError("--out", f"expected a file in an existing folder, got {target}")
    video = Video(options.video) if options.video else None
    name, scenes = source.resolve().stem, scene_runs(source)
    if scenes:
        if options.beside:
            raise ConfigError("--with", f"expected a run of a robot to show it with, got scenes of bodies: {source}")
        page, count = scene_module(name).page_of(name, scenes), len(scenes)
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
    return [msgspec.structs.replace(run, label=f"{above.name}/{Path(run.label).name}") for run in runs]
