"""Studies as data: axes, a function that measures at their points, and tables and pictures of the figures.

A module in `sim_harness/studies` has a function `study` that returns one.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any, NamedTuple

from sim_harness.report.report import Report
from sim_harness.report.tables import Table

Progress = Callable[[int, int, str], None]
"""Called with the number of items that are done, their total, and the name of the next or the last one."""

Axis = Mapping[str, Any] | Iterable[Any]
"""Label → value, or values that are their own labels."""

Figures = dict[str, dict[Any, Any]]
"""Name of a sweep → point → what was measured there. A point is the tuple of its labels; of a single axis its label."""


class Sweep(NamedTuple):
    """measure: takes one value of each of the axes"""

    axes: tuple[Axis, ...]
    measure: Callable[..., Any]


class Picture(NamedTuple):
    """name: of its file"""

    name: str
    caption: str
    draw: Callable[[Figures], bytes]


class Study(NamedTuple):
    """What is measured, sweep after sweep, and how it is shown. notes: paragraphs below the tables"""

    title: str
    lead: str
    sweeps: dict[str, Sweep]
    tables: tuple[Callable[[Figures], Table], ...]
    pictures: tuple[Picture, ...] = ()
    notes: Callable[[Figures], list[str]] = lambda _: []


def measure(study: Study, progress: Progress) -> Figures:
    """All sweeps at all points, one after the other."""
    points = [(name, point) for name, sweep in study.sweeps.items() for point in product(*map(_points, sweep.axes))]
    found: Figures = {name: {} for name in study.sweeps}
    for done, (name, point) in enumerate(points):
        labels, values = zip(*point, strict=True)
        progress(done, len(points), ", ".join((name, *labels)))
        found[name][labels if len(labels) > 1 else labels[0]] = study.sweeps[name].measure(*values)
    return found


def report_of(study: Study, found: Figures) -> Report:
    report = Report(study.title, study.lead)
    for table in study.tables:
        report.table(table(found))
    for note in study.notes(found):
        report.paragraph(note)
    for picture in study.pictures:
        report.picture(picture.draw(found), picture.caption, picture.name)
    return report


def _points(axis: Axis) -> list[tuple[str, Any]]:
    """Labels and values."""
    return [*axis.items()] if isinstance(axis, Mapping) else [(str(value), value) for value in axis]
