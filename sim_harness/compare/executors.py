"""Executors of jobs: processes of this machine, or a library that distributes them.

Jobs share only code and files, and compute with one BLAS thread. Results therefore depend neither on the order of the jobs nor
on how many run in parallel. `processes` and `ray` start a process for each job; `joblib` and `dask` reuse their workers.

`dask` and `ray` use the cluster at DASK_SCHEDULER_ADDRESS or RAY_ADDRESS, which decides how many jobs run in parallel. Without
these variables they use this machine, as `joblib` always does. The machines of a cluster need this package, the folder of the
results under the same path, and OPENBLAS_NUM_THREADS=1, OMP_NUM_THREADS=1 in the environment of their workers.
"""

import importlib
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from idyn.errors import ConfigError, nearest

Task = tuple[Any, ...]
Outcome = tuple[int, str | None]
"""(index of a finished task, its error or None for success)."""

Executor = Callable[[Callable[..., None], Sequence[Task], int], Iterator[Outcome]]
"""Function (function, tasks, jobs) that calls `function` with the arguments of each task, `jobs` tasks in parallel.

It yields outcomes in the order in which tasks end.
"""


def _processes(function: Callable[..., None], tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    """Run each task in a process of its own.

    The pool of the standard library, with one process for each task, can hang (Python 3.11).
    """
    context = multiprocessing.get_context("spawn")
    running: dict[Any, tuple[int, Any, Connection]] = {}
    rest = iter(enumerate(tasks))
    try:
        while True:
            while len(running) < jobs and (following := next(rest, None)) is not None:
                index, task = following
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_send_outcome, args=(sender, function, index, task), daemon=True)
                process.start()
                sender.close()
                running[process.sentinel] = index, process, receiver
            if not running:
                return
            for sentinel in wait(list(running)):
                index, process, receiver = running.pop(sentinel)
                process.join()
                with receiver:
                    try:
                        yield receiver.recv()
                    except EOFError:
                        yield index, f"its process ended with exit code {process.exitcode}"
    finally:
        for _, process, receiver in running.values():
            process.terminate()
            process.join()
            receiver.close()


def _send_outcome(sender: Connection, function: Callable[..., None], index: int, task: Task) -> None:
    sender.send(_guarded(function, index, task))


def _joblib(function: Callable[..., None], tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    joblib = _library("joblib")
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    yield from parallel(joblib.delayed(_guarded)(function, i, task) for i, task in enumerate(tasks))


def _dask(function: Callable[..., None], tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    distributed = _library("dask.distributed")
    sizes = {} if "DASK_SCHEDULER_ADDRESS" in os.environ else {"n_workers": jobs, "threads_per_worker": 1}
    with distributed.Client(**sizes) as client:
        futures = [client.submit(_guarded, function, i, task, pure=False) for i, task in enumerate(tasks)]
        for _, outcome in distributed.as_completed(futures, with_results=True):
            yield outcome


def _ray(function: Callable[..., None], tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    ray = _library("ray")
    ray.init(**({} if "RAY_ADDRESS" in os.environ else {"address": "local", "num_cpus": jobs}))
    try:
        guarded = ray.remote(max_calls=1)(_guarded)
        waiting = [guarded.remote(function, i, task) for i, task in enumerate(tasks)]
        while waiting:
            (done, *_), waiting = ray.wait(waiting)
            yield ray.get(done)
    finally:
        ray.shutdown()


EXECUTORS: dict[str, Executor] = {"processes": _processes, "joblib": _joblib, "dask": _dask, "ray": _ray}


def run_tasks(executor: str, function: Callable[..., None], tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    """Run tasks and yield their outcomes, `jobs` in parallel. Raises ConfigError for an unknown or missing executor."""
    if executor not in EXECUTORS:
        raise ConfigError("executor", f"unknown name '{executor}'{nearest(executor, EXECUTORS)}")
    if jobs < 1:
        raise ConfigError("jobs", f"expected ≥ 1, got {jobs}")
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = "1"  # the processes inherit it
    return EXECUTORS[executor](function, tasks, jobs)


def _guarded(function: Callable[..., None], index: int, task: Task) -> Outcome:
    try:
        function(*task)
    except Exception as error:  # any error of a task is its outcome
        return index, f"{type(error).__name__}: {error}"
    return index, None


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ConfigError("executor", f"the package '{package}' is not installed: pip install {package}") from error
