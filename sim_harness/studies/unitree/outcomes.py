"""Figures of runs in Unitree's simulator, and their tables and picture."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from idyn.types import Array
from sim_harness.compare.study import Figures
from sim_harness.report.plots import Plot, picture
from sim_harness.report.tables import Table, listed
from sim_harness.studies.unitree.judge import EstimateFigures, Walk

LAWS = ("coulomb", "no-slip")

TARGETS = "targets"
"""Runs without a server: the bridge answers each state with a target of the motors, which is what the loop costs at least."""

REAL_TIME = 0.98
"""A run counts if the simulator has kept this share of real time."""

SLOW = 0.01
"""A lower speed is commanded to trot in place [m/s]."""


class Outcome(NamedTuple):
    """A run.

    ended: '' if the script was completed, otherwise why not; real_time: share of real time of the simulator
    rate: answered states per second [1/s]; gap: longest time between two of them [s]; served: share answered with `ok`
    answered: number of states; missed: that arrived together with a later one
    delays: from a state to its command, median and 99 % quantile [s]
    walks: by step of the script; tilt: largest [rad]; torque_rate: mean |dτ/dt| [N·m/s]; tracking: mean |error| [rad]
    estimates: None if no state was served; heights: time [s] and height of the base [m] (2, n), for the picture
    """

    ended: str
    real_time: float
    rate: float = 0.0
    gap: float = np.nan
    served: float = 0.0
    answered: int = 0
    missed: int = 0
    delays: tuple[float, float] = (np.nan, np.nan)
    walks: tuple[Walk, ...] = ()
    tilt: float = np.nan
    torque_rate: float = np.nan
    tracking: float = np.nan
    estimates: EstimateFigures | None = None
    heights: Array | None = None


def tasks_table(found: Figures) -> Table:
    """Return what the robot did in each run."""
    columns = {
        "ended": lambda o: o.ended or "complete",
        "× real time": lambda o: f"{o.real_time:.3f}",
        "states/s": lambda o: f"{o.rate:.0f}",
        "longest gap ms": lambda o: _n(1e3 * o.gap),
        "ok %": lambda o: f"{100 * o.served:.2f}",
        "way of the steps": lambda o: "; ".join(map(_walk, o.walks)),
        "tilt mrad": lambda o: _n(1e3 * o.tilt),
        "mean abs dτ/dt N·m/s": lambda o: _n(o.torque_rate),
        "tracking mrad": lambda o: _n(1e3 * o.tracking),
    }
    return listed("run", [(", ".join(labels), o) for labels, o in found["runs"].items() if labels[1] != TARGETS], columns)


def loop_table(found: Figures) -> Table:
    """Return the time from a state to its command, by law and with targets alone: medians over the runs."""
    rows = []
    for law in (*LAWS, TARGETS):
        outcomes = [o for (_, each), o in found["runs"].items() if each == law]
        rows.append((law, [float(np.median([f(o) for o in outcomes])) for f in _LOOP], len(outcomes)))
    least = dict((law, figures) for law, figures, _ in rows)[TARGETS]
    columns = {
        "runs": lambda row: str(row[2]),
        "p50 µs": lambda row: _n(1e6 * row[1][0]),
        "p99 µs": lambda row: _n(1e6 * row[1][1]),
        "p50 / targets": lambda row: _n(row[1][0] / least[0]),
        "p99 / targets": lambda row: _n(row[1][1] / least[1]),
        "missed states %": lambda row: _n(100 * row[1][2]),
        "longest gap ms": lambda row: _n(1e3 * row[1][3]),
    }
    return listed("answers", [(row[0], row) for row in rows], columns)


_LOOP: tuple[Callable[[Outcome], float], ...] = (
    lambda o: o.delays[0],
    lambda o: o.delays[1],
    lambda o: o.missed / max(o.answered + o.missed, 1),
    lambda o: o.gap,
)


def _walk(walk: Walk) -> str:
    """Return the way along the commanded velocity, of a step with one; otherwise the displacement."""
    forward, left, turn = walk.asked
    if abs(turn) > max(abs(forward), abs(left)):
        return f"{walk.turned:.2f} rad"
    if abs(left) > abs(forward):
        return f"{walk.left:.2f} m left"
    return f"{walk.forward:.2f} m" if abs(forward) > SLOW else f"{100 * np.hypot(walk.forward, walk.left):.1f} cm"


def estimates_table(found: Figures) -> Table:
    """Return the errors of the estimates of each run."""
    columns = {
        "v_x, v_y, v_z mm/s rms": lambda e: _list(e.velocity),
        "tilt mrad": lambda e: _n(1e3 * e.tilt),
        "height mm": lambda e: _n(1e3 * e.height),
        "drift % of way": lambda e: _n(100 * e.drift),
        "feet right % trotting": lambda e: f"{100 * e.right:.2f}",
        "touchdown ms p50, p95": lambda e: _list(e.touchdown),
        "lift-off ms p50, p95": lambda e: _list(e.liftoff),
    }
    served = [(", ".join(labels), o.estimates) for labels, o in found["runs"].items() if o.estimates is not None]
    return listed("run", served, columns)


def _list(values: Array) -> str:
    return ", ".join(_n(1e3 * value) for value in values)


def _n(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "–"


def shares(found: Figures) -> list[str]:
    """Return how many runs of each law were complete."""
    texts = []
    for law in LAWS:
        outcomes = [o for (_, each), o in found["runs"].items() if each == law]
        kept = [o for o in outcomes if o.real_time >= REAL_TIME]
        complete = sum(not o.ended for o in kept)
        slower = f"; {len(outcomes) - len(kept)} more below {REAL_TIME:g} of real time" if len(kept) < len(outcomes) else ""
        texts.append(f"{law}: {complete} of {len(kept)} runs complete{slower}")
    return texts


def heights(found: Figures) -> bytes:
    """Draw the height of the base over time, one line for each run, and a panel for each law."""
    panels = []
    for law in LAWS:
        lines = {run: tuple(o.heights) for (run, each), o in found["runs"].items() if each == law and o.heights is not None}
        panels.append(Plot(lines=lines, width=0.6, axes={"title": law, "ylabel": "height of the base [m]"}))
    return picture(panels)
