"""Pictures of a matrix: share of robots that stayed upright, their tracking error; for a part also a panel per quantity."""

import math

import numpy as np

from sim_harness.compare.matrix.settings import MatrixSettings, PartSettings
from sim_harness.compare.matrix.table import Panel, upright
from sim_harness.compare.quantities import QUANTITIES
from sim_harness.compare.results import Results, Runs, lost, statistic
from sim_harness.report.canvas import Axes, Figure, LogNorm, Normalize, mpl
from sim_harness.report.plots import cells, png

CELL = (0.62, 0.36)
"""Width and height of a cell [in]."""

MARGIN = (1.9, 1.5)
"""Space for the titles of a panel's rows and columns: width and height [in]."""

COLOURS, ENDS = mpl.colormaps["RdYlGn"], (-0.15, 1.15)
"""Colour map of the share of upright robots, and the shares at its ends.

The ends are outside of [0, 1], so that the darkest colours are not used.
"""

SIZES, DECADE = mpl.colormaps["YlOrBr"], 10.0
"""Colour map of a quantity; it is logarithmic when the quantity is positive and spans this factor."""

ACROSS = 3
"""Panels in a row of a part's picture."""

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


def part_figure(part: PartSettings, matrix: MatrixSettings, results: Results) -> bytes:
    """Draw the panels of each variant: one with the number of upright robots, and one for each of the part's quantities."""
    panels = [Panel(part, variant) for variant in matrix.variants]
    count = 1 + len(part.quantities)
    across = min(count, ACROSS)
    rows = math.ceil(count / across)
    size = len(panels[0].columns) * CELL[0] + MARGIN[0], len(panels[0].rows) * CELL[1] + MARGIN[1]
    figure = Figure(figsize=(across * size[0], len(panels) * rows * size[1] + 0.5))
    grid = figure.subplots(len(panels) * rows, across, squeeze=False).reshape(len(panels), rows * across)
    for variant, panel, axes in zip(matrix.variants, panels, grid, strict=True):
        _draw_upright(axes[0], panel, results, f"{part.name}, {variant}: ")
        for quantity, axis in zip(part.quantities, axes[1:count], strict=True):
            _draw_quantity(axis, panel, quantity, results)
        for axis in axes[count:]:
            axis.set_axis_off()
    return png(figure)


def _draw_upright(axis: Axes, panel: Panel, results: Results, heading: str) -> None:
    found = [[results[cell] for cell in row] for row in panel.grid]
    counts = np.array([[upright([runs]) for runs in row] for row in found])
    shares = [100 * up / count for up, count in counts.sum(axis=0)]
    columns = [f"{title} ({share:.0f} %)" for title, share in zip(panel.columns, shares, strict=True)]
    texts = [[_cell_text(runs) for runs in row] for row in found]
    cells(axis, columns, panel.rows, texts, counts[..., 0] / counts[..., 1], cmap=COLOURS, vmin=ENDS[0], vmax=ENDS[1], **LOOK)
    up, count = upright(results[cell] for cell in panel.cells)
    axis.set_title(f"{heading}{up} of {count} upright, {100 * up / count:.0f} %", loc="left", fontsize=11)


def _draw_quantity(axis: Axes, panel: Panel, quantity: str, results: Results) -> None:
    """Draw the means of a quantity over the upright robots, as colours and numbers."""
    means = np.array([[statistic(results[cell], quantity).mean for cell in row] for row in panel.grid])
    there = means[np.isfinite(means)]
    least, most = there.min(initial=np.inf), there.max(initial=-np.inf)
    norm = LogNorm(least, most) if 0.0 < DECADE * least <= most else Normalize()
    texts = [["" if np.isnan(mean) else f"{mean:.2g}" for mean in row] for row in means]
    cells(axis, panel.columns, panel.rows, texts, np.ma.masked_invalid(means), cmap=SIZES, norm=norm, **LOOK)
    axis.set_title(QUANTITIES[quantity].heading, loc="left", fontsize=11)


def _cell_text(runs: Runs) -> str:
    """Return the text of a cell: the tracking error [mrad] of the robots that stayed upright.

    If some runs were cut short, the number of upright robots is added. If all were, the text is how and when.
    """
    up, count = upright([runs])
    tracking = f"{1e3 * statistic(runs, 'tracking').mean:.2g}"
    if up == count:
        return tracking
    return f"{tracking}\n{up}/{count}" if up else lost(runs).replace(" after ", "\n")
