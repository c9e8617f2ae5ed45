"""From comparisons to results."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from idyn.errors import ConfigError
from sim_harness.compare.jobs import JobFailed, Keep, Task, finished, run_jobs, run_task, tasks_of
from sim_harness.compare.matrix.settings import Cell
from sim_harness.compare.results import Results, Runs
from sim_harness.compare.settings import ComparisonSettings, runs_of
from sim_harness.compare.study import Progress
from sim_harness.compare.timing import Timings, run_timing, timed, timing_tasks


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """seeds, seconds: instead of those of comparisons and experiments; jobs: at once; executor: a row of `EXECUTORS`
    keep_logs: write an MCAP of every run of a scene, none of a matrix
    """

    seeds: int | None = None
    seconds: float | None = None
    jobs: int = 1
    executor: str = "processes"
    keep_logs: bool = True


Tasks = dict[tuple[str, ...], list[Task]]
"""By the same keys as `Results`."""


def all_tasks(comparison: ComparisonSettings, root: Path, options: Options) -> Tasks:
    """All runs of a comparison. Raises ConfigError before anything runs."""
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
    """The results of each comparison. A job is run once for all comparisons, and not if its result is in `root`.

    Raises JobFailed.
    """
    wanted = [all_tasks(comparison, root, options) for comparison in comparisons]
    each = {task.folder: task for tasks in wanted for same in tasks.values() for task in same}
    run_jobs([*each.values()], run_task, finished, (options.executor, options.jobs), progress)
    return [{place: _runs(same) for place, same in tasks.items()} for tasks in wanted]


def run_timings(comparison: ComparisonSettings, root: Path, progress: Progress) -> Timings | None:
    """Run times, one controller after the other in a process of its own; None for a comparison without [timing]."""
    if comparison.timing is None:
        return None
    tasks = timing_tasks(comparison.timing, root)
    run_jobs(tasks, run_timing, timed, ("processes", 1), progress)
    return Timings(controllers={task.controller: found.times for task in tasks if (found := timed(task)) is not None})


def _runs(tasks: Sequence[Task]) -> Runs:
    results = [finished(task) for task in tasks]
    for task, result in zip(tasks, results, strict=True):
        if result is None:
            raise JobFailed(f"{task.folder}: no result")
    return Runs(folders=[task.folder for task in tasks], summaries=[result.summary for result in results if result is not None])
