"""Executors of jobs: processes of this machine, or a library that distributes them.

Jobs share only code and files, and compute with one BLAS thread. Results therefore depend neither on the order of the jobs nor
on how many run in parallel. `ray` starts a process for each job; the others reuse their processes.

`dask` and `ray` use the cluster at DASK_SCHEDULER_ADDRESS or RAY_ADDRESS, which decides how many jobs run in parallel. Without
these variables they use this machine, as `joblib` always does. The machines of a cluster need this package, the folder of the
results under the same path, and OPENBLAS_NUM_THREADS=1, OMP_NUM_THREADS=1 in the environment of their workers.
"""

import importlib
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from idyn.errors import ConfigError, nearest
from idyn.extras import install_command

Task = tuple[Any, ...]
Outcome = tuple[int, str | None]
"""(index of a finished task, its error or None for success)."""

Executor = Callable[[Callable[..., None], Sequence[Task], int], Iterator[Outcome]]
"""Function (function, tasks, jobs) that calls `function` with the arguments of each task, `jobs` tasks in parallel.

It yields outcomes in the order in which tasks end.
"""


class _Worker:
    """A process that runs one task after the other.

    The pool of the standard library can hang when one of its processes dies (Python 3.11).
    """

    def __init__(self, function: Callable[..., None]):
        context = multiprocessing.get_context("spawn")
        self.index = -1  # of the task that it runs
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_run_received, args=(other, function), daemon=True)
        self.process.start()
        other.close()

    def start(self, index: int, task: Task) -> None:
        self.index = index
        self.connection.send((index, task))

    def outcome(self) -> Outcome:
        """Return the outcome of the task: an error if the process has died."""
        try:
            return self.connection.recv()
        except EOFError:
            self.process.join()
            return self.index, f"its process ended with exit code {self.process.exitcode}"

    def end(self) -> None:
        self.process.terminate()
        self.process.join()
        self.connection.close()


def _processes(function: Callable[..., None], tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    rest = iter(enumerate(tasks))
    busy: dict[Any, _Worker] = {}
    idle: list[_Worker] = []
    try:
        while True:
            while len(busy) < jobs and (following := next(rest, None)) is not None:
                worker = idle.pop() if idle else _Worker(function)
                busy[worker.connection] = worker
                worker.start(*following)
            if not busy:
                return
            for connection in wait(list(busy)):
                outcome = busy[connection].outcome()
                worker = busy.pop(connection)
                if worker.process.is_alive():
                    idle.append(worker)
                else:
                    worker.end()
                yield outcome
    finally:
        for worker in (*busy.values(), *idle):
            worker.end()


def _run_received(connection: Connection, function: Callable[..., None]) -> None:
    with suppress(EOFError, BrokenPipeError, KeyboardInterrupt):  # the parent has ended
        while True:
            index, task = connection.recv()
            connection.send(_guarded(function, index, task))


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
        how = f"pip install {package}" if package == "joblib" else install_command(package)
        raise ConfigError("executor", f"the package '{package}' is not installed: {how}") from error
