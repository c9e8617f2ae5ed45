"""The report of engines: one table, a picture of it, and of each scene pictures and a view in three dimensions."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import msgspec
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from sim_harness.compare.engines.jobs import Cell
from sim_harness.report.plots import cells, png
from sim_harness.report.report import Report
from sim_harness.report.tables import Table
from sim_harness.scenes.results.keep import PICTURE
from sim_harness.scenes.results.measures import Measured, Outcome, figures_table, steps_table
from sim_harness.view.bodies import scene_page

COLOURS = ("#c8e6c9", "#fff3c4", "#ffcdd2")
"""Good, doubtful, bad."""


def engines_table(found: Sequence[Cell]) -> Table:
    """Headings, and for each engine on each scene a row for every figure; residuals and speed in the first of them."""
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
    """The figure with the largest error; those outside their tolerance first."""
    judged = [figure for figure in outcome.measured if figure.error is not None]
    return max(judged, key=lambda figure: (figure.holds is False, figure.error or 0.0), default=None)


def engines_figure(found: Sequence[Cell]) -> bytes:
    """Scenes by engines: the worst error, and the engine's time for a step."""
    scenes, engines = ([*dict.fromkeys(getattr(cell.job, name) for cell in found)] for name in ("scene", "engine"))
    texts, grades = [[""] * len(engines) for _ in scenes], np.full((len(scenes), len(engines)), np.nan)
    for cell in found:
        y, x = scenes.index(cell.job.scene), engines.index(cell.job.engine)
        texts[y][x], grades[y, x] = _text(cell), _grade(cell)
    figure = Figure(figsize=(2.6 + 1.25 * len(engines), 0.8 + 0.42 * len(scenes)))
    look = {"cmap": ListedColormap(COLOURS), "vmin": 0, "vmax": len(COLOURS) - 1, "aspect": "auto"}
    cells(figure.subplots(), engines, scenes, texts, np.ma.masked_invalid(grades), **look)
    return png(figure)


def _grade(cell: Cell) -> int:
    """Index of its colour."""
    if cell.kept is None or any(figure.holds is False for figure in cell.kept.outcome.measured):
        return 2
    return 1 if cell.kept.outcome.unsolved else 0


def _text(cell: Cell) -> str:
    """Worst error, in percent, or in the figure's unit where 0 is known; and the engine's time."""
    if cell.kept is None:
        return "went to\npieces"
    figure = worst(cell.kept.outcome)
    error = "–"
    if figure is not None and figure.error is not None:
        error = f"{100 * figure.error:.2g} %" if figure.known else f"{figure.error:.1e} {figure.unit}"
    return f"{error}\n{cell.kept.outcome.engine_us:.0f} µs"


def write_engine_report(found: Sequence[Cell], folder: Path) -> Path:
    """engines.html, which is returned, engines.png, summary.json, and a view of each scene."""
    report = Report(
        "idyn compare engines",
        "Every engine on every scene that it claims, beside what is known without simulating. Residuals are the largest of all "
        "steps, found by a checker that shares no code with the engines; times are the engine's own, medians, on this machine.",
    )
    caption = "Worst error of each run, and the engine's time for a step; yellow: steps that were not solved."
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
        for cell, _ in runs:
            report.picture((cell.job.folder / PICTURE).read_bytes(), f"{scene}, {cell.job.engine}")
    return report.write(folder, "engines", summary(found))


def summary(found: Sequence[Cell]) -> list[dict[str, object]]:
    """Everything in numbers; null where there are none."""
    return [
        {"scene": cell.job.scene, "engine": cell.job.engine, "fault": cell.fault}
        if cell.kept is None
        else msgspec.to_builtins(cell.kept.outcome)
        for cell in found
    ]
