"""Matrices of runs: their tables, pictures, and checks of their claims."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from controllers.config.loading import load
from sim_harness.compare.jobs import Progress, tasks_of
from sim_harness.compare.results import (
    Options,
    Outcome,
    Results,
    Runs,
    Tasks,
    either,
    figures_of_runs,
    lost,
    run_tasks_of,
    seeds_of,
    statistic,
)
from sim_harness.compare.settings import (
    Cell,
    CellCheckSettings,
    ComparisonSettings,
    MatrixSettings,
    PartSettings,
    cells_of,
    check_matrix,
    chosen,
    runs_of,
)
from sim_harness.compare.settings import cells as matrix_cells
from sim_harness.measure.metrics import QUANTITIES
from sim_harness.report.plots import Axes, Figure, cells, mpl, png
from sim_harness.report.report import Report


class Panel:
    """A part of the matrix in one variant, as a grid of cells.

    rows, columns: titles; grid: cells, row by row
    """

    def __init__(self, part: PartSettings, variant: str) -> None:
        axes = {"robot": part.robots, "world": part.worlds, "law": part.laws, "case": part.cases}
        across = axes.pop(part.columns)
        several = [axis for axis, names in axes.items() if len(names) > 1] or ["robot"]
        own = [cell for cell in cells_of(part, (variant,)) if getattr(cell, part.columns) == across[0]]
        self.columns = across
        self.rows = tuple(" · ".join(getattr(cell, axis) for axis in several) for cell in own)
        self.grid = [[cell._replace(**{part.columns: name}) for name in across] for cell in own]

    @property
    def cells(self) -> list[Cell]:
        return [cell for row in self.grid for cell in row]


def upright(found: Iterable[Runs]) -> tuple[int, int]:
    """Return (number of upright robots, number of all robots)."""
    summaries = [summary for runs in found for summary in runs.summaries]
    return sum(summary.upright for summary in summaries), len(summaries)


def upright_table(panel: Panel, results: Results) -> list[list[str]]:
    """Return a table of the number of upright robots, their tracking error and torque rate. Rows and columns end with the share
    of upright ones."""
    rows = [["", *panel.columns, "upright"]]
    for title, line in zip(panel.rows, panel.grid, strict=True):
        rows.append([title, *(_cell_text(results[cell]) for cell in line), _share(line, results)])
    columns = zip(*panel.grid, strict=True)
    rows.append(["upright", *(_share(column, results) for column in columns), _share(panel.cells, results)])
    return rows


def quantity_table(panel: Panel, quantity: str, results: Results) -> list[list[str]]:
    """Return a table of the means of a quantity over upright robots."""
    rows = [[QUANTITIES[quantity].heading, *panel.columns]]
    for title, line in zip(panel.rows, panel.grid, strict=True):
        means = [statistic(results[cell], quantity).mean for cell in line]
        rows.append([title, *("–" if math.isnan(mean) else f"{mean:.3g}" for mean in means)])
    return rows


def _cell_text(runs: Runs) -> str:
    up, count = upright([runs])
    if not up:
        return f"0/{count}, {lost(runs)}"
    rate = statistic(runs, "torque-rate").mean
    how = f"{1e3 * statistic(runs, 'tracking').mean:.2g} mrad, {rate:.3g} N·m/s"
    return f"{up}/{count}, {how}" + (f", {lost(runs)}" if up < count else "")


def _share(line: Sequence[Cell], results: Results) -> str:
    up, count = upright(results[cell] for cell in line)
    return f"{100 * up / count:.0f} %"


def decide_cells(check: CellCheckSettings, matrix: MatrixSettings, results: Results) -> Outcome:
    """Check a claim and return the outcome; a claim about a quantity has that of the cell with the smallest margin."""
    about = chosen(matrix, check)
    if not check.quantity:
        up, count = upright(results[cell] for cell in about)
        share = up / count
        measured = f"{up} of {count} upright, {100 * share:.1f} %"
        return Outcome(check.claim, check.at_least <= share <= check.at_most, measured, check.explanation)
    margin, measured = min((_margin(check, cell, results[cell]) for cell in about), key=lambda entry: entry[0])
    return Outcome(check.claim, margin >= 0.0, measured, check.explanation)


def _margin(check: CellCheckSettings, cell: Cell, runs: Runs) -> tuple[float, str]:
    """Return (margin, measured value as text); the margin is ≥ 0 if the claim holds, −inf without a whole run or a value."""
    figures, where = statistic(runs, check.quantity), " · ".join(cell[2:])
    if figures.cut_short:
        return -math.inf, f"{len(figures.cut_short)} of {figures.runs} {either(figures.cut_short)} ({where})"
    if math.isnan(figures.mean):
        return -math.inf, f"no data ({where})"
    margin = min(figures.mean - check.at_least, check.at_most - figures.mean)
    return margin, f"{figures.mean:.3g} {QUANTITIES[check.quantity].heading} ({where})"


CELL = (0.62, 0.36)  # width and height of a cell [in]
MARGIN = (1.9, 1.5)  # space for the titles of a panel's rows and columns: width and height [in]

COLOURS, ENDS = mpl.colormaps["RdYlGn"], (-0.15, 1.15)
"""Colour map of the share of upright robots, and the shares at its ends.

