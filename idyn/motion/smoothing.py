"""Smooth motions and their derivatives, as OpenSim's inverse dynamics computes them.

A series is continued at both ends by its point reflection, filtered forwards and backwards by a Butterworth filter, so that
nothing is delayed, and interpolated by splines, whose derivatives are velocity and acceleration.
"""

from typing import NamedTuple

import numpy as np
from scipy.interpolate import make_interp_spline
from scipy.signal import butter, sosfiltfilt

from idyn.errors import InputError
from idyn.types import Array, Record

UNIFORM = 0.1
"""Largest deviation of a sampling interval, as a share of the mean interval: times in files are rounded."""


class Filter(Record, frozen=True):
    """A low-pass filter. The defaults are those of OpenSim's inverse dynamics, with its customary cutoff of 6 Hz.

    cutoff: frequency [Hz], > 0; inf: no filter
    order: of the Butterworth filter, which is applied twice, ≥ 1
    spline: degree of the interpolating splines, 3 or 5
    padding: length of each continuation as a share of the series, 0 < padding ≤ 1

    Raises InputError for other values.
    """

    cutoff: float = 6.0
    order: int = 3
    spline: int = 5
    padding: float = 0.5

    def __post_init__(self) -> None:
        if not self.cutoff > 0.0:
            raise InputError("filter.cutoff", f"expected a number > 0 [Hz], got {self.cutoff!r}")
        if not (isinstance(self.order, int) and 1 <= self.order <= 8):
            raise InputError("filter.order", f"expected a whole number from 1 to 8, got {self.order!r}")
        if self.spline not in (3, 5):
            raise InputError("filter.spline", f"expected 3 or 5, got {self.spline!r}")
        if not 0.0 < self.padding <= 1.0:
            raise InputError("filter.padding", f"expected a number > 0 and ≤ 1, got {self.padding!r}")


class Smoothed(NamedTuple):
    """Values, and first and second derivatives by time [1/s, 1/s²], each (T, n)."""

    values: Array
    first: Array
    second: Array


def smooth(time: Array, values: Array, filter: Filter) -> Smoothed:
    """Return filtered values and their derivatives at the same times. time: uniform [s] (T); values: (T, n)

    Raises InputError for fewer than 8 samples, times that are not uniform, and a cutoff above half the sampling rate.
    """
    if len(time) < 8:
        raise InputError("motion", f"expected at least 8 frames, got {len(time)}")
    steps = np.diff(time)
    dt = float(steps.mean())
    if np.abs(steps - dt).max() > UNIFORM * dt:
        raise InputError("motion.time", f"expected uniform intervals, got some from {steps.min():g} to {steps.max():g} s")
    size = min(int(filter.padding * len(time)), len(time) - 1)
    padded = _continued(values, size)
    if np.isfinite(filter.cutoff):
        padded = _lowpass(padded, filter, dt)
    spline = make_interp_spline(dt * (np.arange(len(padded)) - size) + time[0], padded, k=filter.spline)
    at = time[0] + dt * np.arange(len(time))
    return Smoothed(spline(at), spline(at, 1), spline(at, 2))


def _continued(values: Array, size: int) -> Array:
    """Return the series with `size` samples of its point reflection at each end."""
    before = 2.0 * values[0] - values[size:0:-1]
    after = 2.0 * values[-1] - values[-2 : -size - 2 : -1]
    return np.concatenate([before, values, after])


def _lowpass(values: Array, filter: Filter, dt: float) -> Array:
    share = 2.0 * dt * filter.cutoff
    if share >= 1.0:
        raise InputError("filter.cutoff", f"expected less than half the sampling rate, {0.5 / dt:g} Hz, got {filter.cutoff:g}")
    out: Array = sosfiltfilt(butter(filter.order, share, output="sos"), values, axis=0, padtype=None)
    return out
