"""Tables as rows of text; the first row has the headings."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

Table = list[list[str]]

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
