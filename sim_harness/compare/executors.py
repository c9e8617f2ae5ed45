"""Executors of jobs: joblib with processes of this machine, Dask or Ray. Their libraries are loaded when they run.

Jobs share only code and files, and compute with one BLAS thread: results depend neither on order nor on parallelism.
`dask` and `ray` use the cluster at DASK_SCHEDULER_ADDRESS or RAY_ADDRESS if set, whose workers need this package, the folder of
the results under the same path, and OPENBLAS_NUM_THREADS=1, OMP_NUM_THREADS=1.
"""

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from idyn.errors import ConfigError, install_command, nearest

Task = tuple[Any, ...]
Outcome = tuple[int, str | None]  # (index of a finished task, its error or None for success)


How = dict[str, Any]  # arguments of `joblib.Parallel`

AS_THEY_END = {"return_as": "generator_unordered", "batch_size": 1}

UNDER_WAY = 2  # tasks of each worker that joblib has dispatched at a time, the first of those that are left
ROUNDS = 4  # tasks of each worker between two looks at the outcomes, where an executor does not give them as tasks end


@contextmanager
def _processes(jobs: int) -> Iterator[How]:
    # one job alone joblib would run in this process, whose BLAS threads are not bounded
    how = {"n_jobs": 2, "pre_dispatch": 1} if jobs == 1 else {"n_jobs": jobs}
    with _library("joblib").parallel_config("loky", inner_max_num_threads=1):
        yield how | AS_THEY_END


@contextmanager
def _dask(jobs: int) -> Iterator[How]:
    distributed = _library("dask.distributed")
    sizes = {} if "DASK_SCHEDULER_ADDRESS" in os.environ else {"n_workers": jobs, "threads_per_worker": 1}
    with distributed.Client(**sizes), _library("joblib").parallel_config("dask"):
        yield {"n_jobs": -1} | AS_THEY_END


@contextmanager
def _ray(jobs: int) -> Iterator[How]:
    ray = _library("ray")
    _library("ray.util.joblib").register_ray()
    ray.init(**({} if "RAY_ADDRESS" in os.environ else {"address": "local", "num_cpus": jobs}))
    try:
        with _library("joblib").parallel_config("ray"):
            yield {"n_jobs": int(ray.cluster_resources()["CPU"]), "batch_size": 1}
    finally:
        ray.shutdown()


EXECUTORS: dict[str, Callable[[int], AbstractContextManager[How]]] = {"processes": _processes, "dask": _dask, "ray": _ray}
"""Name → context in which joblib uses an executor, given the number of parallel jobs."""


def run_tasks(executor: str, function: Callable[..., None], tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    """Call `function` with the arguments of each task, `jobs` in parallel, and yield outcomes in the order in which tasks end.

    Raises ConfigError for an unknown or missing executor.
    """
    if executor not in EXECUTORS:
        raise ConfigError("executor", f"unknown name '{executor}'{nearest(executor, EXECUTORS)}")
    if jobs < 1:
        raise ConfigError("jobs", f"expected ≥ 1, got {jobs}")
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = "1"  # the processes inherit it
    return _outcomes(executor, function, dict(enumerate(tasks)), jobs)


def _outcomes(executor: str, function: Callable[..., None], rest: dict[int, Task], jobs: int) -> Iterator[Outcome]:
    """Run tasks. When a process dies, joblib drops all that is under way: these run again, one task at a time."""
    joblib, loky = _library("joblib"), _library("joblib.externals.loky.process_executor")
    with EXECUTORS[executor](jobs) as how:
        size, alone = len(rest) if "return_as" in how else ROUNDS * how["n_jobs"], 0
        while rest:
            part = list(rest.items())[: 1 if alone else size]
            alone = max(alone - 1, 0)
            try:
                for outcome in joblib.Parallel(**how)(joblib.delayed(_guarded)(function, i, task) for i, task in part):
                    del rest[outcome[0]]
                    yield outcome
            except loky.TerminatedWorkerError as error:
                if len(part) == 1:
                    del rest[part[0][0]]
                    yield part[0][0], f"its process ended: {error}"
                else:
                    alone = UNDER_WAY * how["n_jobs"]


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
        raise ConfigError("executor", f"the package '{package}' is not installed: {install_command(package)}") from error
