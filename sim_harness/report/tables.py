"""Tables as rows of text; the first row has the headings."""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

Table = list[list[str]]

WIDTH = 100
"""Largest width of a table in a terminal [characters]."""

NAMES = 40
"""Largest width of the first column of a table that is too wide otherwise [characters]."""

T = TypeVar("T")


def listed(corner: str, items: Iterable[tuple[str, T]], columns: Mapping[str, Callable[[T], str]]) -> Table:
    """Return a table with one row for each item. The first column has the item's name.

    corner: heading of the names; columns: heading → function that returns the cell
    """
    return [[corner, *columns], *([name, *(cell(item) for cell in columns.values())] for name, item in items)]


def crossed(corner: str, figures: Mapping[tuple[str, str], T], cell: Callable[[T], str]) -> Table:
    """Return a table of figures. Each figure has two names: the first selects its row, the second its column.

    corner: heading of the rows' names; cell: returns the text of a figure
    """
    rows, columns = (dict.fromkeys(names) for names in zip(*figures, strict=True))
    return [[corner, *columns], *([row, *(cell(figures[row, column]) for column in columns)] for row in rows)]


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
