"""Results of many runs: means, spreads, and what became of claims."""

import math
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

import msgspec

from sim_harness.compare.quantities import QUANTITIES
from sim_harness.measure.metrics import Summary


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one controller in one scene, by seed: where they are and what they came to."""

    folders: list[Path]
    summaries: list[Summary]


Results = dict[tuple[str, ...], Runs]
"""(scene, controller), or a `Cell` of a matrix → runs."""


class Statistic(NamedTuple):
    """Over the seeds whose robot stayed up: mean and standard deviation (0 for one); fallen, runs: how many of how many."""

    mean: float
    spread: float
    fallen: int
    runs: int


def statistic(runs: Runs, quantity: str) -> Statistic:
    """Of a quantity; mean NaN when nobody has it."""
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
    """A claim after the data have spoken. holds: None when there was nothing to compare; measured: in one sentence."""

    claim: str
    holds: bool | None
    measured: str
    explanation: str
