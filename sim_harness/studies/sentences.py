"""What a law got right and wrong in a run, in a sentence."""

import math
from collections.abc import Sequence

from sim_harness.measure.metrics import Summary

FORESEEN = 0.1
"""Relative error of the sum of the normal forces up to which a prediction counts as right."""

FOLLOWED = 0.05
"""Mean tracking error of the joints up to which they count as following their reference [rad]."""

RESTLESS = 3.0
"""The torque counts as restless when its mean rate is this many times that of the smoothest whole run."""


def right_and_wrong(summary: Summary, others: Sequence[Summary]) -> str:
    """Return what went right and what went wrong in a run, as text that begins with its verdict.

    others: all runs with the same task, to compare the torque rates with
    """
    right, wrong = _judged(summary, others)
    parts = [f"{word}: {'; '.join(found)}" for word, found in (("right", right), ("wrong", wrong)) if found]
    return ". ".join(parts if summary.verdict.good else parts[::-1])


def _judged(summary: Summary, others: Sequence[Summary]) -> tuple[list[str], list[str]]:
    right, wrong = list[str](), list[str]()
    (right if summary.verdict.good else wrong).append(summary.verdict.text)
    wrong.extend(summary.verdict.noted)
    error = summary.force_error_relative
    if not math.isnan(error):
        good = error <= FORESEEN
        (right if good else wrong).append(f"contact forces {'foreseen to' if good else 'wrong by'} {100 * error:.2g} %")
    if not math.isnan(summary.tracking):
        good = summary.tracking <= FOLLOWED
        text = f"joints within {1e3 * summary.tracking:.2g} mrad" if good else f"joints {1e3 * summary.tracking:.2g} mrad off"
        (right if good else wrong).append(text)
    if summary.substituted > 0.0:
        wrong.append(f"another law answered {100 * summary.substituted:.2g} % of the ticks")
    whole = [each for each in others if each.upright and each.torque_rate > 0.0]
    smoothest = min(whole, key=lambda each: each.torque_rate, default=None)
    if smoothest is not None and summary.torque_rate > RESTLESS * smoothest.torque_rate:
        factor = summary.torque_rate / smoothest.torque_rate
        wrong.append(f"torques change {factor:.2g} times as fast as with {smoothest.label}")
    return right, wrong
