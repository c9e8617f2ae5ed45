"""Runs of comparisons and their results: means, standard deviations and outcomes of claims."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import msgspec

from idyn.errors import ConfigError
from sim_harness.compare.jobs import JobFailed, Progress, Task, finished, run_jobs, run_task
from sim_harness.measure.metrics import QUANTITIES, Summary


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """Folders and summaries of the runs of one controller in one scene, one for each seed."""

    folders: list[Path]
    summaries: list[Summary]


Results = dict[tuple[str, ...], Runs]  # (scene, controller), or the names of a cell of a matrix → runs


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `idyn compare`."""

    # seeds, seconds: replace those of comparisons and experiments
    seeds: int | None = None
    seconds: float | None = None
    jobs: int = 1  # number of parallel runs
    executor: str = "processes"  # a row of `EXECUTORS`
    keep_logs: bool = True  # whether runs of scenes write an MCAP log; runs of a matrix never do
    served: bool = False  # whether runs of a matrix have a server process and are in real time


Tasks = dict[tuple[str, ...], list[Task]]  # tasks by the keys of `Results`


def seeds_of(options: Options, own: int) -> range:
    """Return the seeds of the runs of a comparison. own: their number in its settings. Raises ConfigError."""
    if options.seeds is not None and options.seeds < 1:
        raise ConfigError("seeds", f"expected ≥ 1, got {options.seeds}")
    return range(options.seeds or own)


def run_tasks_of(wanted: Sequence[Tasks], options: Options, progress: Progress) -> list[Results]:
    """Run tasks and return the results of each group. A task of several groups runs once, one with a result does not run.

    Raises JobFailed.
    """
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


def figures_of_runs(runs: Runs, quantities: Iterable[str]) -> dict[str, Any]:
    """Return the folders of runs, and the statistics of quantities over them."""
    figures = {quantity: statistic(runs, quantity)._asdict() for quantity in quantities}
    return {"runs": [folder.name for folder in runs.folders], "quantities": figures}