The ends are outside of [0, 1], so that the darkest colours are not used.
"""

LOOK = {"aspect": CELL[1] / CELL[0], "alpha": 0.75}
"""Aspect ratio of cells, and opacity of their colours, on which numbers remain legible."""


def matrix_figure(matrix: MatrixSettings, results: Results) -> bytes:
    """Draw one row of panels for each part and one column for each variant; all cells have the same size."""
    panels = [[Panel(part, variant) for variant in matrix.variants] for part in matrix.part]
    wide = max(len(row[0].columns) for row in panels)
    heights = [len(row[0].rows) * CELL[1] + MARGIN[1] for row in panels]
    figure = Figure(figsize=(len(matrix.variants) * (wide * CELL[0] + MARGIN[0]), sum(heights) + 0.5))
    grid = figure.subplots(len(panels), len(matrix.variants), squeeze=False, gridspec_kw={"height_ratios": heights})
    for part, row, axes in zip(matrix.part, panels, grid, strict=True):
        for variant, panel, axis in zip(matrix.variants, row, axes, strict=True):
            _draw_upright(axis, panel, results, f"{part.name}, {variant}: ")
            axis.set_xlim(-0.5, wide - 0.5)
    return png(figure)


def _draw_upright(axis: Axes, panel: Panel, results: Results, heading: str) -> None:
    found = [[results[cell] for cell in row] for row in panel.grid]
    counts = np.array([[upright([runs]) for runs in row] for row in found])
    shares = [100 * up / count for up, count in counts.sum(axis=0)]
    columns = [f"{title} ({share:.0f} %)" for title, share in zip(panel.columns, shares, strict=True)]
    texts = [[_short_text(runs) for runs in row] for row in found]
    cells(axis, columns, panel.rows, texts, counts[..., 0] / counts[..., 1], cmap=COLOURS, vmin=ENDS[0], vmax=ENDS[1], **LOOK)
    up, count = upright(results[cell] for cell in panel.cells)
    axis.set_title(f"{heading}{up} of {count} upright, {100 * up / count:.0f} %", loc="left", fontsize=11)


def _short_text(runs: Runs) -> str:
    """Return the text of a cell: the tracking error [mrad] of the robots that stayed upright.

    If some runs were cut short, the number of upright robots is added. If all were, the text is how and when.
    """
    up, count = upright([runs])
    tracking = f"{1e3 * statistic(runs, 'tracking').mean:.2g}"
    if up == count:
        return tracking
    return f"{tracking}\n{up}/{count}" if up else lost(runs).replace(" after ", "\n")


def load_comparison(name_or_path: str) -> ComparisonSettings:
    """Read and check a matrix. Raises ConfigError for the first error."""
    comparison = load("experiments", name_or_path, ComparisonSettings)
    check_matrix(comparison.matrix, "comparison.matrix")
    return comparison


def all_tasks(comparison: ComparisonSettings, root: Path, options: Options) -> Tasks:
    """Return the tasks of all cells; of robots that stay upright only the figures are kept. Raises ConfigError."""
    runs = runs_of(comparison, options.seconds)
    how = {"served": options.served}
    return {cell: tasks_of(plan, cell.law, seeds_of(options, seeds), root, "fall", **how) for cell, plan, seeds in runs}


def run(comparison: ComparisonSettings, root: Path, options: Options, progress: Progress) -> "Matrix":
    """Run all cells. Raises ConfigError, and JobFailed."""
    (results,) = run_tasks_of([all_tasks(comparison, root, options)], options, progress)
    return Matrix(settings=comparison.matrix, results=results)


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """A matrix with its results."""

    settings: MatrixSettings
    results: Results

    def outcomes(self) -> list[Outcome]:
        """Return the outcomes of all claims."""
        return [decide_cells(check, self.settings, self.results) for check in self.settings.check]

    def add_to(self, report: Report, name: str) -> None:
        """Add the picture of the matrix, and the tables of each part."""
        caption = "Colour: share of the robots that stayed upright. Number: their mean joint tracking error [mrad]."
        report.paragraph("In the tables: upright robots, and their mean joint tracking error [mrad] and mean |dτ/dt| [N·m/s].")
        report.picture(matrix_figure(self.settings, self.results), caption, name)
        for part in self.settings.part:
            for variant in self.settings.variants:
                panel = Panel(part, variant)
                report.heading(f"{part.name}, {variant}", 3)
                report.table(upright_table(panel, self.results))
                for quantity in part.quantities:
                    report.table(quantity_table(panel, quantity, self.results))

    def figures(self) -> dict[str, Any]:
        """Return the figures of each cell: names, number of runs, quantities; length and verdict of each run."""
        quantities = {part.name: ("tracking", *part.quantities) for part in self.settings.part}
        found = [
            {
                **cell._asdict(),
                **figures_of_runs(self.results[cell], quantities[cell.part]),
                "verdicts": [summary.verdict for summary in self.results[cell].summaries],
                "seconds": [summary.seconds for summary in self.results[cell].summaries],
            }
            for cell in matrix_cells(self.settings)
        ]
        return {"cells": found}


def robot_of(comparison: ComparisonSettings) -> str:
    """Return the robot of the first run; the plans of all runs are made. Raises ConfigError."""
    robots = [plan.controller.robot for _, plan, _ in runs_of(comparison)]
    return robots[0]
