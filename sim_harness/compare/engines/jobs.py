"""Every engine on every scene that it claims: one job each."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from controllers.config.loading import files
from idyn.errors import ConfigError
from sim_harness.compare import jobs
from sim_harness.compare.study import Progress
from sim_harness.scenes.bodies.settings import SceneSettings, is_scene
from sim_harness.scenes.load import engine_named, engines_of, load_scene
from sim_harness.scenes.results.keep import FIGURES, Kept, keep, read
from sim_harness.scenes.results.measures import outcome_of
from sim_harness.scenes.results.recording import Burst, run_scene

ENGINES = "engines"
"""The word for all shipped scenes."""

FAULT = "fault.txt"


class Job(jobs.Job, frozen=True, kw_only=True):
    """A scene with one of the engines that claim it."""

    scene: str
    settings: SceneSettings
    engine: str


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """The run of a job, or why there is none."""

    job: Job
    kept: Kept | None
    fault: str = ""


def scene_names(words: Sequence[str]) -> list[str]:
    """The named scenes, or all shipped ones."""
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
            digest = jobs.digest_of([msgspec.to_builtins(settings), engine])
            scene = Path(name).stem
            folder = root / f"{scene}-{engine}-{digest[:12]}"
            found.append(Job(digest=digest, folder=folder, scene=scene, settings=settings, engine=engine))
    return found


def run_job(job: Job) -> None:
    """Run it and leave everything in its folder."""
    with jobs.complete(job.folder) as folder:
        try:
            run = run_scene(job.settings, engine_named(job.settings, job.engine))
            keep(folder, job.settings, run, outcome_of(job.scene, job.engine, job.settings, run))
        except Burst as burst:
            (folder / FAULT).write_text(str(burst), encoding="utf-8")


def run_jobs(wanted: Sequence[Job], executor: str, count: int, progress: Progress) -> list[Cell]:
    """All jobs, `count` at once. Raises JobFailed."""
    jobs.run_jobs(wanted, run_job, lambda job: job.folder.is_dir(), (executor, count), progress)
    return [_cell(job) for job in wanted]


def _cell(job: Job) -> Cell:
    if (job.folder / FIGURES).is_file():
        return Cell(job=job, kept=read(job.folder))
    return Cell(job=job, kept=None, fault=(job.folder / FAULT).read_text(encoding="utf-8"))
