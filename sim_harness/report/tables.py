"""Tables as rows of text; the first row has the headings."""

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from sim_harness.measure.metrics import Summary

Table = list[list[str]]

WIDTH = 100  # largest width of a table in a terminal [characters]
NAMES = 40  # largest width of the first column of a table that is too wide otherwise [characters]

T = TypeVar("T")


def listed(corner: str, items: Iterable[tuple[str, T]], columns: Mapping[str, Callable[[T], str]]) -> Table:
    """Return a table with one row for each item. The first column has the item's name.

    corner: heading of the names; columns: heading → function that returns the cell
    """
    return [[corner, *columns], *([name, *(cell(item) for cell in columns.values())] for name, item in items)]


def text_table(rows: Table, width: int = WIDTH) -> str:
    """Return a table as text with aligned columns.

    A table wider than `width` gets headings of several lines. If that is not enough, its columns are shown in several blocks,
    each with the first column.
    """
    columns: list[list[list[str]]] = [[[cell] for cell in column] for column in zip(*rows, strict=True)]
    if _width(columns) <= width:
        return _block(columns)
    first, *others = ([row[i] for row in rows] for i in range(len(rows[0])))
    names = _narrow(first, NAMES)
    room = width - _width([names]) - 2
    blocks = [[names]]
    for column in (_narrow(other, room) for other in others):
        if len(blocks[-1]) > 1 and _width([*blocks[-1], column]) > width:
            blocks.append([names])
        blocks[-1].append(column)
    return "\n\n".join(_block(block) for block in blocks)


def _narrow(column: Sequence[str], most: int) -> list[list[str]]:
    """Return the lines of each cell of a column, as narrow as the words of the heading and the other cells permit."""
    word = max((len(word) for word in column[0].split()), default=0)
    room = max(1, min(max(word, *(len(cell) for cell in column[1:]), 0), most))
    return [textwrap.wrap(cell, room) or [""] for cell in column]


def _width(columns: Sequence[list[list[str]]]) -> int:
    widths = [max(len(line) for cell in column for line in cell) for column in columns]
    return sum(widths) + 2 * (len(widths) - 1)


def _block(columns: Sequence[list[list[str]]]) -> str:
    """Return cells of several lines as text: names and cells of words left-aligned, other cells right-aligned."""
    aligned = []
    for number, column in enumerate(columns):
        width = _width([column])
        left = number == 0 or any(" " in line for cell in column[1:] for line in cell)
        aligned.append([[line.ljust(width) if left else line.rjust(width) for line in cell] for cell in column])
    text = []
    for number, row in enumerate(zip(*aligned, strict=True)):
        height = max(len(cell) for cell in row)
        for cell in row:
            empty = [" " * len(cell[0])] * (height - len(cell))
            cell[:] = empty + cell if number == 0 else cell + empty  # headings end in one line
        text += ["  ".join(line).rstrip() for line in zip(*row, strict=True)]
    return "\n".join(text)


class Column(NamedTuple):
    """A column. cell: returns its text for a run; unit, meaning: '' where it needs none"""

    name: str
    unit: str
    cell: Callable[[Summary], str]
    meaning: str = ""

    @property
    def heading(self) -> str:
        return f"{self.name} {self.unit}".strip()


TILT = Column("tilt", "mrad", lambda s: f"{s.tilt * 1e3:.1f}", "largest angle of the base from upright")
TRACKING = Column("tracking", "mrad", lambda s: f"{s.tracking * 1e3:.2f}", "mean deviation of the joints from their references")
RATE = Column("|dτ/dt|", "N·m/s", lambda s: f"{s.torque_rate:.3g}", "mean rate of the torques over time and joints")
FORCE_ERROR = Column(
    "Σf_N error",
    "N",
    lambda s: "–" if math.isnan(s.force_error) else f"{s.force_error:.2e}",
    "mean error of the predicted sum of the normal forces",
)
OK = Column("ok", "%", lambda s: f"{100 * s.modes.get('ok', 0.0):.1f}", "share of the ticks with the status ok")
ROUND_TRIP = Column(
    "round trip",
    "µs",
    lambda s: "–" if s.round_trip_p50 is None else f"{s.round_trip_p50:.0f}/{s.round_trip_p99:.0f}",
    "from sending the state to the torque, median/99th percentile",
)
HEIGHT = Column("height", "m", lambda s: f"{s.height:.4f}", "of the base at the end")
TORQUE = Column("|τ|", "N·m", lambda s: f"{s.torque:.3f}", "mean torque over time and joints")
LARGEST_RATE = Column("max |dτ/dt|", "N·m/s", lambda s: f"{s.torque_rate_max:.3g}")
LATE = Column("late", "", lambda s: str(s.late), "replies that took longer than a period")
PACE = Column("× real time", "", lambda s: f"{s.pace:.2f}", "simulated time over wall-clock time")

FIRST = (TILT, TRACKING, RATE, FORCE_ERROR, OK, ROUND_TRIP)
REST = (HEIGHT, TORQUE, LARGEST_RATE, LATE, PACE)
"""Columns of the table of runs that `idyn simulate` and `idyn compare LOG` print, and of the one below it."""


def table(summaries: Sequence[Summary], columns: Sequence[Column]) -> Table:
    """Return a table with a row for each run."""
    return listed("law", ((each.label, each) for each in summaries), {each.heading: each.cell for each in columns})


def legend(columns: Sequence[Column]) -> str:
    """Return what the names of columns mean, in one paragraph."""
    return "; ".join(f"{each.name}: {each.meaning}" for each in columns if each.meaning) + "."


def text_summary(summaries: Sequence[Summary]) -> str:
    """Return the verdicts, whole and a line each, the tables of runs and their legend as text for a terminal."""
    verdicts = "\n".join(f"{each.label}: {each.verdict.whole}" for each in summaries)
    tables = (text_table(table(summaries, columns)) for columns in (FIRST, REST))
    return "\n\n".join((verdicts, *tables, textwrap.fill(legend(FIRST + REST), WIDTH, break_on_hyphens=False)))
