"""The report of comparisons: tables with the paper's numbers beside ours, outcomes of claims, pictures."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np

from controllers.robot.load import load_robot
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.compare.controllers import CONTROLLERS
from sim_harness.compare.jobs import load_trace
from sim_harness.compare.matrix import Panel, decide_cells, matrix_figure, part_figure, quantity_table, upright_table
from sim_harness.compare.results import Outcome, Results, Runs, Statistic, decide, either, statistic, verdict, verdicts
from sim_harness.compare.settings import ComparisonSettings, MatrixSettings, SceneSettings, cells, controllers_of, plan_of
from sim_harness.measure.metrics import QUANTITIES, STRIDE, normal_forces, tracking_errors
from sim_harness.measure.trace import Trace
from sim_harness.report.plots import Plot, picture
from sim_harness.report.report import Report
from sim_harness.report.tables import Table, listed

WINDOW = 0.1
"""Length of the moving mean that smooths noisy lines [s]."""


def tracking(trace: Trace, robot: Robot) -> Array:
    """Return the mean |θ − θ_des| of all joints [rad] (n)  [ZD Fig. 14]."""
    return _smooth(trace, np.abs(tracking_errors(trace, robot)).mean(axis=1))


def torque_rate(trace: Trace, robot: Robot) -> Array:
    """Return the largest |dτ/dt| of all joints [N·m/s] (n)  [ZD Figs. 6, 15]."""
    rate = np.abs(np.diff(trace.tau, axis=0)).max(axis=1) / np.diff(trace.t)
    return np.r_[np.nan, np.maximum(rate, 1e-6)]


def force_error(trace: Trace, robot: Robot) -> Array:
    """Return |Σ f_N predicted − simulated| [N] (n)."""
    predicted, simulated = normal_forces(trace)
    return np.maximum(_smooth(trace, np.abs(predicted - simulated)), 1e-12)


OVER_TIME: dict[str, tuple[str, Callable[[Trace, Robot], Array]]] = {
    "tracking": ("mean |θ − θ_des| [rad]", tracking),
    "torque-rate": ("max |dτ/dt| [N·m/s]", torque_rate),
    "forces": ("error of Σ f_N [N]", force_error),
}
"""Name of a plot over time → label of its y axis, and function of the values."""


def scene_figure(name: str, traces: Mapping[str, Trace], robot: Robot, scene: str) -> bytes:
    """Draw a plot of a scene. name: one of `settings.FIGURES`; traces: by title of the controller; scene: title of the plot"""
    if name == "path":
        return path(traces, robot, scene)
    label, value = OVER_TIME[name]
    values = {title: value(trace, robot) for title, trace in traces.items()}
    lines = {title: (traces[title].t, found) for title, found in values.items() if np.isfinite(found).any()}
    axes = {"title": scene, "ylabel": label, "xlabel": "time [s]"}
    return picture([Plot(lines=lines, width=0.9, log="y", legend=True, axes=axes)])


def path(traces: Mapping[str, Trace], robot: Robot, scene: str) -> bytes:
    """Draw the paths of the centre of mass in the plane  [ZD Fig. 17]."""
    com = {title: np.array([robot.center_of_mass(q)[:2] for q in trace.q[::STRIDE]]).T for title, trace in traces.items()}
    axes = {"title": scene, "xlabel": "x [m]", "ylabel": "y [m]", "aspect": "equal", "adjustable": "datalim"}
    lines = {title: (x, y) for title, (x, y) in com.items()}
    return picture([Plot(lines=lines, width=0.9, legend=True, axes=axes)], size=(6.5, 6.5))


def _smooth(trace: Trace, values: Array) -> Array:
    """Return the moving mean over `WINDOW`; ticks with NaN or infinity are ignored."""
    ticks = max(1, round(WINDOW / max(float(trace.t[1] - trace.t[0]), 1e-9))) if len(trace) > 1 else 1
    there = np.isfinite(values)
    ones = np.ones(min(ticks, len(values)))
    total = np.convolve(np.where(there, values, 0.0), ones, mode="same")
    count = np.convolve(there.astype(float), ones, mode="same")
    return np.where(count > 0, total / np.maximum(count, 1.0), np.nan)


class Measured(Protocol):
    """What the study of a comparison found: run times, or a race."""

    caption: str

    def outcomes(self) -> list[Outcome]:
        """Return the outcomes of claims."""

    def table(self) -> Table:
        """Return the table of the report."""

    def figure(self) -> bytes:
        """Draw the picture of the report, with the caption."""

    def figures(self) -> dict[str, Any]:
        """Return the figures for `summary.json`."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison with its results: runs, or those of its study."""

    name: str
    comparison: ComparisonSettings
    results: Results
    measured: Measured | None = None

    @property
    def outcomes(self) -> list[Outcome]:
        """Outcomes of all claims."""
        decided = [decide(check, self.comparison, self.results) for check in self.comparison.check]
        if self.measured is not None:
            decided += self.measured.outcomes()
        if (matrix := self.comparison.matrix) is not None:
            decided += [decide_cells(check, matrix, self.results) for check in matrix.check]
        return decided


