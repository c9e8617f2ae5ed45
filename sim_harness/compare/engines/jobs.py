"""Jobs of the comparison of engines: one for each scene and each engine that the scene lists."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from controllers.config.loading import files
from idyn.errors import ConfigError
from sim_harness.compare import jobs
from sim_harness.compare.study import Progress
from sim_harness.scenes.bodies.settings import SceneSettings, is_scene
from sim_harness.scenes.load import engine_named, engines_of, load_scene
from sim_harness.scenes.results.keep import FIGURES, SavedRun, read, save_run
from sim_harness.scenes.results.measures import outcome_of
from sim_harness.scenes.results.recording import Diverged, run_scene

ENGINES = "engines"
"""Word of the command line for all shipped scenes."""

FAULT = "fault.txt"
"""File with the error of a run that diverged."""


class Job(jobs.Job, frozen=True, kw_only=True):
    """A scene with one of the engines that it lists."""

    scene: str
    settings: SceneSettings
    engine: str


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A job with its result. kept: the saved run, None when it diverged; fault: the error of a run that diverged, else ''"""

    job: Job
    kept: SavedRun | None
    fault: str = ""


def scene_names(words: Sequence[str]) -> list[str]:
    """Return the named scenes, or all shipped ones for `ENGINES`."""
    if list(words) == [ENGINES]:
        return [name for name in sorted(files("experiments")) if is_scene(name)]
    return list(words)


def jobs_of(words: Sequence[str], root: Path, seconds: float | None) -> list[Job]:
    """Return a job for every scene and every engine that the scene lists. Raises ConfigError."""
    found = []
    for name in scene_names(words):
        if not is_scene(name):
            raise ConfigError(name, f"expected names of scenes, or '{ENGINES}' alone")
        settings = load_scene(name, seconds)
        for engine in engines_of(settings):
            digest = jobs.digest_of([msgspec.to_builtins(settings), engine])
            scene = Path(name).stem
            folder = root / f"{scene}-{engine}-{digest[:12]}"
            found.append(Job(digest=digest, folder=folder, scene=scene, settings=settings, engine=engine))
    return found


def run_job(job: Job) -> None:
    """Run a job and write its results, or its error, to its folder."""
    with jobs.atomic_folder(job.folder) as folder:
        try:
            run = run_scene(job.settings, engine_named(job.settings, job.engine))
            save_run(folder, job.settings, run, outcome_of(job.scene, job.engine, job.settings, run))
        except Diverged as error:
            (folder / FAULT).write_text(str(error), encoding="utf-8")


def run_jobs(wanted: Sequence[Job], executor: str, count: int, progress: Progress) -> list[Cell]:
    """Run all jobs, `count` in parallel, and return their results. Raises JobFailed."""
    jobs.run_jobs(wanted, run_job, lambda job: job.folder.is_dir(), (executor, count), progress)
    return [_cell(job) for job in wanted]


def _cell(job: Job) -> Cell:
    if (job.folder / FIGURES).is_file():
        return Cell(job=job, kept=read(job.folder))
    return Cell(job=job, kept=None, fault=(job.folder / FAULT).read_text(encoding="utf-8"))
