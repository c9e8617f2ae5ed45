"""`idyn compare`, `pauses` and `demo`: runs side by side, with tables and pictures."""

import argparse
from pathlib import Path
from typing import Any

import msgspec

from controllers.config.tables import named
from idyn.errors import ConfigError
from sim_harness import demo
from sim_harness.commands.output import live_view, new_folder, print_expected, progress_bar, publish, run_bar
from sim_harness.compare.report import Finding, comparison_report, figures_of
from sim_harness.compare.results import Options
from sim_harness.compare.studies import CHECKOUT, STUDIES, check_options, comparison_module, study_module, study_of
from sim_harness.report.report import Report
from sim_harness.report.tables import text_summary, text_table
from sim_harness.run.logs import summarise_log
from sim_harness.run.plan import load_plan
from sim_harness.scenes.load import ENGINES
from sim_harness.scenes.scene_settings import is_scene

PAPER = (
    "table-3", "table-4", "table-5", "figure-14", "figure-15", "figure-16", "figure-17", "figure-18", "figure-19", "appendix-a",
)  # fmt: skip
"""Comparisons of the paper in `configs/experiments`; its Figure 6 equals Figure 15."""


def run_compare(options: argparse.Namespace) -> tuple[Any, bool]:
    what = [name for given in options.what for name in (PAPER if given == "paper" else [given])]
    if not what:
        raise ConfigError(
            "compare", f"expected names of comparisons ({', '.join(PAPER)}, paper) or log.mcap files, got no name"
        )
    check_options(what, options)
    if what[0] in STUDIES:
        return _measured(study_of(what, options), options.out)[0].tables, True
    if what[0] == ENGINES or (not what[0].endswith(".mcap") and is_scene(what[0])):
        return _engines(what, options)
    logs = [name.endswith(".mcap") for name in what]
    if any(logs) and not all(logs):
        raise ConfigError("compare", "expected either comparisons or logs, got both")
    if not any(logs):
        return _comparisons(what, options)
    summaries = [summary for path in what for summary in summarise_log(Path(path))]
    print(text_summary(summaries))
    return msgspec.to_builtins(summaries), all(summary.verdict.good for summary in summaries)


def _engines(words: list[str], options: argparse.Namespace) -> tuple[Any, bool]:
    study = study_module(words[0], f"{CHECKOUT}.engines")
    jobs = study.jobs_of(words, options.out.absolute() / "scenes", options.seconds)
    with run_bar() as progress:
        cells = study.run_jobs(jobs, options.executor, options.jobs, progress)
    path = study.write_engine_report(cells, options.out)
    print(f"{text_table(study.engines_table(cells))}\nreport: {path}")
    return study.summary(cells), all(cell.kept is not None and cell.kept.outcome.good for cell in cells)


def _measured(study: Any, out: Path) -> tuple[Report, dict[str, dict[Any, Any]]]:
    studies = study_module("study", f"{CHECKOUT}.study")
    with run_bar() as progress:
        found = studies.measure(study, progress)
    report = studies.report_of(study, found)
    publish(report, out)
    return report, found


def _comparisons(names: list[str], options: argparse.Namespace) -> tuple[Any, bool]:
    modules = [comparison_module(name) for name in names]
    comparisons = [module.load_comparison(name) for module, name in zip(modules, names, strict=True)]
    how = Options(
        seeds=options.seeds,
        seconds=options.seconds,
        jobs=options.jobs,
        executor=options.executor,
        keep_logs=not options.no_logs,
    )
    runs = options.out.absolute() / "runs"  # workers may have another working directory
    findings = []
    with run_bar() as progress:
        for name, module, comparison in zip(names, modules, comparisons, strict=True):
            findings.append(Finding(Path(name).stem, comparison, module.run(comparison, runs, how, progress)))
    publish(comparison_report(findings), options.out, figures=figures_of(findings))
    outcomes = [outcome for finding in findings for outcome in finding.measured.outcomes()]
    return [outcome._asdict() for outcome in outcomes], not any(outcome.holds is False for outcome in outcomes)


def run_pauses(options: argparse.Namespace) -> tuple[Any, bool]:
    study = study_module("pauses", f"{CHECKOUT}.pauses").study(options.experiment, options.law, options.milliseconds)
    _, found = _measured(study, new_folder(Path(options.out)))
    outcomes = found["pauses"].values()
    return [outcome.figures for outcome in outcomes], all(outcome.upright for outcome in outcomes)


def run_demo(options: argparse.Namespace) -> tuple[Any, bool]:
    plan = load_plan(options.experiment, options.seconds, options.engine)
    ticks = sum(len(each.settings.laws) * each.ticks for each in (plan, demo.slide_plan()))
    with live_view(options.view, plan.controller) as watch, progress_bar(ticks) as progress:
        folder = new_folder(Path(options.out))
        found = demo.run_demo(plan, folder, progress, watch)
    publish(demo.report_of(plan, found, folder), folder, figures=found.figures)
    print(
        f"next: idyn view {folder}; idyn replay {folder / named(plan.settings.laws[0]) / 'log.mcap'}; "
        "idyn new ROBOT.urdf (your own robot); idyn list (robots, laws, experiments)"
    )
    return msgspec.to_builtins(found.summaries), print_expected(plan, found.summaries)
