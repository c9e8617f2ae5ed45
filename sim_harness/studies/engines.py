"""The report of the comparison of engines: a table, its picture, and pictures and a 3D view of each scene."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from controllers.config.loading import files
from idyn.errors import ConfigError
from sim_harness.compare import jobs
from sim_harness.compare.jobs import Progress
from sim_harness.compare.studies import ENGINES, is_scene
from sim_harness.report.plots import STYLE, Figure, ListedColormap, cells, mpl, plt, png
from sim_harness.report.report import Report
from sim_harness.report.tables import Table
from sim_harness.studies.scenes.load import engine_named, engines_of, load_scene
from sim_harness.studies.scenes.measures import (
    FIGURES,
    Measured,
    Outcome,
    SavedRun,
    figures_table,
    outcome_of,
    read,
    save_run,
    steps_table,
)
from sim_harness.studies.scenes.page import scene_page
from sim_harness.studies.scenes.recording import NAMES, Diverged, run_scene
from sim_harness.studies.scenes.scene_settings import SceneSettings

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
    return [name for name in sorted(files("experiments")) if is_scene(name)] if list(words) == [ENGINES] else list(words)


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


COLOURS = ("#c8e6c9", "#fff3c4", "#ffcdd2")
"""Colours of cells: within tolerance, with unsolved steps, failed."""


def engines_table(found: Sequence[Cell]) -> Table:
    """Return a table with a row for every figure of each engine on each scene; the first row has residuals and speed."""
    head, body = ["scene", "engine", "figure"], list[list[str]]()
    for cell in found:
        if cell.kept is None:
            body.append([cell.job.scene, cell.job.engine, cell.fault])
            continue
        (names, *figures), (speeds, steps) = figures_table(cell.kept.outcome), steps_table(cell.kept.outcome)
        head = ["scene", "engine", *names, *speeds[1:]]
        for i, figure in enumerate(figures):
            body.append(["", "", *figure] if i else [cell.job.scene, cell.job.engine, *figure, *steps[1:]])
    return [head, *(row + [""] * (len(head) - len(row)) for row in body)]


def worst(outcome: Outcome) -> Measured | None:
    """Return the figure with the largest error; figures outside their tolerance come first. None if no answer is known."""
    judged = [figure for figure in outcome.measured if figure.error is not None]
    return max(judged, key=lambda figure: (figure.holds is False, figure.error or 0.0), default=None)


def grid_picture(
    columns: Sequence[str],
    rows: Sequence[str],
    texts: Sequence[Sequence[str]],
    values: Any,
    size: tuple[float, float],
    **colours: Any,
) -> bytes:
    """Draw `cells` as a picture. size: of the figure [in]"""
    figure = Figure(figsize=size)
    cells(figure.subplots(), columns, rows, texts, values, **colours)
    return png(figure)


def engines_figure(found: Sequence[Cell]) -> bytes:
    """Draw a grid of scenes and engines with the largest error, and the engine's time per step."""
    scenes, engines = ([*dict.fromkeys(getattr(cell.job, name) for cell in found)] for name in ("scene", "engine"))
    texts, grades = [[""] * len(engines) for _ in scenes], np.full((len(scenes), len(engines)), np.nan)
    for cell in found:
        y, x = scenes.index(cell.job.scene), engines.index(cell.job.engine)
        texts[y][x], grades[y, x] = _text(cell), _grade(cell)
    size = 2.6 + 1.25 * len(engines), 0.8 + 0.42 * len(scenes)
    look = {"cmap": ListedColormap(COLOURS), "vmin": 0, "vmax": len(COLOURS) - 1, "aspect": "auto"}
    return grid_picture(engines, scenes, texts, np.ma.masked_invalid(grades), size, **look)


def _grade(cell: Cell) -> int:
    """Return the index of the cell's colour in `COLOURS`."""
    if cell.kept is None or any(figure.holds is False for figure in cell.kept.outcome.measured):
        return 2
    return 1 if cell.kept.outcome.unsolved else 0


