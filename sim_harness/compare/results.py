"""Results of many runs: means, standard deviations and outcomes of claims."""

import math
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

import msgspec

from sim_harness.compare.quantities import QUANTITIES
from sim_harness.measure.metrics import Summary


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """Folders and summaries of the runs of one controller in one scene, one for each seed."""

    folders: list[Path]
    summaries: list[Summary]


Results = dict[tuple[str, ...], Runs]
"""(scene, controller), or a `Cell` of a matrix → runs."""


class Statistic(NamedTuple):
    """A quantity over the runs in which the robot stayed upright.

    spread: standard deviation, 0 for a single run; fallen: number of runs with a fall; runs: number of all runs
    """

    mean: float
    spread: float
    fallen: int
    runs: int


def statistic(runs: Runs, quantity: str) -> Statistic:
    """Return the statistic of a quantity; the mean is NaN when no run has the quantity."""
    value = QUANTITIES[quantity].value
    up = [value(summary) for summary in runs.summaries if summary.upright]
    numbers = [number for number in up if not math.isnan(number)]
    return Statistic(
        mean=mean(numbers) if numbers else math.nan,
        spread=stdev(numbers) if len(numbers) > 1 else 0.0,
        fallen=len(runs.summaries) - len(up),
        runs=len(runs.summaries),
    )


class Outcome(NamedTuple):
    """A checked claim. holds: whether it is true, None when that could not be decided; measured: measured values, as text"""

    claim: str
    holds: bool | None
    measured: str
    explanation: str
