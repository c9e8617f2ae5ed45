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
from sim_harness.scenes.results.measures import UNITS, Measured, Outcome
from sim_harness.view.bodies import scene_page

HEADINGS = ["scene", "engine", "figure", "measured", "known", "error"]
SPEEDS = ["e_m", "iterations", "engine µs", "× real time", "unsolved"]

COLOURS = ("#c8e6c9", "#fff3c4", "#ffcdd2")
"""Good, doubtful, bad."""


def engines_table(found: Sequence[Cell]) -> Table:
    """Headings, and for each engine on each scene a row for every figure; residuals and speed in the first of them."""
    residuals = [f"{name.replace('_', ' ')} {unit}" for name, unit in UNITS.items()]
    rows = [[*HEADINGS, *residuals, *SPEEDS]]
    for cell in found:
        if cell.kept is None:
            rows.append([cell.job.scene, cell.job.engine, cell.fault, *[""] * (len(rows[0]) - 3)])
            continue
        o = cell.kept.outcome
        steps = [f"{o.residuals[name]:.1e}" for name in UNITS]
        steps.append("–" if o.e_m is None else f"{o.e_m:.1e}")
        steps += [f"{o.iterations:.1f}", f"{o.engine_us:.0f}", f"{o.pace:.2f}", f"{o.unsolved} of {o.steps}"]
        for i, figure in enumerate(o.measured):
            names, rest = ([o.scene, o.engine], steps) if not i else (["", ""], [""] * len(steps))
            rows.append([*names, *figure_cells(figure), *rest])
    return rows


def figure_cells(figure: Measured) -> list[str]:
    """What, measured, known, error."""
    known = "–" if figure.known is None else f"{figure.known:.5g}"
    return [figure.what, f"{figure.value:.5g} {figure.unit}", known, error_text(figure)]


def error_text(figure: Measured) -> str:
    """In percent, or in the figure's unit where 0 is known."""
    if figure.error is None:
        return "–"
    return f"{100 * figure.error:.2g} %" if figure.known else f"{figure.error:.1e} {figure.unit}"


def worst(outcome: Outcome) -> Measured | None:
    """The figure that is furthest from what is known, measured by what is expected of it."""
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
    if cell.kept is None:
        return "went to\npieces"
    figure = worst(cell.kept.outcome)
    return f"{'–' if figure is None else error_text(figure)}\n{cell.kept.outcome.engine_us:.0f} µs"


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
