"""Pictures as PNG bytes: plots of lines or bars, and grids of coloured cells. The only module that imports Matplotlib."""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from idyn.errors import missing_extra
from idyn.types import Record

try:
    import matplotlib as mpl
except ModuleNotFoundError as error:
    raise missing_extra("picture", "drawing", "matplotlib", "viz") from error

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure

__all__ = ["Axes", "Figure", "ListedColormap", "LogNorm", "mpl", "plt"]

STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "font.size": 10,
    "grid.alpha": 0.3,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
}

Line = tuple[Any, ...]  # arguments of `Axes.plot`: x, y, and optionally a format


class Plot(Record, frozen=True):
    """Lines and bars on common axes."""

    # label → line; labels that begin with "_" are not in the legend
    lines: Mapping[str, Line] = msgspec.field(default_factory=dict)
    width: float = 1.2  # of all lines [pt]
    # label → heights of its bars, one for each of `ticks`; bars of different labels are side by side
    bars: Mapping[str, Sequence[float]] = msgspec.field(default_factory=dict)
    ticks: Mapping[str, float] = msgspec.field(default_factory=dict)  # label → position on the x axis
    log: str = ""  # logarithmic axes, "", "y" or "xy"
    legend: bool = False  # whether the plot has a legend
    axes: Mapping[str, Any] = msgspec.field(default_factory=dict)  # arguments of `Axes.set`, such as title and xlabel
    spans: Sequence[tuple[float, float]] = ()  # shaded intervals of the x axis (begin, end)
    extra: Callable[[Axes], object] | None = None  # function that draws anything else

    def draw(self, axis: Axes) -> None:
        """Draw the plot on an axis."""
        for label, line in self.lines.items():
            axis.plot(*line, label=label, linewidth=self.width)
        axis.set(**{f"{name}scale": "log" for name in self.log})
        for k, (label, heights) in enumerate(self.bars.items()):
            axis.bar(np.array([*self.ticks.values()]) + 0.27 * (k - 1), heights, 0.25, label=label)
        if self.ticks:
            axis.set_xticks([*self.ticks.values()], [*self.ticks])
            axis.minorticks_off()
        for begin, end in self.spans:
            axis.axvspan(begin, end, color="tab:red", alpha=0.15, linewidth=0)
        if self.extra is not None:
            self.extra(axis)
        axis.set(**self.axes)
        if self.legend and axis.get_legend_handles_labels()[0]:
            axis.legend()


def picture(panels: Sequence[Plot], across: int = 1, size: tuple[float, float] | None = None, share: bool = True) -> bytes:
    """Draw plots row by row. across: plots per row; size: of the figure [in]; share: whether all plots share the x axis"""
    down = -(-len(panels) // across)
    with mpl.rc_context(STYLE):
        figure, grid = plt.subplots(down, across, figsize=size or (9, 1.2 + 2.1 * down), sharex=share, squeeze=False)
        for panel, axis in zip(panels, grid.flat, strict=True):
            panel.draw(axis)
        return png(figure)


def stacked(lines: Mapping[str, Mapping[str, Line]], log: str = "", spans: Sequence[tuple[float, float]] = ()) -> bytes:
    """Draw plots over time [s], one below the other.

    lines: label of the y axis → lines of a plot; log: label of the plot with a logarithmic y axis
    spans: shaded intervals of time [s]
    """
    plots: list[Plot] = []
    for label, each in lines.items():
        axes = {"ylabel": label, "xlabel": "time [s]" if len(plots) == len(lines) - 1 else ""}
        plots.append(Plot(lines=each, width=0.9, log="y" * (label == log), legend=True, spans=spans, axes=axes))
    return picture(plots)


def png(figure: Figure) -> bytes:
    """Return the figure as PNG bytes and close it."""
    buffer = io.BytesIO()
    figure.tight_layout()
    figure.savefig(buffer, format="png", dpi=110)
    plt.close(figure)
    return buffer.getvalue()


def cells(
    axis: Axes, columns: Sequence[str], rows: Sequence[str], texts: Sequence[Sequence[str]], values: Any, **colours: Any
) -> None:
    """Draw a grid of coloured cells with texts, and titles of rows and columns.

    values: shown as colours (rows, columns); colours: arguments of `imshow`
    """
    axis.imshow(values, **colours)
    for i, row in enumerate(texts):
        for k, text in enumerate(row):
            axis.text(k, i, text, ha="center", va="center", fontsize=7)
    axis.set_xticks(range(len(columns)), columns, rotation=30, ha="left", fontsize=8)
    axis.set_yticks(range(len(rows)), rows, fontsize=8)
    axis.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    axis.spines[:].set_visible(False)
