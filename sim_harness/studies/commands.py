"""Commands of a checkout: `idyn bench` and `pauses`, and the studies of `idyn compare` and `judge`."""

import argparse
from pathlib import Path
from typing import Any

from sim_harness.commands.output import new_folder, progress_bar, publish, run_bar
from sim_harness.compare.studies import PEERS
from sim_harness.doctor import bench_server
from sim_harness.report.report import Report
from sim_harness.report.tables import text_table
from sim_harness.studies import batches, bench, bench_tasks, engines, pauses
from sim_harness.studies.judged_scenes import judged_scenes, scenes_report
from sim_harness.studies.study import Figures, Study, measure, report_of


def run_study(study: Study, out: Path) -> tuple[Report, Figures]:
    """Measure a study and publish its report. Return the report and the figures."""
    with run_bar() as progress:
        found = measure(study, progress)
    report = report_of(study, found)
    publish(report, out)
    return report, found


def run_engines(words: list[str], options: argparse.Namespace) -> tuple[Any, bool]:
    """Run scenes with all engines that they list. words: the scenes, or 'engines' for all"""
    jobs = engines.jobs_of(words, options.out.absolute() / "scenes", options.seconds)
    with run_bar() as progress:
        cells = engines.run_jobs(jobs, options.executor, options.jobs, progress)
    path = engines.write_engine_report(cells, options.out)
    print(f"{text_table(engines.engines_table(cells))}\nreport: {path}")
    return engines.summary(cells), all(cell.kept is not None and cell.kept.outcome.good for cell in cells)


def run_judged_scenes(options: argparse.Namespace) -> tuple[Any, bool]:
    """Judge the steps of scenes."""
    with run_bar() as progress:
        found = judged_scenes(options.what, options.seconds, options.tolerance, progress)
    publish(scenes_report(found, options.seconds), options.out)
    return [{"scene": each.scene, "engine": each.engine, "kinds": dict(each.worst)} for each in found], True


def run_pauses(options: argparse.Namespace) -> tuple[Any, bool]:
    study = pauses.study(options.experiment, options.law, options.milliseconds)
    _, found = run_study(study, new_folder(Path(options.out)))
    outcomes = found["pauses"].values()
    return [outcome.figures for outcome in outcomes], all(outcome.upright for outcome in outcomes)


def run_bench(options: argparse.Namespace) -> tuple[Any, bool]:
    if options.batch:
        return _batches(options), True
    with progress_bar(0, unit="") as progress:
        result = bench.bench_laws(options.robot, options.repeat, progress)
    print(text_table(bench.laws_table(result)))
    result["derivatives"] = bench.bench_slopes(options.robot)
    print(text_table(bench.slopes_table(result["derivatives"])))
    peers = {name: python for name in PEERS if (python := getattr(options, name)) is not None}
    result["tasks"] = bench_tasks.bench_tasks(options.robot, peers)
    if result["tasks"]:
        print(text_table(bench_tasks.tasks_table(result["tasks"], result["unit_us"])))
    if not options.no_server:
        with progress_bar(2 * options.ticks) as progress:
            result["server"] = bench_server(options.ticks, progress)
        print(text_table(bench.server_table(result["server"])))
    return result, True


def _batches(options: argparse.Namespace) -> dict[str, Any]:
    study = batches.study(options.robot)
    with run_bar("case") as progress:
        found = measure(study, progress)
    print(report_of(study, found).text)
    predictions = {", ".join(point): times for point, times in found["predictions"].items()}
    return {"predictions": predictions, "worlds": found["worlds"]}
