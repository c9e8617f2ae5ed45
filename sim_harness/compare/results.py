"""Results of many runs: means, standard deviations and outcomes of claims."""

import math
from collections import Counter
from collections.abc import Iterable
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
    """A quantity over the whole runs.

    spread: standard deviation, NaN for a single run
    cut_short: endings of the runs that a fall, a refusal or a stop cut short; runs: number of all runs
    """

    mean: float
    spread: float
    cut_short: tuple[str, ...]
    runs: int


def statistic(runs: Runs, quantity: str) -> Statistic:
    """Return the statistic of a quantity; the mean is NaN when no run has the quantity."""
    value = QUANTITIES[quantity].value
    up = [value(summary) for summary in runs.summaries if summary.upright]
    numbers = [number for number in up if not math.isnan(number)]
    return Statistic(
        mean=mean(numbers) if numbers else math.nan,
        spread=stdev(numbers) if len(numbers) > 1 else math.nan,
        cut_short=tuple(summary.verdict.ending.value for summary in runs.summaries if not summary.upright),
        runs=len(runs.summaries),
    )


def verdicts(runs: Runs) -> str:
    """Return how many runs had which ending, as in '2 walked, 1 fell'; for a single run its verdict."""
    if len(runs.summaries) == 1:
        return runs.summaries[0].verdict.text
    counts = Counter(summary.verdict.ending.value for summary in runs.summaries)
    return ", ".join(f"{count} {ending}" for ending, count in counts.most_common())


def either(endings: Iterable[str]) -> str:
    """Return different endings as text, as in 'fell or stopped'."""
    return " or ".join(dict.fromkeys(endings))


def lost(runs: Runs) -> str:
    """Return how and after which mean time runs were cut short, as in 'fell after 1.2 s'; '' if none was."""
    judged = [summary.verdict for summary in runs.summaries if not summary.upright]
    if not judged:
        return ""
    times = [verdict.at for verdict in judged if verdict.at is not None]
    return f"{either(verdict.ending.value for verdict in judged)} after {mean(times):.1f} s"


class Outcome(NamedTuple):
    """A checked claim. holds: whether it is true, None when that could not be decided; measured: measured values, as text"""

    claim: str
    holds: bool | None
    measured: str
    explanation: str
