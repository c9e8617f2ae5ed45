"""The table of the figures of runs, and what its headings mean."""

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sim_harness.measure.metrics import Summary
from sim_harness.report.tables import WIDTH, Table, listed, text_table


class Column(NamedTuple):
    """A column. cell: returns its text for a run; unit, meaning: '' where it needs none"""

    name: str
    unit: str
    cell: Callable[[Summary], str]
    meaning: str = ""

    @property
    def heading(self) -> str:
        return f"{self.name} {self.unit}".strip()


VERDICT = Column("verdict", "", lambda s: s.verdict.text)
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
