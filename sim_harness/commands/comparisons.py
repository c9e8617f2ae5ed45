"""`idyn compare` and `demo`: runs side by side, with tables and pictures."""

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
from sim_harness.compare.settings import ComparisonSettings, in_real_time, of_robot
from sim_harness.compare.studies import (
    CHECKOUT,
    ENGINES,
    STUDIES,
    check_options,
    comparison_module,
    is_scene,
    study_module,
    study_of,
)
from sim_harness.report.tables import text_summary
from sim_harness.run.logs import summarise_log
from sim_harness.run.plan import load_plan

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
        return study_module(what[0], f"{CHECKOUT}.commands").run_study(study_of(what, options), options.out)[0].tables, True
    if what[0] == ENGINES or (not what[0].endswith(".mcap") and is_scene(what[0])):
        return study_module(what[0], f"{CHECKOUT}.commands").run_engines(what, options)
    logs = [name.endswith(".mcap") for name in what]
    if any(logs) and not all(logs):
        raise ConfigError("compare", "expected either comparisons or logs, got both")
    if not any(logs):
        return _comparisons(what, options)
    summaries = [summary for path in what for summary in summarise_log(Path(path))]
    print(text_summary(summaries))
    return msgspec.to_builtins(summaries), all(summary.verdict.good for summary in summaries)


def _comparisons(names: list[str], options: argparse.Namespace) -> tuple[Any, bool]:
    modules = [comparison_module(name) for name in names]
    comparisons = [_loaded(module, name, options) for module, name in zip(modules, names, strict=True)]
    how = Options(
        seeds=options.seeds,
        seconds=options.seconds,
        jobs=options.jobs,
        executor=options.executor,
        keep_logs=not options.no_logs,
        served=options.served,
    )
    runs = options.out.absolute() / "runs"  # workers may have another working directory
    findings = []
    with run_bar() as progress:
        for name, module, comparison in zip(names, modules, comparisons, strict=True):
            findings.append(Finding(Path(name).stem, comparison, module.run(comparison, runs, how, progress)))
    publish(comparison_report(findings), options.out, figures=figures_of(findings))
    outcomes = [outcome for finding in findings for outcome in finding.measured.outcomes()]
    return [outcome._asdict() for outcome in outcomes], not any(outcome.holds is False for outcome in outcomes)


def _loaded(module: Any, name: str, options: argparse.Namespace) -> Any:
    """Return a comparison with the robot that the options name, in real time if they ask for it. Raises ConfigError."""
    comparison = module.load_comparison(name)
    if options.robot is None and not options.served:
        return comparison
    if not isinstance(comparison, ComparisonSettings):
        raise ConfigError(name, "expected a matrix of runs for --robot and --served")
    found = comparison if options.robot is None else of_robot(comparison, options.robot)
    return in_real_time(found) if options.served else found


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