def scene_table(comparison: ComparisonSettings, scene: SceneSettings, results: Results) -> Table:
    """Return a table with one row for each controller: for each quantity the paper's value, ours ± spread, and their ratio."""
    paper = comparison.paper.get(scene.name, {})
    rows = [["controller"]]
    compared = max((len(row) for row in paper.values() if row != "fell"), default=0)
    for i, quantity in enumerate(comparison.quantities):
        heading = QUANTITIES[quantity].heading
        rows[0] += [f"paper: {heading}", "ours", "ours / paper"] if i < compared else [heading]
    rows[0].append("verdicts")
    papers = comparison.paper_verdicts.get(scene.name, {})
    if comparison.verdict is not None:
        rows[0] += ["paper's verdict", "ours"]
    for controller in controllers_of(comparison, scene):
        runs = results[scene.name, controller]
        row = [CONTROLLERS[controller].title]
        for i, quantity in enumerate(comparison.quantities):
            ours = statistic(runs, quantity)
            row += [*_compared(paper.get(controller), i, ours)] if i < compared else [_number(ours)]
        row.append(_verdicts(runs))
        if comparison.verdict is not None:
            row += [papers.get(controller, "–"), verdict(comparison.verdict, scene.name, controller, results)]
        rows.append(row)
    return rows


def _verdicts(runs: Runs) -> str:
    """Return the verdicts, mean |dτ/dt| of the whole runs, and the mean time in which the others received torques."""
    cut_short = [s for s in runs.summaries if not s.upright]
    text = verdicts(runs)
    if len(cut_short) < len(runs.summaries):
        text += f" at {statistic(runs, 'torque-rate').mean:.3g} N·m/s"
    if not cut_short:
        return text
    answered = [s.seconds * (s.modes.get("ok", 0.0) + s.modes.get("degraded", 0.0)) for s in cut_short]
    return f"{text}, torques for {sum(answered) / len(answered):.1f} s"


def _compared(paper: tuple[float, ...] | str | None, i: int, ours: Statistic) -> tuple[str, str, str]:
    """Return three cells: the paper's value of the i-th quantity, our value, and the ratio of our value to the paper's."""
    if paper is None or isinstance(paper, str) or i >= len(paper):
        return "–" if paper is None else "fell", _number(ours), ""
    ratio = ours.mean / paper[i] if paper[i] else math.nan
    return f"{paper[i]:.4g}", _number(ours), "" if math.isnan(ratio) else f"{ratio:.2g}"


def _number(figures: Statistic) -> str:
    if math.isnan(figures.mean):
        return either(figures.cut_short) or "–"
    return f"{figures.mean:.3g}" + ("" if math.isnan(figures.spread) else f" ± {figures.spread:.1g}")


WORDS = {True: "holds", False: "does not hold", None: "not decided"}


def claims_table(outcomes: Sequence[Outcome]) -> Table:
    """Return a table with one row for each claim; the measured value is from the scene with the smallest margin."""
    columns: dict[str, Callable[[Outcome], str]] = {"": lambda o: WORDS[o.holds], "measured": lambda o: o.measured}
    return listed("claim", ((o.claim, o) for o in outcomes), columns)


def comparison_report(findings: Sequence[Finding]) -> Report:
    """Return the report of all comparisons."""
    report = Report(
        "idyn compare: " + ", ".join(finding.name for finding in findings),
        "Every number is a mean over runs that begin in slightly different states, ± the standard deviation of several runs. "
        "Runs that a fall, a refusal or a stop cut short have a verdict, and no part in the means.",
    )
    for finding in findings:
        report.heading(f"{finding.name}: {finding.comparison.title}")
        _add_results(report, finding)
        _add_claims(report, finding.comparison, finding.outcomes)
    return report


