"""`idyn replay`: compute the torques of a log again, bit for bit with the recorded controller, or with another law."""

import argparse
from typing import Any

import msgspec

from sim_harness.commands.output import progress_bar
from sim_harness.run.logs import logged_runs
from transport.replay import replay


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    with progress_bar(0) as progress:
        report = replay(
            options.log, law=options.law, selection=options.selection, progress=lambda n: progress(str(options.log), n)
        )
    print(report.table())
    verdicts = {run.label: run.verdict.text for run in logged_runs(options.log)}
    for label, verdict in verdicts.items():
        print(f"recorded run {label}: {verdict}")
    same_law = options.law is None and options.selection is None
    return msgspec.to_builtins(report) | {"recorded": verdicts}, report.exact or not same_law
