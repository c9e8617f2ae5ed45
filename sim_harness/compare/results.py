"""Results of many runs: means, spreads and outcomes of claims."""

import math
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

import msgspec

from sim_harness.compare.quantities import QUANTITIES
from sim_harness.measure.metrics import Summary


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """Folders and figures of the runs at one point, by seed."""

    folders: list[Path]
    summaries: list[Summary]


Results = dict[tuple[str, ...], Runs]
"""(scene, controller), or a `Cell` of a matrix → runs."""


class Statistic(NamedTuple):
    """Mean and standard deviation (0 for one) over the seeds whose robot stayed up; fallen: how many of `runs` did not."""

    mean: float
    spread: float
    fallen: int
    runs: int


def statistic(runs: Runs, quantity: str) -> Statistic:
    """Of a quantity; mean NaN when no run has it."""
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
    """A decided claim. holds: None when there was nothing to compare; measured: in one sentence."""

    claim: str
    holds: bool | None
    measured: str
    explanation: str