def _add_results(report: Report, finding: Finding) -> None:
    name, comparison, results = finding.name, finding.comparison, finding.results
    for scene in comparison.scene:
        report.heading(scene.name, 3)
        report.table(scene_table(comparison, scene, results))
        for figure, png in _pictures(comparison, scene, results):
            report.picture(png, f"{comparison.title}, {scene.name}: the first seed", f"{name}-{scene.name}-{figure}")
    if comparison.matrix is not None:
        _add_matrix(report, name, comparison.matrix, results)
    if finding.measured is not None:
        report.table(finding.measured.table())
        report.picture(finding.measured.figure(), finding.measured.caption, name)


def _add_matrix(report: Report, name: str, matrix: MatrixSettings, results: Results) -> None:
    """Add the picture of a matrix, the tables of each part, and pictures of parts with quantities."""
    caption = "Colour: share of the robots that stayed upright. Number: their mean joint tracking error [mrad]."
    report.paragraph("In the tables: upright robots, and their mean joint tracking error [mrad] and mean |dτ/dt| [N·m/s].")
    report.picture(matrix_figure(matrix, results), caption, name)
    for part in matrix.part:
        for variant in matrix.variants:
            panel = Panel(part, variant)
            report.heading(f"{part.name}, {variant}", 3)
            report.table(upright_table(panel, results))
            for quantity in part.quantities:
                report.table(quantity_table(panel, quantity, results))
        if part.quantities:
            caption = f"{part.name}: robots that stayed upright, and the mean of each quantity over them."
            report.picture(part_figure(part, matrix, results), caption, f"{name}-{part.name}")


def _add_claims(report: Report, comparison: ComparisonSettings, outcomes: Sequence[Outcome]) -> None:
    if outcomes:
        report.heading("Claims", 3)
        report.table(claims_table(outcomes))
    for outcome in outcomes:
        if outcome.holds is False and outcome.explanation:
            report.paragraph(f"{outcome.claim}: does not hold ({outcome.measured}). {outcome.explanation}")
    for note in comparison.notes:
        report.paragraph(note)


def _pictures(comparison: ComparisonSettings, scene: SceneSettings, results: Results) -> list[tuple[str, bytes]]:
    if not comparison.figures:
        return []
    names = controllers_of(comparison, scene)
    robot, _ = load_robot(plan_of(comparison, scene, names[0]).controller.robot)
    traces = {CONTROLLERS[name].title: load_trace(results[scene.name, name].folders[0]) for name in names}
    return [(name, scene_figure(name, traces, robot, scene.name)) for name in comparison.figures]


def figures_of(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the figures of all comparisons, by name, for `summary.json`."""
    return {finding.name: _figures(finding) for finding in findings}


def _figures(finding: Finding) -> dict[str, Any]:
    comparison, results = finding.comparison, finding.results
    return {
        "title": comparison.title,
        "scenes": {
            scene.name: {
                name: _runs(results[scene.name, name], comparison.quantities)
                | {"paper": comparison.paper.get(scene.name, {}).get(name)}
                for name in controllers_of(comparison, scene)
            }
            for scene in comparison.scene
        },
        "cells": [] if comparison.matrix is None else _cells(comparison.matrix, results),
        "claims": [outcome._asdict() for outcome in finding.outcomes],
        **({} if finding.measured is None else finding.measured.figures()),
    }


def _runs(runs: Runs, quantities: Iterable[str]) -> dict[str, Any]:
    figures = {quantity: statistic(runs, quantity)._asdict() for quantity in quantities}
    return {"runs": [folder.name for folder in runs.folders], "quantities": figures}


def _cells(matrix: MatrixSettings, results: Results) -> list[dict[str, Any]]:
    """Return the figures of each cell of a matrix: names, number of runs, quantities; length and verdict of each run."""
    quantities = {part.name: ("tracking", *part.quantities) for part in matrix.part}
    return [
        {
            **cell._asdict(),
            **_runs(results[cell], quantities[cell.part]),
            "verdicts": [summary.verdict for summary in results[cell].summaries],
            "seconds": [summary.seconds for summary in results[cell].summaries],
        }
        for cell in cells(matrix)
    ]
