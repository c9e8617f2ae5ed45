"""Errors of forecasts against measured tosses."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from idyn.types import Array
from sim_harness.judge.tosses import EDGE, Toss
from sim_harness.studies.tosses.forecast import Forecast

Forecaster = Callable[[Toss, int, int], Forecast]
"""Called with a toss, the first sample, and the number of samples."""

WINDOWS: dict[str, int | None] = {"one step": 2, "0.1 s": 16, "whole toss": None}
"""Name → samples of a window, its given first sample included; None: all of the toss."""


class Errors(NamedTuple):
    """Errors of tosses (n each).

    position: [block widths]; rotation: angle [rad]
    """

    position: Array
    rotation: Array


def sample_errors(toss: Toss, first: int, forecast: Forecast) -> tuple[Array, Array]:
    """Return the error of position [block widths] and the angle of rotation [rad] of every sample but the given one (N − 1)."""
    last = first + len(forecast.position)
    distance = np.linalg.norm(forecast.position - toss.position[first:last], axis=1) / EDGE
    relative = np.einsum("nji,njk->nik", forecast.rotation, toss.rotation[first:last])
    return distance[1:], angles_of(relative)[1:]


def angles_of(rotations: Array) -> Array:
    """Return the angles of rotation matrices [rad] (N). Accurate for small angles too."""
    skew = rotations - np.swapaxes(rotations, 1, 2)
    sine = 0.5 * np.sqrt(0.5) * np.linalg.norm(skew, axis=(1, 2))
    cosine = 0.5 * (np.trace(rotations, axis1=1, axis2=2) - 1.0)
    return np.arctan2(sine, cosine)


def whole_errors(forecaster: Forecaster, tosses: Sequence[Toss]) -> Errors:
    """Return the errors of forecasts of whole tosses from their first samples, means over the samples of each."""
    return means_of([sample_errors(toss, 0, forecaster(toss, 0, len(toss))) for toss in tosses])


def means_of(errors: Sequence[tuple[Array, Array]]) -> Errors:
    """Return the means over the samples of each toss. errors: results of `sample_errors`"""
    return Errors(*(np.array([each.mean() for each in column]) for column in zip(*errors, strict=True)))


def window_errors(forecaster: Forecaster, tosses: Sequence[Toss], samples: int) -> Errors:
    """Return the errors at the end of windows, means over the windows of each toss.

    Windows of `samples` samples follow one another from the first sample of the toss; each starts from the measured state.
    """
    found = []
    for toss in tosses:
        firsts = range(0, len(toss) - samples + 1, samples - 1)
        ends = [sample_errors(toss, first, forecaster(toss, first, samples)) for first in firsts]
        found.append((np.mean([end[0][-1] for end in ends]), np.mean([end[1][-1] for end in ends])))
    return Errors(*(np.array(column) for column in zip(*found, strict=True)))


def loss(errors: Errors) -> Array:
    """Return the loss of each toss: position error [block widths] + rotation error [rad] (n)."""
    return errors.position + errors.rotation
