"""Tables of a matrix, and checks of its claims."""

import math
from collections.abc import Iterable, Sequence

from sim_harness.compare.matrix.settings import Cell, CellCheckSettings, MatrixSettings, PartSettings, cells_of, chosen
from sim_harness.compare.quantities import QUANTITIES
from sim_harness.compare.results import Outcome, Results, Runs, either, lost, statistic


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
