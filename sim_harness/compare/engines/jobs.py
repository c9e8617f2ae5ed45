"""Every engine on every scene that it claims: one job each, everything it leaves in one folder.

A job's folder carries the digest of all it depends on in its name and appears at one go: what was interrupted has none, and is
done again; what is done is not.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from controllers.config.loading import files
from idyn.errors import ConfigError
from sim_harness.compare.executors import run_tasks
from sim_harness.compare.jobs import code_digest
from sim_harness.compare.run import JobFailed
from sim_harness.scenes.bodies.settings import SceneSettings, is_scene
from sim_harness.scenes.load import engine_named, engines_of, load_scene
from sim_harness.scenes.results.keep import FIGURES, Kept, keep, read
from sim_harness.scenes.results.measures import outcome_of
from sim_harness.scenes.results.recording import Burst, run_scene

ENGINES = "engines"
"""The word for all shipped scenes."""

FAULT = "fault.txt"


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A scene with one of the engines that claim it, and the folder for what it leaves."""

    scene: str
    settings: SceneSettings
    engine: str
    folder: Path


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a job: the run, or in a sentence why there is none."""

    job: Job
    kept: Kept | None
    fault: str = ""


def scene_names(words: Sequence[str]) -> list[str]:
    """The scenes that are named, or all that are shipped."""
    if list(words) == [ENGINES]:
        return [name for name in sorted(files("experiments")) if is_scene(name)]
    return list(words)


def jobs_of(words: Sequence[str], root: Path, seconds: float | None) -> list[Job]:
    """Every engine on every scene that it claims. Raises ConfigError before anything runs."""
    found = []
    for name in scene_names(words):
        if not is_scene(name):
            raise ConfigError(name, f"expected scenes only, or '{ENGINES}'")
        settings = load_scene(name, seconds)
        for engine in engines_of(settings):
            data = {"scene": msgspec.to_builtins(settings), "engine": engine, "code": code_digest()}
            digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:12]
            folder = root / f"{Path(name).stem}-{engine}-{digest}"
            found.append(Job(scene=Path(name).stem, settings=settings, engine=engine, folder=folder))
    return found


def run_job(job: Job) -> None:
    """Run it and leave everything in its folder, which appears when all is in it."""
    part = job.folder.with_name(f"{job.folder.name}.{os.getpid()}.part")
    for old in part.parent.glob(f"{job.folder.name}.*.part"):
        shutil.rmtree(old, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        run = run_scene(job.settings, engine_named(job.settings, job.engine))
        keep(part, job.settings, run, outcome_of(job.scene, job.engine, job.settings, run))
    except Burst as burst:
        (part / FAULT).write_text(str(burst), encoding="utf-8")
    part.rename(job.folder)


def run_jobs(jobs: Sequence[Job], executor: str, count: int, progress: Callable[[int, int, str], None]) -> list[Cell]:
    """All jobs, those that are not done yet run `count` at once.

    progress: called with how many are done, how many there are, and the name of the last one
    Raises JobFailed after all others are done, naming the first that failed.
    """
    rest = [job for job in jobs if not job.folder.is_dir()]
    done, failures = len(jobs) - len(rest), []
    progress(done, len(jobs), "")
    for index, error in run_tasks(executor, run_job, [(job,) for job in rest], count):
        done += 1
        if error is not None:
            failures.append(f"{rest[index].folder.name}: {error}")
        progress(done, len(jobs), f"{rest[index].scene}, {rest[index].engine}")
    if failures:
        raise JobFailed(f"{len(failures)} of {len(jobs)} jobs failed, first {failures[0]}")
    return [_cell(job) for job in jobs]


def _cell(job: Job) -> Cell:
    if (job.folder / FIGURES).is_file():
        return Cell(job=job, kept=read(job.folder))
    return Cell(job=job, kept=None, fault=(job.folder / FAULT).read_text(encoding="utf-8"))
