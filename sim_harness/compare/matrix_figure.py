"""The picture of a matrix: who stayed upright, by colour, and how well it tracked, in numbers."""

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim_harness.compare.matrix import MatrixSettings
from sim_harness.compare.matrix_table import Panel, lasted, upright
from sim_harness.compare.results import Results, Runs, statistic
from sim_harness.plots import png

CELL = (0.62, 0.36)
"""Width and height of a cell [in]."""

MARGIN = (1.9, 1.5)
"""For the titles of a panel's rows and columns [in]."""

COLOURS, ENDS = mpl.colormaps["RdYlGn"], (-0.15, 1.15)
"""From nobody upright to everybody; the shares at its ends, so that the darkest are left out."""


def matrix_figure(matrix: MatrixSettings, results: Results) -> bytes:
    """One row of panels for each part, one column for each variant; all cells of the same size."""
    panels = [[Panel(part, variant) for variant in matrix.variants] for part in matrix.part]
    wide = max(len(row[0].columns) for row in panels)
    heights = [len(row[0].rows) * CELL[1] + MARGIN[1] for row in panels]
    figure = Figure(figsize=(len(matrix.variants) * (wide * CELL[0] + MARGIN[0]), sum(heights) + 0.5))
    grid = figure.subplots(len(panels), len(matrix.variants), squeeze=False, gridspec_kw={"height_ratios": heights})
    for part, row, axes in zip(matrix.part, panels, grid, strict=True):
        for variant, panel, axis in zip(matrix.variants, row, axes, strict=True):
            up, count = upright(results[cell] for cell in panel.cells)
            _draw(axis, panel, wide, results)
            axis.set_title(
                f"{part.name}, {variant}: {up} of {count} upright, {100 * up / count:.0f} %", loc="left", fontsize=11
            )
    return png(figure)


def _draw(axis: Axes, panel: Panel, wide: int, results: Results) -> None:
    found = [[results[cell] for cell in row] for row in panel.grid]
    counts = np.array([[upright([runs]) for runs in row] for row in found])
    axis.imshow(counts[..., 0] / counts[..., 1], cmap=COLOURS, vmin=ENDS[0], vmax=ENDS[1], aspect=CELL[1] / CELL[0], alpha=0.75)
    for i, row in enumerate(found):
        for k, runs in enumerate(row):
            axis.text(k, i, _text(runs), ha="center", va="center", fontsize=7)
    axis.set_xlim(-0.5, wide - 0.5)
    shares = [100 * up / count for up, count in counts.sum(axis=0)]
    titles = [f"{title} ({share:.0f} %)" for title, share in zip(panel.columns, shares, strict=True)]
    axis.set_xticks(range(len(titles)), titles, rotation=30, ha="left", fontsize=8)
    axis.set_yticks(range(len(panel.rows)), panel.rows, fontsize=8)
    axis.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    axis.spines[:].set_visible(False)


def _text(runs: Runs) -> str:
    """Tracking in mrad where everybody stayed up; how many did, where not; how long it lasted, where nobody did."""
    up, count = upright([runs])
    tracking = f"{1e3 * statistic(runs, 'tracking').mean:.2g}"
    if up == count:
        return tracking
    return f"{tracking}\n{up}/{count}" if up else f"fell\n{lasted(runs):.1f} s"
