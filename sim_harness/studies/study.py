"""Studies as data: parameter axes, a function that measures at their points, and tables and pictures of the figures.

Each study is a module with a function `study` that returns a `Study`; `sim_harness/compare/studies.py` lists them.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any, NamedTuple, TypeVar

from idyn.errors import ConfigError
from sim_harness.compare.jobs import Progress
from sim_harness.report.report import Report
from sim_harness.report.tables import Table

Axis = Mapping[str, Any] | Iterable[Any]
"""Label → value, or values that serve as labels."""

T = TypeVar("T")

Figures = dict[str, dict[Any, Any]]
"""Name of a sweep → point → figures measured there. A point is the tuple of its labels; with a single axis, the label."""


class Sweep(NamedTuple):
    """A measurement at all combinations of the values of its axes. measure: takes one value of each axis"""

    axes: tuple[Axis, ...]
    measure: Callable[..., Any]


class Picture(NamedTuple):
    """A picture of a study. name: of its file; draw: returns a PNG"""

    name: str
    caption: str
    draw: Callable[[Figures], bytes]


class Page(NamedTuple):
    """An animation of a study. draw: returns an HTML page; it raises ConfigError where an extra is missing"""

    title: str
    caption: str
    draw: Callable[[Figures], str]


class Study(NamedTuple):
    """Sweeps to measure, and their report."""

    title: str
    lead: str  # first paragraph
    sweeps: dict[str, Sweep]  # by name, measured in this order
    tables: tuple[Callable[[Figures], Table], ...]
    pictures: tuple[Picture, ...] = ()
    notes: Callable[[Figures], list[str]] = lambda _: []  # paragraphs below the tables;
    pages: tuple[Page, ...] = ()  # animations, left out with a word where an extra is missing


def crossed(corner: str, figures: Mapping[tuple[str, str], T], cell: Callable[[T], str]) -> Table:
    """Return a table of figures. Each figure has two names: the first selects its row, the second its column.

    corner: heading of the rows' names; cell: returns the text of a figure
    """
    rows, columns = (dict.fromkeys(names) for names in zip(*figures, strict=True))
    return [[corner, *columns], *([row, *(cell(figures[row, column]) for column in columns)] for row in rows)]


def measure(study: Study, progress: Progress) -> Figures:
    """Measure all sweeps at all points, in order."""
    points = [(name, point) for name, sweep in study.sweeps.items() for point in product(*map(_points, sweep.axes))]
    found: Figures = {name: {} for name in study.sweeps}
    for done, (name, point) in enumerate(points):
        labels, values = zip(*point, strict=True)
        progress(done, len(points), ", ".join((name, *labels)))
        found[name][labels if len(labels) > 1 else labels[0]] = study.sweeps[name].measure(*values)
    return found


def report_of(study: Study, found: Figures) -> Report:
    """Return the report of measured figures."""
    report = Report(study.title, study.lead)
    for table in study.tables:
        report.table(table(found))
    for note in study.notes(found):
        report.paragraph(note)
    for picture in study.pictures:
        report.picture(picture.draw(found), picture.caption, picture.name)
    for page in study.pages:
        try:
            report.page(page.draw(found), page.title, page.caption)
        except ConfigError as error:
            report.paragraph(f"Without the {page.title}: {error}")
    return report


def grouped(points: Mapping[Any, T], *axes: int) -> dict[Any, list[T]]:
    """Return the figures of the points that share labels on some axes, by these labels: a tuple, or the label of one axis."""
    found: dict[Any, list[T]] = {}
    for point, figures in points.items():
        labels = tuple(point[axis] for axis in axes)
        found.setdefault(labels if len(labels) > 1 else labels[0], []).append(figures)
    return found


def _points(axis: Axis) -> list[tuple[str, Any]]:
    return [*axis.items()] if isinstance(axis, Mapping) else [(str(value), value) for value in axis]
