"""Executors of jobs: processes of this machine, or a library that distributes them.

Jobs share only code and files, and compute with one BLAS thread, so that results depend neither on their order nor on how many
run at once. `processes` and `ray` start a process for each job; `joblib` and `dask` reuse theirs.

`dask` and `ray` use the cluster at DASK_SCHEDULER_ADDRESS or RAY_ADDRESS, with as many jobs at once as it takes; without one,
and `joblib` always, this machine. The machines of a cluster need this package, the folder of the results under the same path,
and OPENBLAS_NUM_THREADS=1, OMP_NUM_THREADS=1 in the environment of their workers.
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
"""Index of a task that ended, and its error."""

Executor = Callable[[Callable[..., None], Sequence[Task], int], Iterator[Outcome]]
"""Calls a function with the arguments of each task, a number of them at once; yields outcomes as tasks end."""


def _processes(function: Callable[..., None], tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    """The standard library's pool with one process for each task can hang (Python 3.11)."""
    context = multiprocessing.get_context("spawn")
    running: dict[Any, tuple[int, Any, Connection]] = {}
    rest = iter(enumerate(tasks))
    try:
        while True:
            while len(running) < jobs and (following := next(rest, None)) is not None:
                index, task = following
                news, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_tell, args=(theirs, function, index, task), daemon=True)
                process.start()
                theirs.close()
                running[process.sentinel] = index, process, news
            if not running:
                return
            for sentinel in wait(list(running)):
                index, process, news = running.pop(sentinel)
                process.join()
                with news:
                    try:
                        yield news.recv()
                    except EOFError:
                        yield index, f"its process ended with exit code {process.exitcode}"
    finally:
        for _, process, news in running.values():
            process.terminate()
            process.join()
            news.close()


def _tell(news: Connection, function: Callable[..., None], index: int, task: Task) -> None:
    news.send(_guarded(function, index, task))


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
    """Outcomes of all tasks. Raises ConfigError for an executor that does not exist or is not installed."""
    if executor not in EXECUTORS:
        raise ConfigError("executor", f"there is no '{executor}'{nearest(executor, EXECUTORS)}")
    if jobs < 1:
        raise ConfigError("jobs", f"expected ≥ 1, got {jobs}")
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = "1"  # inherited by the processes
    return EXECUTORS[executor](function, tasks, jobs)


def _guarded(function: Callable[..., None], index: int, task: Task) -> Outcome:
    try:
        function(*task)
    except Exception as error:  # it is the outcome
        return index, f"{type(error).__name__}: {error}"
    return index, None


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ConfigError("executor", f"'{package}' is not installed here: pip install {package}") from error
