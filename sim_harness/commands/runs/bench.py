"""`idyn bench`: run times on this machine, in units of `pin.computeAllTerms` of the same robot in the same process."""

import argparse
import sys
from functools import partial
from typing import Any

from idyn.jit.compiled import compiling
from sim_harness.bench.batch_bench import study
from sim_harness.bench.derivatives import bench_slopes, slopes_table
from sim_harness.bench.laws import bench_laws, laws_table
from sim_harness.bench.round_trips import bench_server, server_table
from sim_harness.bench.tasks import bench_tasks, tasks_table
from sim_harness.commands.output import progress_bar, run_bar
from sim_harness.compare.study import measure, report_of
from sim_harness.report.tables import text_table


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    if options.batch:
        return _batches(options), True
    with compiling(partial(print, file=sys.stderr)), progress_bar(0, unit="") as progress:
        result = bench_laws(options.robot, options.repeat, progress)
    print(text_table(laws_table(result)))
    result["derivatives"] = bench_slopes(options.robot)
    print(text_table(slopes_table(result["derivatives"])))
    result["tasks"] = bench_tasks(options.robot, options.tsid)
    if result["tasks"]:
        print(text_table(tasks_table(result["tasks"])))
    if not options.no_server:
        with progress_bar(2 * options.ticks) as progress:
            result["server"] = bench_server(options.ticks, progress)
        print(text_table(server_table(result["server"])))
    return result, True


def _batches(options: argparse.Namespace) -> dict[str, Any]:
    batches = study(options.robot)
    with compiling(partial(print, file=sys.stderr)), run_bar("case") as progress:
        found = measure(batches, progress)
    print(report_of(batches, found).text)
    predictions = {", ".join(point): times for point, times in found["predictions"].items()}
    return {"predictions": predictions, "worlds": found["worlds"]}
