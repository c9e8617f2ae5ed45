"""From comparisons to results: every job that is not done yet, each once, however many tables ask for it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from idyn.errors import ConfigError, IdynError
from sim_harness.compare.executors import run_tasks
from sim_harness.compare.jobs import Keep, Task, finished, run_task, tasks_of
from sim_harness.compare.matrix.settings import cells
from sim_harness.compare.results import Results, Runs
from sim_harness.compare.settings import ComparisonSettings, controllers_of, plan_of, plan_of_cell
from sim_harness.compare.timing import Timings, run_timing, timed, timing_tasks


class JobFailed(IdynError):
    """A job ended with an exception, or without a result."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """seeds: instead of the comparisons' own number; seconds: instead of the experiments' durations; jobs: at once;
    executor: a row of `EXECUTORS`; keep_logs: write an MCAP of every run of a scene: those of a matrix are too many."""

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
    keep: Keep = "log" if options.keep_logs else "trace"
    for scene in comparison.scene:
        for controller in controllers_of(comparison, scene):
            plan = plan_of(comparison, scene, controller, options.seconds)
            seeds = range(options.seeds or comparison.seeds)
            tasks[scene.name, controller] = tasks_of(plan, controller, seeds, root, keep)
    if comparison.matrix is not None:
        own = {part.name: part.seeds or comparison.seeds for part in comparison.matrix.part}
        for cell in cells(comparison.matrix):
            plan = plan_of_cell(comparison, cell, options.seconds)
            tasks[cell] = tasks_of(plan, cell.law, range(options.seeds or own[cell.part]), root, "fall")
    return tasks


def run_comparisons(
    comparisons: Sequence[ComparisonSettings], root: Path, options: Options, progress: Callable[[int, int, str], None]
) -> list[Results]:
    """The results of each comparison. Jobs that have a result in `root` are not run again.

    progress: called with how many jobs are done, how many there are, and the name of the last one
    Raises JobFailed after all others are done, naming the first that failed.
    """
    wanted = [all_tasks(comparison, root, options) for comparison in comparisons]
    each = {task.folder: task for tasks in wanted for same in tasks.values() for task in same}
    _do(list(each.values()), options, progress)
    return [{place: _runs(same) for place, same in tasks.items()} for tasks in wanted]


def run_timings(comparison: ComparisonSettings, root: Path, progress: Callable[[int, int, str], None]) -> Timings | None:
    """Run times, one controller after the other and nothing else beside; None for a comparison without."""
    if comparison.timing is None:
        return None
    tasks = timing_tasks(comparison.timing, root)
    rest = [task for task in tasks if timed(task) is None]
    for done, (index, error) in enumerate(run_tasks("processes", run_timing, [(task,) for task in rest], 1), 1):
        if error is not None:
            raise JobFailed(f"{rest[index].folder.name}: {error}")
        progress(done, len(rest), rest[index].folder.name)
    times = {task.controller: timed(task) for task in tasks}
    return Timings(controllers={name: found.times for name, found in times.items() if found is not None})


def _do(tasks: Sequence[Task], options: Options, progress: Callable[[int, int, str], None]) -> None:
    """Run what has no result yet."""
    rest = [task for task in tasks if finished(task) is None]
    done, failures = len(tasks) - len(rest), []
    progress(done, len(tasks), "")
    for index, error in run_tasks(options.executor, run_task, [(task,) for task in rest], options.jobs):
        done += 1
        name = rest[index].folder.name
        if error is not None:
            failures.append(f"{name}: {error}")
        progress(done, len(tasks), name)
    if failures:
        raise JobFailed(f"{len(failures)} of {len(tasks)} jobs failed, first {failures[0]}")


def _runs(tasks: Sequence[Task]) -> Runs:
    results = [finished(task) for task in tasks]
    missing = [task.folder for task, result in zip(tasks, results, strict=True) if result is None]
    if missing:
        raise JobFailed(f"{missing[0]}: no result")
    return Runs(folders=[task.folder for task in tasks], summaries=[result.summary for result in results if result is not None])
