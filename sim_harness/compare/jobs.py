"""One run as a job: everything it depends on in one digest, everything it leaves in one folder.

A job's folder carries its digest in its name and appears at one go, when everything is in it: what was interrupted has none,
and is done again.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

import controllers
import idyn
import sim_harness
import transport
from controllers.build import build_controller
from sim_harness.measure.metrics import Summary
from sim_harness.measure.trace import Trace
from sim_harness.run.experiment import TRACE, run_in_process
from sim_harness.run.plan import Plan

RESULT, LOG = "result.json", "log.mcap"


Keep = Literal["log", "trace", "fall"]
"""What a job leaves besides its result: its trace, and with it an MCAP of every byte; its trace; that of a fall only."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, complete with its controller's settings, from the state that `seed` gives. controller: a name for people."""

    controller: str
    plan: Plan
    seed: int


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A job with its digest and the folder for what it leaves. keep: besides the result."""

    job: Job
    digest: str
    folder: Path
    keep: Keep


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What `result.json` holds."""

    digest: str
    controller: str
    seed: int
    summary: Summary


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Of all sources that a run goes through: not the command line, and not what only looks at results."""
    digest = hashlib.sha256()
    for package in (idyn, controllers, transport, sim_harness):
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*.py")):
            inside = path.relative_to(root).parts
            if inside[0] not in ("commands", "compare", "view") and path.name not in (
                "plots.py",
                "report.py",
                "demo.py",
                "bench.py",
            ):
                digest.update(path.read_bytes())
    return digest.hexdigest()


def tasks_of(plan: Plan, controller: str, seeds: Iterable[int], root: Path, keep: Keep) -> list[Task]:
    """The plan from the state of each seed, each with its own folder below `root`."""
    snapshot = build_controller(plan.controller).snapshot()
    tasks = []
    for seed in seeds:
        digest = _digest(plan, snapshot, seed)
        folder = root / f"{Path(plan.controller.robot).stem}-{controller}-seed{seed}-{digest[:12]}"
        job = Job(controller=controller, plan=plan, seed=seed)
        tasks.append(Task(job=job, digest=digest, folder=folder, keep=keep))
    return tasks


def _digest(plan: Plan, snapshot: dict[str, Any], seed: int) -> str:
    """Of settings, robot, seed and code: whatever changes one of them makes another job of it."""
    data = {
        "experiment": msgspec.to_builtins(plan.settings),
        "server": msgspec.to_builtins(plan.server),
        "controller": snapshot,
        "seed": seed,
        "code": code_digest(),
    }
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def finished(task: Task) -> Result | None:
    """The result of a task, if it is there, whole, and of this digest."""
    try:
        data = json.loads((task.folder / RESULT).read_text(encoding="utf-8"))
        result = msgspec.convert(data, Result)
    except (OSError, ValueError):
        return None
    return result if result.digest == task.digest else None


def run_task(task: Task) -> None:
    """Run the job and leave trace, log and result in its folder, instead of whatever was there.

    All is written into a folder of this process alone, which is renamed at the end: a process whose parent was killed may still
    be at the same job.
    """
    job, folder = task.job, task.folder.with_name(f"{task.folder.name}.{os.getpid()}.part")
    for old in folder.parent.glob(f"{task.folder.name}.*.part"):
        shutil.rmtree(old, ignore_errors=True)
    folder.mkdir(parents=True)
    log = folder / LOG if task.keep == "log" else None
    run = run_in_process(job.plan, job.controller, lambda *_: None, seed=job.seed, log=log)
    if task.keep != "fall" or not run.summary.upright:
        run.save(folder)
    write_result(folder, Result(digest=task.digest, controller=job.controller, seed=job.seed, summary=run.summary))
    shutil.rmtree(task.folder, ignore_errors=True)
    folder.rename(task.folder)


def write_result(folder: Path, result: msgspec.Struct) -> None:
    """At one go: whoever sees the file sees all of it. Numbers that are none are written NaN and Infinity."""
    part = folder / f"{RESULT}.part"
    with part.open("w", encoding="utf-8") as file:
        json.dump(msgspec.to_builtins(result), file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, folder / RESULT)


def load_trace(folder: Path) -> Trace:
    """The trace of a finished job."""
    return Trace.load_npz(folder / TRACE)
