"""Runs of comparisons and their results: means, standard deviations and outcomes of claims."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

import msgspec

from idyn.errors import ConfigError
from sim_harness.compare.jobs import JobFailed, Keep, Task, finished, run_jobs, run_task, tasks_of
from sim_harness.compare.settings import Cell, CheckSettings, ComparisonSettings, VerdictSettings, runs_of
from sim_harness.compare.study import Progress
from sim_harness.measure.metrics import QUANTITIES, Summary


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """Folders and summaries of the runs of one controller in one scene, one for each seed."""

    folders: list[Path]
    summaries: list[Summary]


Results = dict[tuple[str, ...], Runs]
"""(scene, controller), or a `Cell` of a matrix → runs."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `idyn compare`."""

    # seeds, seconds: replace those of comparisons and experiments
    seeds: int | None = None
    seconds: float | None = None
    jobs: int = 1  # number of parallel runs
    executor: str = "processes"  # a row of `EXECUTORS`
    keep_logs: bool = True  # whether runs of scenes write an MCAP log; runs of a matrix never do


Tasks = dict[tuple[str, ...], list[Task]]
"""Tasks by the keys of `Results`."""


def all_tasks(comparison: ComparisonSettings, root: Path, options: Options) -> Tasks:
    """Return the tasks of all runs of a comparison. Raises ConfigError."""
    if options.seeds is not None and options.seeds < 1:
        raise ConfigError("seeds", f"expected ≥ 1, got {options.seeds}")
    tasks: Tasks = {}
    keep: Keep = "fall" if comparison.matrix is not None else "log" if options.keep_logs else "trace"
    for point, plan, seeds in runs_of(comparison, options.seconds):
        label = point.law if isinstance(point, Cell) else point[-1]
        tasks[point] = tasks_of(plan, label, range(options.seeds or seeds), root, keep)
    return tasks


def run_comparisons(
    comparisons: Sequence[ComparisonSettings], root: Path, options: Options, progress: Progress
) -> list[Results]:
    """Run comparisons and return the results of each.

    A task that several comparisons share runs once. A task with a result in `root` does not run. Raises JobFailed.
    """
    wanted = [all_tasks(comparison, root, options) for comparison in comparisons]
    each = {task.folder: task for tasks in wanted for same in tasks.values() for task in same}
    run_jobs([*each.values()], run_task, finished, (options.executor, options.jobs), progress)
    return [{place: _runs(same) for place, same in tasks.items()} for tasks in wanted]


def _runs(tasks: Sequence[Task]) -> Runs:
    results = [finished(task) for task in tasks]
    for task, result in zip(tasks, results, strict=True):
        if result is None:
            raise JobFailed(f"{task.folder}: no result")
    return Runs(folders=[task.folder for task in tasks], summaries=[result.summary for result in results if result is not None])


class Statistic(NamedTuple):
    """A quantity over the whole runs."""

    mean: float
    spread: float  # standard deviation, NaN for a single run
    cut_short: tuple[str, ...]  # endings of the runs that a fall, a refusal or a stop cut short
    runs: int  # number of all runs


def statistic(runs: Runs, quantity: str) -> Statistic:
    """Return the statistic of a quantity; the mean is NaN when no run has the quantity."""
    value = QUANTITIES[quantity].value
    up = [value(summary) for summary in runs.summaries if summary.upright]
    numbers = [number for number in up if not math.isnan(number)]
    return Statistic(
        mean=mean(numbers) if numbers else math.nan,
        spread=stdev(numbers) if len(numbers) > 1 else math.nan,
        cut_short=tuple(summary.verdict.ending.value for summary in runs.summaries if not summary.upright),
        runs=len(runs.summaries),
    )


def verdicts(runs: Runs) -> str:
    """Return how many runs had which ending, as in '2 walked, 1 fell'; for a single run its verdict."""
    if len(runs.summaries) == 1:
        return runs.summaries[0].verdict.text
    counts = Counter(summary.verdict.ending.value for summary in runs.summaries)
    return ", ".join(f"{count} {ending}" for ending, count in counts.most_common())


def either(endings: Iterable[str]) -> str:
    """Return different endings as text, as in 'fell or stopped'."""
    return " or ".join(dict.fromkeys(endings))


def lost(runs: Runs) -> str:
    """Return how and after which mean time runs were cut short, as in 'fell after 1.2 s'; '' if none was."""
    judged = [summary.verdict for summary in runs.summaries if not summary.upright]
    if not judged:
        return ""
    times = [verdict.at for verdict in judged if verdict.at is not None]
    return f"{either(verdict.ending.value for verdict in judged)} after {mean(times):.1f} s"


class Outcome(NamedTuple):
    """A checked claim. holds: whether it is true, None when that could not be decided; measured: measured values, as text"""

    claim: str
    holds: bool | None
    measured: str
    explanation: str


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
