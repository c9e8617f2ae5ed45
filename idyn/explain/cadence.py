"""Cadence: how often the centre of mass rises, once a step, and filters that are scaled with it.

A filter for walking would cut off what matters in running. Cutoffs are given for `STEPS` steps per second.
"""

import msgspec
import numpy as np

from idyn.explain.frames import motion_of
from idyn.model.osim.coordinates import Coordinates
from idyn.model.robot import Robot
from idyn.motion.smoothing import Filter
from idyn.motion.storage import Table
from idyn.types import Array

STEPS = 1.61
"""Steps per second for which cutoffs are given: those of Gait2354's subject01."""

ROUGH = 10.0
"""Cutoff for the motion of the centre of mass while the cadence is not known [Hz]."""

SLOWEST, FASTEST = 0.8, 4.5
"""Bounds of the cadence [steps per second]."""

STILL = 0.005
"""Whoever rises less than this does not step [m]."""


def cadence_of(time: Array, height: Array) -> float:
    """Return steps per second, `STEPS` where nobody steps. time: uniform [s] (T); height: of the centre of mass [m] (T)

    The frequency between the bounds whose sine and cosine, with a constant and a slope, fit the height best.
    """
    if np.ptp(height) < STILL:
        return STEPS
    t = time - time.mean()
    rates = np.arange(max(SLOWEST, 1.0 / (time[-1] - time[0])), FASTEST, 0.01)
    errors = [_misfit(t, height, 2.0 * np.pi * rate) for rate in rates]
    return float(rates[int(np.argmin(errors))]) if len(rates) else STEPS


def _misfit(t: Array, height: Array, w: float) -> float:
    basis = np.column_stack([np.ones_like(t), t, np.cos(w * t), np.sin(w * t)])
    return float(np.linalg.norm(height - basis @ np.linalg.lstsq(basis, height)[0]))


def pace_of(robot: Robot, coordinates: Coordinates, table: Table) -> float:
    """Return the cadence of a motion, in units of `STEPS`. Raises the exceptions of `motion_of`."""
    rate = (len(table.time) - 1) / float(table.time[-1] - table.time[0])
    motion = motion_of(table, coordinates, Filter(cutoff=min(ROUGH, 0.4 * rate), order=2))
    height = np.array([robot.center_of_mass(q)[2] for q in motion.q])
    return cadence_of(motion.time, height) / STEPS


def scaled(filter: Filter, scale: float) -> Filter:
    """Return the filter with its cutoff scaled."""
    return msgspec.structs.replace(filter, cutoff=scale * filter.cutoff)