def _text(cell: Cell) -> str:
    """Return the largest error, in percent, or in the figure's unit if the known value is 0, and the engine's time per step."""
    if cell.kept is None:
        return "diverged"
    figure = worst(cell.kept.outcome)
    error = "–"
    if figure is not None and figure.error is not None:
        error = f"{100 * figure.error:.2g} %" if figure.known else f"{figure.error:.1e} {figure.unit}"
    return f"{error}\n{cell.kept.outcome.engine_us:.0f} µs"


MOST = 8  # largest number of bodies that are plotted


def run_picture(kept: SavedRun) -> bytes:
    """Return a plot of a run as PNG: displacements of the bodies, contact forces, energy, residuals and iterations."""
    settings, run = kept.settings, kept.recording
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(5, 1, figsize=(9, 11.7), sharex=True)
    axes[-1].set_xlabel("time [s]")
    moving = [i for i, body in enumerate(settings.body) if body.joint != "fixed"][:MOST]
    for i in moving:
        name, away = settings.body[i].name, run.centres[:, i] - run.centres[0, i]
        axes[0].plot(run.t, 1e3 * np.linalg.norm(away, axis=1), label=name)
        axes[1].plot(run.t[1:], np.linalg.norm(run.force[:, i], axis=1))
    axes[0].set_ylabel("distance from\nthe start [mm]")
    axes[0].legend(ncols=4, fontsize=8)
    axes[1].set_ylabel("contact\nforce [N]")
    axes[2].plot(run.t, run.energy, color="0.3")
    axes[2].set_ylabel("energy [J]")
    for i, name in enumerate(NAMES):
        if run.residuals[:, i].any():
            axes[3].semilogy(run.t[1:], np.maximum(run.residuals[:, i], 1e-20), linewidth=0.8, label=name.replace("_", " "))
    if np.isfinite(run.accuracy[:, 0]).any():
        axes[3].semilogy(run.t[1:], np.maximum(run.accuracy[:, 0], 1e-20), linewidth=0.8, label="$e_m$ (1)")
    axes[3].set_ylabel("residuals\n[SI]")
    axes[3].legend(ncols=5, fontsize=8)
    axes[4].plot(run.t[1:], run.iterations, linewidth=0.8, color="0.3")
    axes[4].plot(run.t[1:][~run.ok], run.iterations[~run.ok], "x", color="tab:red", label="not solved")
    axes[4].set_ylabel("iterations")
    axes[0].set_title(f"{settings.about}: {kept.outcome.engine}")
    return png(figure)


def write_engine_report(found: Sequence[Cell], folder: Path) -> Path:
    """Write engines.html, engines.png, summary.json and a 3D view of each scene; return the path of engines.html."""
    report = Report(
        "idyn compare engines",
        "Every scene with every engine that it lists, compared with answers that are known without simulation. Residuals are "
        "maxima over all steps, computed by a checker that shares no code with the engines. Times are medians of the engine "
        "alone, on this machine.",
    )
    caption = "Largest error of each run, and the engine's time per step; yellow: some steps were not solved."
    report.picture(engines_figure(found), caption, "engines")
    report.table(engines_table(found))
    folder.mkdir(parents=True, exist_ok=True)
    for scene, same in groupby(found, key=lambda cell: cell.job.scene):
        report.heading(scene)
        runs = [(cell, cell.kept) for cell in same if cell.kept is not None]
        if runs:
            report.paragraph(runs[0][1].settings.about)
            (folder / f"{scene}.html").write_text(scene_page(scene, [kept for _, kept in runs]), encoding="utf-8")
            report.link(f"{scene}.html", "in three dimensions")
        for cell, kept in runs:
            report.picture(run_picture(kept), f"{scene}, {cell.job.engine}")
    return report.write(folder, "engines", summary(found))


def summary(found: Sequence[Cell]) -> list[dict[str, object]]:
    """Return the figures of all runs, for `summary.json`."""
    return [
        {"scene": cell.job.scene, "engine": cell.job.engine, "fault": cell.fault}
        if cell.kept is None
        else msgspec.to_builtins(cell.kept.outcome)
        for cell in found
    ]
