"""Jobs: each has a digest of everything that it depends on, and one folder with all its results, whose name has the digest.

The folder is renamed when it is complete: an interrupted job has no folder and runs again.
"""

import hashlib
import json
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

import controllers
import idyn
import sim_harness
import transport
from controllers.build import build_controller
from idyn.errors import IdynError
from sim_harness.compare.executors import run_tasks
from sim_harness.measure.metrics import Summary
from sim_harness.run.experiment import run_in_process, run_served
from sim_harness.run.plan import Plan

RESULT, LOG = "result.json", "log.mcap"

NOT_RUN = ("commands", "compare", "demo.py", "doctor.py", "report", "studies", "view")
"""Parts of `sim_harness` that only start runs or evaluate results: they do not enter the digest."""

SCENES = ("studies", "scenes")  # the part of the studies that does, in a checkout

Keep = Literal["log", "trace", "fall"]
"""What a run saves besides its result: "log": trace and MCAP log; "trace": the trace; "fall": the trace if the robot fell."""


class JobFailed(IdynError):
    """A job ended with an exception or without a result."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A unit of work. folder: of its results"""

    digest: str
    folder: Path


class Task(Job, frozen=True, kw_only=True):
    """A run of a plan."""

    controller: str  # label of the controller
    plan: Plan  # with the settings of that controller
    seed: int  # of the first state
    keep: Keep  # what is saved
    served: bool = False  # whether by a server process, in real time; otherwise in process and in lock-step


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of a run's `result.json`."""

    digest: str
    controller: str
    seed: int
    summary: Summary


Progress = Callable[[int, int, str], None]
"""Called with (number of finished items, number of all items, name of the next or last item)."""

R = TypeVar("R", bound=Any)
J = TypeVar("J", bound=Job)


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Return the SHA-256 digest of all sources that a run executes."""
    digest = hashlib.sha256()
    for package in (idyn, controllers, transport, sim_harness):
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).parts
            if parts[0] not in NOT_RUN or parts[:2] == SCENES:
                digest.update(path.read_bytes())
    return digest.hexdigest()


def digest_of(data: Any) -> str:
    """Return the SHA-256 digest of `data` (builtins only) and of the code."""
    return hashlib.sha256(json.dumps([data, code_digest()], sort_keys=True).encode()).hexdigest()


def tasks_of(plan: Plan, controller: str, seeds: Iterable[int], root: Path, keep: Keep, *, served: bool = False) -> list[Task]:
    """Return one task for each seed, each with a folder of its own below `root`."""
    settings = [msgspec.to_builtins(plan.settings), msgspec.to_builtins(plan.server), served]
    settings.append(build_controller(plan.controller).snapshot())
    label, tasks = f"{Path(plan.controller.robot).stem}-{controller}".replace("/", "-"), []
    for seed in seeds:
        digest = digest_of([*settings, seed])
        folder = root / f"{label}-seed{seed}-{digest[:12]}"
        tasks.append(Task(digest=digest, folder=folder, controller=controller, plan=plan, seed=seed, keep=keep, served=served))
    return tasks


def run_task(task: Task) -> None:
    """Run a task; write trace, log and result to its folder."""
    with atomic_folder(task.folder) as folder:
        log = folder / LOG if task.keep == "log" else None
        if task.served:  # joblib's workers have a start method that the server's process does not know
            multiprocessing.set_start_method("spawn", force=True)
        run = (run_served if task.served else run_in_process)(
            task.plan, task.controller, lambda *_: None, seed=task.seed, log=log
        )
        if task.keep != "fall" or not run.summary.upright:
            run.save(folder)
        write_result(folder, Result(digest=task.digest, controller=task.controller, seed=task.seed, summary=run.summary))


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder to write to; rename it to `folder` at the end.

    Its name contains the process id: a process whose parent was killed may still be running the same job.
    """
    part = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    for old in folder.parent.glob(f"{folder.name}.*.part"):
        shutil.rmtree(old, ignore_errors=True)
    part.mkdir(parents=True)
    yield part
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


def write_result(folder: Path, result: msgspec.Struct) -> None:
    """Write `result.json`. NaN and infinity are written as `NaN` and `Infinity`."""
    (folder / RESULT).write_text(json.dumps(msgspec.to_builtins(result), indent=1), encoding="utf-8")


def result_of(job: Job, kind: type[R]) -> R | None:
    """Return the result of a job; None if it is missing or malformed, or if its digest differs from the job's."""
    try:
        result = msgspec.convert(json.loads((job.folder / RESULT).read_text(encoding="utf-8")), kind)
    except (OSError, ValueError):
        return None
    return result if result.digest == job.digest else None


def finished(task: Task) -> Result | None:
    """Return the result of a task, None if it has not run."""
    return result_of(task, Result)


def run_jobs(
    jobs: Sequence[J], run: Callable[[J], None], done: Callable[[J], Any], how: tuple[str, int], progress: Progress
) -> None:
    """Run the jobs that have no result yet.

    run: runs a job; done: returns its result, or a false value; how: executor, and number of parallel jobs
    Raises JobFailed after all other jobs have ended, naming the first that failed.
    """
    rest = [job for job in jobs if not done(job)]
    count, failures = len(jobs) - len(rest), []
    progress(count, len(jobs), "")
    for index, error in run_tasks(how[0], run, [(job,) for job in rest], how[1]):
        name = rest[index].folder.name
        if error is not None:
            failures.append(f"{name}: {error}")
        count += 1
        progress(count, len(jobs), name)
    if failures:
        raise JobFailed(f"{len(failures)} of {len(jobs)} jobs failed, first {failures[0]}")
