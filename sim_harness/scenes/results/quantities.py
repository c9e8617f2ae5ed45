"""Quantities that can be measured in a run."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from idyn.types import Array
from sim_harness.scenes.residuals import NAMES
from sim_harness.scenes.results.recording import Recording


class Quantity(NamedTuple):
    """A quantity; value: function of a recording and the index of a body."""

    unit: str
    value: Callable[[Recording, int], float]


def late(r: Recording) -> slice:
    """Return the last quarter of the steps."""
    return slice(3 * r.steps // 4, None)


def openings(r: Recording) -> Array:
    """Return the largest error of rigid closures and stops at the beginning of each step [m or rad] (N)."""
    return np.asarray(r.residuals[:, NAMES.index("closure")])


def period(r: Recording, body: int) -> float:
    """Return the period of an oscillation along x about 0: twice the mean time between zero crossings [s].

    NaN with fewer than two crossings.
    """
    x = r.centres[:, body, 0]
    before = np.flatnonzero(x[:-1] * x[1:] < 0)
    if len(before) < 2:
        return float("nan")
    crossings = r.t[before] - x[before] * (r.t[before + 1] - r.t[before]) / (x[before + 1] - x[before])
    return float(2 * np.diff(crossings).mean())


def swing(r: Recording, body: int) -> float:
    """Return max |x| over the last quarter of the run, divided by |x| at the start, of an oscillation along x about 0."""
    x = np.abs(r.centres[:, body, 0])
    return float(x[1:][late(r)].max() / x[0])


def landing(r: Recording, body: int) -> float:
    """Return the end of the first step with a contact force on the body, NaN without any [s]."""
    pressed = np.abs(r.force[:, body]).max(axis=1) > 0
    return float(r.t[1 + np.argmax(pressed)]) if pressed.any() else float("nan")


QUANTITIES = {
    "travel": Quantity("m", lambda r, b: float(r.centres[-1, b, 0] - r.centres[0, b, 0])),
    "rise": Quantity("m", lambda r, b: float(r.centres[-1, b, 2] - r.centres[0, b, 2])),
    "displacement": Quantity("m", lambda r, b: float(np.linalg.norm(r.centres[-1, b] - r.centres[0, b]))),
    "speed": Quantity("m/s", lambda r, b: float(np.linalg.norm(r.velocities[-1, b]))),
    "acceleration": Quantity("m/s²", lambda r, b: float((r.velocities[-1, b, 0] - r.velocities[0, b, 0]) / r.t[-1])),
    "load": Quantity("N", lambda r, b: float(np.abs(r.force[late(r), b, 2]).mean())),
    "penetration": Quantity("m", lambda r, b: float(max(0.0, -r.gap[-1, b]))),
    "slip": Quantity("m/s", lambda r, b: float(r.slip[late(r), b].max())),
    "landing": Quantity("s", landing),
    "load of all": Quantity("N", lambda r, b: float(np.abs(r.force[late(r)][:, r.masses > 0, 2].sum(axis=1)).mean())),
    "load of loose": Quantity("N", lambda r, b: float(abs(r.force[late(r)][:, r.loose, 2].sum(axis=1).mean()))),
    "bearing": Quantity("N", lambda r, b: float(abs(r.force[late(r), b:, 2].sum(axis=1).mean()))),
    "squeeze": Quantity("N", lambda r, b: float(np.abs(r.force[late(r), b, 0]).mean())),
    "penetration of all": Quantity("m", lambda r, b: float(max(0.0, -r.gap[late(r)].min()))),
    "speed of all": Quantity("m/s", lambda r, b: float(np.linalg.norm(r.velocities[-1], axis=1).max())),
    "mean speed of all": Quantity("m/s", lambda r, b: float(np.linalg.norm(r.velocities[-1, r.masses > 0], axis=1).mean())),
    "lift": Quantity("m/s²", lambda r, b: float((r.velocities[-1, b, 2] - r.velocities[0, b, 2]) / r.t[-1])),
    "period": Quantity("s", period),
    "drift": Quantity("m", lambda r, b: float(openings(r).max())),
    "drift-growth": Quantity("m", lambda r, b: float(openings(r)[late(r)].max() - openings(r)[: r.steps // 4].max())),
    "swing": Quantity("–", swing),
    "energy-change": Quantity("J", lambda r, b: float(r.energy[-1] - r.energy[0])),
}
"""Quantities by name. `travel`, `acceleration`, `squeeze`, `period` and `swing` are along x, `lift` is upwards. Forces, slip
and `penetration of all` are those of the last quarter of the run. `bearing` is the total contact force on a body and all
bodies listed after it. `drift` is the largest error of a closure, `drift-growth` its increase from the first to the last
quarter."""
