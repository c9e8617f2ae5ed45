"""Tables as rows of text, the first row the headings."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

Table = list[list[str]]

T = TypeVar("T")


def listed(corner: str, items: Iterable[tuple[str, T]], columns: Mapping[str, Callable[[T], str]]) -> Table:
    """One row for each item, its name first. corner: above the names; columns: heading → cell"""
    return [[corner, *columns], *([name, *(cell(item) for cell in columns.values())] for name, item in items)]


def crossed(corner: str, figures: Mapping[tuple[str, str], T], cell: Callable[[T], str]) -> Table:
    """One row and one column for each first and second name of the figures. corner: above the rows' names"""
    rows, columns = (dict.fromkeys(names) for names in zip(*figures, strict=True))
    return [[corner, *columns], *([row, *(cell(figures[row, column]) for column in columns)] for row in rows)]
