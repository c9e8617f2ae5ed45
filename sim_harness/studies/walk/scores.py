"""Figures of a force beside the measured one."""

from typing import NamedTuple

import numpy as np

from idyn.types import Array

COMPONENTS = {"vertical": 1, "fore-aft": 0, "mediolateral": 2}
"""Components of a force in OpenSim's ground frame: x forward, y up, z to the right."""


NAN = float("nan")


class Score(NamedTuple):
    """Error of a curve. rms [N or N·m]; weight: rms as a share of body weight; range, most: rms by the measured curve's range
    and by its largest absolute value; both: rms by the mean of both curves' ranges; correlation"""

    rms: float
    weight: float
    range: float
    most: float
    both: float
    correlation: float


def score(found: Array, wanted: Array, weight: float, span: float | None = None) -> Score:
    """Return the figures of a curve. span: range of the measured curve, where it is that of more frames than these"""
    if len(wanted) < 2:
        return Score(NAN, NAN, NAN, NAN, NAN, NAN)
    rms = float(np.sqrt(np.mean((found - wanted) ** 2)))
    own = float(np.ptp(wanted)) if span is None else span
    still = np.ptp(found) == 0.0 or np.ptp(wanted) == 0.0
    correlation = NAN if still else float(np.corrcoef(found, wanted)[0, 1])
    most, both = float(np.abs(wanted).max()), 0.5 * (own + float(np.ptp(found)))
    shares = [rms / by if by > 0.0 else NAN for by in (own, most, both)]
    return Score(rms, rms / weight, shares[0], shares[1], shares[2], correlation)


def cells(figures: Score) -> list[str]:
    """Return a table's cells: N, % of body weight, by range, by maximum, by mean of ranges, correlation."""
    rms, weight, *shares, correlation = figures
    return [f"{rms:.1f}", f"{100 * weight:.1f}", *(f"{share:.3f}" for share in shares), f"{correlation:.3f}"]


HEADS = ["RMSE [N]", "RMSE [% of weight]", "RMSE / range", "RMSE / maximum", "RMSE / mean of both ranges", "correlation"]
"""Headings of `cells`."""
