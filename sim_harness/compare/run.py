"""Runs of comparisons: tasks, execution, results."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from idyn.errors import ConfigError
from sim_harness.compare.jobs import JobFailed, Keep, Task, finished, result_of, run_jobs, run_task, tasks_of
from sim_harness.compare.results import Results, Runs
from sim_harness.compare.settings import Cell, ComparisonSettings, runs_of
from sim_harness.compare.study import Progress
from sim_harness.compare.timing import LawTimes, Timings, run_timing, timing_tasks


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `idyn compare`.

    seeds, seconds: replace those of comparisons and experiments; jobs: number of parallel runs; executor: a row of `EXECUTORS`
    keep_logs: whether runs of scenes write an MCAP log; runs of a matrix never do
    """

    seeds: int | None = None
    seconds: float | None = None
    jobs: int = 1
    executor: str = "processes"
    keep_logs: bool = True


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


def run_timings(comparison: ComparisonSettings, root: Path, progress: Progress) -> Timings | None:
    """Measure run times, one controller after the other, each in a process of its own; None without [timing]."""
    if comparison.timing is None:
        return None
    tasks = timing_tasks(comparison.timing, root)
    run_jobs(tasks, run_timing, partial(result_of, kind=LawTimes), ("processes", 1), progress)
    found = {task.controller: result_of(task, LawTimes) for task in tasks}
    return {controller: law.times for controller, law in found.items() if law is not None}


def _runs(tasks: Sequence[Task]) -> Runs:
    results = [finished(task) for task in tasks]
    for task, result in zip(tasks, results, strict=True):
        if result is None:
            raise JobFailed(f"{task.folder}: no result")
    return Runs(folders=[task.folder for task in tasks], summaries=[result.summary for result in results if result is not None])
