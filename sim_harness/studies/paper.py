"""The comparisons of the paper's Tables 3 to 5, Figures 14 to 18 and Appendix A: controllers in scenes, beside its numbers.

`configs/experiments/paper` has them; a comparison of one's own is another file of this kind.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from controllers.config.loading import Settings, load
from controllers.robot.load import load_robot
from idyn.errors import ConfigError
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.compare.jobs import Keep, Progress, tasks_of
from sim_harness.compare.results import (
    Options,
    Outcome,
    Results,
    Runs,
    Statistic,
    Tasks,
    either,
    figures_of_runs,
    run_tasks_of,
    seeds_of,
    statistic,
)
from sim_harness.compare.settings import Changes, Count, check_known, plan_with
from sim_harness.measure.metrics import QUANTITIES, STRIDE, normal_forces, tracking_errors
from sim_harness.measure.trace import Trace
from sim_harness.report.plots import Plot, picture
from sim_harness.report.report import Report
from sim_harness.report.tables import Table
from sim_harness.run.experiment import TRACE
from sim_harness.run.plan import Plan, with_controller
from sim_harness.studies.controllers import CONTROLLERS

PaperRow = tuple[float, ...] | Literal["fell"]

FIGURES = ("tracking", "torque-rate", "path", "forces")
"""Names of the plots of a scene."""


class SceneSettings(Settings, frozen=True):
    """Conditions under which controllers are compared."""

    name: str
    experiment: str = ""  # replaces the comparison's
    changes: Changes = msgspec.field(default_factory=dict)  # to the settings of the experiment, table by table
    controllers: tuple[str, ...] = ()  # replace the comparison's


class CheckSettings(Settings, frozen=True):
    """A claim about the means over seeds in `scenes` (default: all).

    With `larger` and `smaller`: the quantity of each controller in `larger` is at least `factor` times that of each controller
    in `smaller`. With `controllers`: the quantity of each is between `at_least` and `at_most`. A claim about a controller whose
    robot fell, in an order the smaller one, does not hold. An order is not decided if the larger one fell: there is nothing to
    compare with. A refusal and a stop count as a fall.
    """

    claim: str
    quantity: str
    larger: tuple[str, ...] = ()
    smaller: tuple[str, ...] = ()
    factor: float = 1.0
    controllers: tuple[str, ...] = ()
    at_least: float = -float("inf")
    at_most: float = float("inf")
    scenes: tuple[str, ...] = ()
    explanation: str = ""  # printed when the claim does not hold


class VerdictSettings(Settings, frozen=True):
    """Pass or fail, as in the paper's Appendix A: a run passes when the robot stays upright and its torque does not chatter.

    Torque chatters when its mean |dτ/dt| is more than `factor` times that of the controller `smooth` in the same scene.
    """

    smooth: str = "id-qp-mu"
    factor: float = 10.0


class ComparisonSettings(Settings, frozen=True):
    """A comparison: a table or a figure."""

    title: str
    experiment: str = ""  # name or path
    changes: Changes = msgspec.field(default_factory=dict)  # to its settings, in every scene
    controllers: tuple[str, ...] = ()  # rows of `sim_harness.studies.controllers.CONTROLLERS`
    quantities: tuple[str, ...] = ()  # rows of `sim_harness.measure.metrics.QUANTITIES`, the columns of the table
    seeds: Count = 3  # number of runs of each controller in each scene
    scene: tuple[SceneSettings, ...] = ()
    # scene → controller → the paper's values of the first quantities, or 'fell'
    paper: dict[str, dict[str, PaperRow]] = msgspec.field(default_factory=dict)
    # scene → controller → verdict of the paper's Appendix A
    paper_verdicts: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    verdict: VerdictSettings | None = None
    figures: tuple[str, ...] = ()  # plots of the first seed of each scene
    check: tuple[CheckSettings, ...] = ()  # claims
    notes: tuple[str, ...] = ()  # paragraphs of the report


def load_comparison(name_or_path: str) -> ComparisonSettings:
    """Read and check a comparison. Raises ConfigError for the first error."""
    c = load("experiments", name_or_path, ComparisonSettings)
    scenes = [scene.name for scene in c.scene]
    if len(set(scenes)) != len(scenes):
        raise ConfigError("comparison.scene", f"expected scenes with different names, got {scenes}")
    check_known("comparison.quantities", c.quantities, QUANTITIES)
    check_known("comparison.controllers", c.controllers, CONTROLLERS)
    check_known("comparison.figures", c.figures, FIGURES)
    for scene in c.scene:
        if "/" in scene.name:
            raise ConfigError("comparison.scene.name", f"expected a name without '/', got '{scene.name}'")
        check_known(f"comparison.scene.{scene.name}.controllers", scene.controllers, CONTROLLERS)
        if c.verdict is not None:
            check_known("comparison.verdict.smooth", [c.verdict.smooth], controllers_of(c, scene))
    for table in (c.paper, c.paper_verdicts):
        check_known("comparison.paper", table, scenes)
        for name, rows in table.items():
            check_known(f"comparison.paper.{name}", rows, CONTROLLERS)
    for check in c.check:
        check_known("comparison.check.quantity", [check.quantity], QUANTITIES)
        check_known("comparison.check.controllers", (*check.larger, *check.smaller, *check.controllers), CONTROLLERS)
        check_known("comparison.check.scenes", check.scenes, scenes)
        _check_claim(c, check)
    return c


def _check_claim(comparison: ComparisonSettings, check: CheckSettings) -> None:
    """Check that the runs of the comparison can decide a claim. Raises ConfigError."""
    if bool(check.larger) != bool(check.smaller) or bool(check.larger) == bool(check.controllers):
        raise ConfigError("comparison.check", f"'{check.claim}': expected larger and smaller, or controllers alone")
    named = {*check.larger, *check.smaller, *check.controllers}
    run = {scene.name for scene in comparison.scene if named <= set(controllers_of(comparison, scene))}
    if not run or not run.issuperset(check.scenes):
        where = "any scene" if not run else ", ".join(sorted(set(check.scenes) - run))
        missing = f"expected all of {', '.join(sorted(named))} in {where}, not all of them run there"
        raise ConfigError("comparison.check", f"'{check.claim}': {missing}")


def controllers_of(comparison: ComparisonSettings, scene: SceneSettings) -> tuple[str, ...]:
    """Return the names of the controllers of a scene."""
    return scene.controllers or comparison.controllers


def plan_of(comparison: ComparisonSettings, scene: SceneSettings, controller: str, seconds: float | None = None) -> Plan:
    """Return the plan of a controller in a scene. seconds: replaces the duration. Raises ConfigError."""
    layers = [("comparison", comparison.changes), (f"scene.{scene.name}", scene.changes)]
    plan = plan_with(scene.experiment or comparison.experiment, layers, seconds)
    return with_controller(plan, CONTROLLERS[controller].changes, f"controllers.{controller}")


def runs_of(comparison: ComparisonSettings, seconds: float | None = None) -> Iterator[tuple[tuple[str, ...], Plan, int]]:
    """Yield key (scene, controller), plan and number of seeds of all runs in scenes. Raises ConfigError."""
    for scene in comparison.scene:
        for controller in controllers_of(comparison, scene):
            yield (scene.name, controller), plan_of(comparison, scene, controller, seconds), comparison.seeds


def all_tasks(comparison: ComparisonSettings, root: Path, options: Options) -> Tasks:
    """Return the tasks of all runs of a comparison. Raises ConfigError."""
    tasks: Tasks = {}
    keep: Keep = "log" if options.keep_logs else "trace"
    for point, plan, seeds in runs_of(comparison, options.seconds):
        tasks[point] = tasks_of(plan, point[-1], seeds_of(options, seeds), root, keep)
    return tasks


def run_comparisons(
    comparisons: Sequence[ComparisonSettings], root: Path, options: Options, progress: Progress
) -> list[Results]:
    """Run comparisons and return the results of each. Raises JobFailed."""
    return run_tasks_of([all_tasks(comparison, root, options) for comparison in comparisons], options, progress)


def verdicts(runs: Runs) -> str:
    """Return how many runs had which ending, as in '2 walked, 1 fell'; for a single run its verdict."""
    if len(runs.summaries) == 1:
        return runs.summaries[0].verdict.text
    counts = Counter(summary.verdict.ending.value for summary in runs.summaries)
    return ", ".join(f"{count} {ending}" for ending, count in counts.most_common())


def decide(check: CheckSettings, comparison: ComparisonSettings, results: Results) -> Outcome:
    """Check a claim in all its scenes; return the outcome in the scene with the smallest margin."""
    scenes = check.scenes or tuple(scene.name for scene in comparison.scene)
    margins_of = _order_margins if check.larger else _range_margins
    margins = [entry for scene in scenes for entry in margins_of(check, scene, results)]
    decided = [entry for entry in margins if not math.isnan(entry[0])]
    if not decided:
        return Outcome(check.claim, None, margins[0][1] if margins else "no data", check.explanation)
    margin, measured = min(decided, key=lambda entry: entry[0])
    return Outcome(check.claim, margin >= 0.0, measured, check.explanation)


Margins = list[tuple[float, str]]
"""Pairs (margin, measured values as text); a margin is ≥ 0 where the claim holds, NaN where it cannot be decided."""


def _order_margins(check: CheckSettings, scene: str, results: Results) -> Margins:
    """Return a margin for each pair of `larger` and `smaller`; NaN if the run of `larger` was cut short.

    Nothing can be compared with such a run: it neither supports nor refutes the claim. One of `smaller` refutes it.
    """
    margins = []
    for larger in check.larger:
        for smaller in check.smaller:
            if (scene, larger) not in results or (scene, smaller) not in results:
                continue
            more, less = (_level(results[scene, name], check.quantity) for name in (larger, smaller))
            if math.isinf(more):
                margins.append((math.nan, _cut_short(larger, scene, results)))
            elif math.isinf(less):
                margins.append((-math.inf, _cut_short(smaller, scene, results)))
            elif not math.isnan(ratio := _ratio(more, less)):
                margins.append((ratio - check.factor, f"{larger} over {smaller}: {ratio:.3g} times ({scene})"))
    return margins


def _cut_short(controller: str, scene: str, results: Results) -> str:
    endings = statistic(results[scene, controller], "torque").cut_short
    return f"{controller}: {either(endings)} ({scene})"


def _range_margins(check: CheckSettings, scene: str, results: Results) -> Margins:
    """Return a margin for each controller of the claim."""
    margins = []
    for name in check.controllers:
        if (scene, name) not in results:
            continue
        value = _level(results[scene, name], check.quantity)
        if math.isinf(value):
            margins.append((-math.inf, _cut_short(name, scene, results)))
        elif not math.isnan(value):
            margin = min(value - check.at_least, check.at_most - value)
            margins.append((margin, f"{name}: {value:.3g} {QUANTITIES[check.quantity].heading} ({scene})"))
    return margins


def _level(runs: Runs, quantity: str) -> float:
    """Return the mean of a quantity over the seeds, infinite if any run was cut short: its values are not comparable."""
    figures = statistic(runs, quantity)
    return math.inf if figures.cut_short else figures.mean


def _ratio(more: float, less: float) -> float:
    """Return the quotient of two numbers ≥ 0: infinite for a divisor 0, NaN when one of them is NaN."""
    return more / less if less else more + math.inf


def verdict(settings: VerdictSettings, scene: str, controller: str, results: Results) -> str:
    """Return PASS, or FAIL with the reason; '–' if all runs of `smooth` were cut short: there is nothing to compare with."""
    runs = results[scene, controller]
    rates = statistic(runs, "torque-rate")
    if rates.cut_short:
        return f"FAIL ({either(rates.cut_short)}, {len(rates.cut_short)} of {rates.runs})"
    smooth = statistic(results[scene, settings.smooth], "torque-rate").mean
    if math.isnan(rates.mean) or math.isnan(smooth):
        return "–"
    if rates.mean > settings.factor * smooth:
        return f"FAIL (torque chatter, {_ratio(rates.mean, smooth):.0f} times {settings.smooth})"
    return "PASS"


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


def _pictures(comparison: ComparisonSettings, scene: SceneSettings, results: Results) -> list[tuple[str, bytes]]:
    if not comparison.figures:
        return []
    names = controllers_of(comparison, scene)
    robot, _ = load_robot(plan_of(comparison, scene, names[0]).controller.robot)
    traces = {CONTROLLERS[name].title: Trace.load_npz(results[scene.name, name].folders[0] / TRACE) for name in names}
    return [(name, scene_figure(name, traces, robot, scene.name)) for name in comparison.figures]


def run(comparison: ComparisonSettings, root: Path, options: Options, progress: Progress) -> "Paper":
    """Run all controllers in all scenes. Raises ConfigError, and JobFailed."""
    (results,) = run_comparisons([comparison], root, options, progress)
    return Paper(comparison=comparison, results=results)


def robot_of(comparison: ComparisonSettings) -> str:
    """Return the robot of the first run; the plans of all runs are made. Raises ConfigError."""
    robots = [plan.controller.robot for _, plan, _ in runs_of(comparison)]
    return robots[0]


class Paper(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison with its results."""

    comparison: ComparisonSettings
    results: Results

    def outcomes(self) -> list[Outcome]:
        """Return the outcomes of all claims."""
        return [decide(check, self.comparison, self.results) for check in self.comparison.check]

    def add_to(self, report: Report, name: str) -> None:
        """Add tables and pictures of the scenes. name: of the comparison"""
        comparison, results = self.comparison, self.results
        for scene in comparison.scene:
            report.heading(scene.name, 3)
            report.table(scene_table(comparison, scene, results))
            for figure, png in _pictures(comparison, scene, results):
                report.picture(png, f"{comparison.title}, {scene.name}: the first seed", f"{name}-{scene.name}-{figure}")

    def figures(self) -> dict[str, Any]:
        """Return the figures for `summary.json`."""
        comparison, results = self.comparison, self.results
        return {
            "scenes": {
                scene.name: {
                    name: figures_of_runs(results[scene.name, name], comparison.quantities)
                    | {"paper": comparison.paper.get(scene.name, {}).get(name)}
                    for name in controllers_of(comparison, scene)
                }
                for scene in comparison.scene
            }
        }
