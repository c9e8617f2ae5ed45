"""What came of the engines: one table, a picture of it, and of each scene pictures and a view in three dimensions."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import msgspec
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from sim_harness.compare.engines.jobs import Cell
from sim_harness.report.plots import png
from sim_harness.report.report import Report
from sim_harness.scenes.results.keep import PICTURE
from sim_harness.scenes.results.measures import UNITS, Measured, Outcome
from sim_harness.view.bodies import scene_page

HEADINGS = ["scene", "engine", "figure", "measured", "known", "error"]
SPEEDS = ["e_m", "iterations", "engine µs", "× real time", "unsolved"]

GOOD, DOUBTFUL, BAD = "#c8e6c9", "#fff3c4", "#ffcdd2"


def engines_table(cells: Sequence[Cell]) -> list[list[str]]:
    """Headings, and for each engine on each scene a row for every figure; residuals and speed in the first of them."""
    residuals = [f"{name.replace('_', ' ')} {unit}" for name, unit in UNITS.items()]
    rows = [[*HEADINGS, *residuals, *SPEEDS]]
    for cell in cells:
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


def engines_figure(cells: Sequence[Cell]) -> bytes:
    """Scenes by engines: the worst error, and the engine's time for a step."""
    scenes, engines = (list(dict.fromkeys(getattr(cell.job, name) for cell in cells)) for name in ("scene", "engine"))
    figure = Figure(figsize=(2.6 + 1.25 * len(engines), 0.8 + 0.42 * len(scenes)))
    axis = figure.subplots()
    for cell in cells:
        x, y = engines.index(cell.job.engine), scenes.index(cell.job.scene)
        axis.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, color=_colour(cell)))
        axis.text(x, y, _text(cell), ha="center", va="center", fontsize=7)
    axis.set_xlim(-0.5, len(engines) - 0.5)
    axis.set_ylim(len(scenes) - 0.5, -0.5)
    axis.set_xticks(range(len(engines)), engines, fontsize=9)
    axis.set_yticks(range(len(scenes)), scenes, fontsize=8)
    axis.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    axis.spines[:].set_visible(False)
    return png(figure)


def _colour(cell: Cell) -> str:
    if cell.kept is None or any(figure.holds is False for figure in cell.kept.outcome.measured):
        return BAD
    return DOUBTFUL if cell.kept.outcome.unsolved else GOOD


def _text(cell: Cell) -> str:
    if cell.kept is None:
        return "went to\npieces"
    figure = worst(cell.kept.outcome)
    return f"{'–' if figure is None else error_text(figure)}\n{cell.kept.outcome.engine_us:.0f} µs"


def write_engine_report(cells: Sequence[Cell], folder: Path) -> None:
    """engines.html with engines.png, summary.json, and a view of each scene."""
    folder.mkdir(parents=True, exist_ok=True)
    report = Report(
        "idyn compare engines",
        "Every engine on every scene that it claims, beside what is known without simulating. Residuals are the largest of all "
        "steps, found by a checker that shares no code with the engines; times are the engine's own, medians, on this machine.",
    )
    picture = engines_figure(cells)
    (folder / "engines.png").write_bytes(picture)
    report.picture(picture, "Worst error of each run, and the engine's time for a step; yellow: steps that were not solved.")
    report.table(engines_table(cells))
    for scene, same in groupby(cells, key=lambda cell: cell.job.scene):
        runs = [cell for cell in same if cell.kept is not None]
        report.heading(scene)
        kept = [cell.kept for cell in runs if cell.kept is not None]
        if kept:
            report.paragraph(kept[0].settings.about)
            (folder / f"{scene}.html").write_text(scene_page(scene, kept), encoding="utf-8")
            report.link(f"{scene}.html", "in three dimensions")
        for cell in runs:
            report.picture((cell.job.folder / PICTURE).read_bytes(), f"{scene}, {cell.job.engine}")
    (folder / "engines.html").write_text(report.html, encoding="utf-8")
    (folder / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(summary(cells)), indent=1))


def summary(cells: Sequence[Cell]) -> list[dict[str, object]]:
    """Everything in numbers; null where there are none."""
    return [
        {"scene": cell.job.scene, "engine": cell.job.engine, "fault": cell.fault}
        if cell.kept is None
        else msgspec.to_builtins(cell.kept.outcome)
        for cell in cells
    ]
