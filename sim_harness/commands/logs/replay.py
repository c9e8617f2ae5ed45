"""`idyn replay`: compute the torques of a log again, bit for bit with the recorded controller, or with another law.

With `--out`, many logs under several laws are replayed in parallel.
"""

import argparse
from pathlib import Path
from typing import Any

import msgspec

from idyn.errors import ConfigError
from sim_harness.commands.output import progress_bar, run_bar
from sim_harness.compare.ambiguity import ambiguities, ambiguities_text
from sim_harness.fleet.logs import RECORDED, How
from sim_harness.fleet.run import run_fleet
from sim_harness.report.tables import text_table
from sim_harness.run.logs import logged_runs
from transport.log.replay import replay

EXPLAINED, SEARCHES = 10, 60
"""Each 10th tick is explained; searches in a tick with many contacts."""


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    return _one(options) if options.out is None else _fleet(options)


def _one(options: argparse.Namespace) -> tuple[Any, bool]:
    """Replay one log and print how it differs. Return the figures, and whether a replay as recorded is identical."""
    for name in ("executor", "jobs", "window", "lead_in"):
        if getattr(options, name) is not None:
            raise ConfigError(f"--{name.replace('_', '-')}", "expected --out DIR beside it, for the results")
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
    if options.explain:
        with progress_bar(0) as progress:
            checks = ambiguities(log, every=EXPLAINED, samples=SEARCHES, progress=lambda _: progress(str(log), 1))
        print(ambiguities_text(checks))
        figures["outcomes"] = msgspec.to_builtins(checks)
    same_law = law is None and options.selection is None
    return figures, report.exact or not same_law


def _fleet(options: argparse.Namespace) -> tuple[Any, bool]:
    """Replay logs in parallel. Return the figures, and whether the replays as recorded are identical."""
    if options.explain:
        raise ConfigError("--explain", "expected one log and no --out")
    given = {name: value for name in ("window", "lead_in") if (value := getattr(options, name)) is not None}
    laws = tuple(options.law) or (RECORDED,)
    how = How(laws=laws, selection=options.selection, **given)
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
