"""Checks of claims against the results."""

import math

from sim_harness.compare.quantities import QUANTITIES
from sim_harness.compare.results import Outcome, Results, Runs, statistic
from sim_harness.compare.settings import CheckSettings, ComparisonSettings, VerdictSettings
from sim_harness.measure.metrics import Summary


def decide(check: CheckSettings, comparison: ComparisonSettings, results: Results) -> Outcome:
    """Check a claim in all its scenes; return the outcome in the scene with the smallest margin."""
    scenes = check.scenes or tuple(scene.name for scene in comparison.scene)
    margins_of = _order_margins if check.larger else _range_margins
    margins = [entry for scene in scenes for entry in margins_of(check, scene, results)]
    if not margins:
        return Outcome(check.claim, None, "no data", check.explanation)
    margin, measured = min(margins, key=lambda entry: entry[0])
    return Outcome(check.claim, margin >= 0.0, measured, check.explanation)


Margins = list[tuple[float, str]]
"""Pairs (margin, measured values as text); a margin is ≥ 0 where the claim holds."""


def _order_margins(check: CheckSettings, scene: str, results: Results) -> Margins:
    """Return a margin for each pair of `larger` and `smaller`.

    A fall of `smaller` refutes the claim. A fall of `larger` supports it only for quantities that a fall makes infinite.
    """
    margins = []
    for larger in check.larger:
        for smaller in check.smaller:
            if (scene, larger) not in results or (scene, smaller) not in results:
                continue
            more, less = (_level(results[scene, name], check.quantity) for name in (larger, smaller))
            if math.isinf(more) and (math.isinf(less) or not QUANTITIES[check.quantity].lost):
                continue  # not comparable
            ratio = _ratio(more, less)
            if not math.isnan(ratio):
                margins.append((ratio - check.factor, f"{_ratio_text(larger, more, smaller, less)} ({scene})"))
    return margins


def _ratio_text(larger: str, more: float, smaller: str, less: float) -> str:
    if math.isinf(more) or math.isinf(less):
        return f"{larger if math.isinf(more) else smaller} fell"
    return f"{larger} over {smaller}: {_ratio(more, less):.3g} times"


def _range_margins(check: CheckSettings, scene: str, results: Results) -> Margins:
    """Return a margin for each controller of the claim."""
    margins = []
    for name in check.controllers:
        if (scene, name) not in results:
            continue
        value = _level(results[scene, name], check.quantity)
        if math.isinf(value):
            margins.append((-math.inf, f"{name}: fell ({scene})"))
        elif not math.isnan(value):
            margin = min(value - check.at_least, check.at_most - value)
            margins.append((margin, f"{name}: {value:.3g} {QUANTITIES[check.quantity].heading} ({scene})"))
    return margins


def _level(runs: Runs, quantity: str) -> float:
    """Return the mean of a quantity over the seeds, infinite when any robot fell: values until a fall are not comparable."""
    figures = statistic(runs, quantity)
    return math.inf if figures.fallen else figures.mean


def _ratio(more: float, less: float) -> float:
    """Return the quotient of two numbers ≥ 0: infinite for a divisor 0, NaN when one of them is NaN."""
    return more / less if less else more + math.inf


def verdict(settings: VerdictSettings, scene: str, controller: str, results: Results) -> str:
    """Return PASS, or FAIL with the reason; '–' when the controller `smooth` fell: then no torque is there to compare with."""
    runs = results[scene, controller]
    rates = statistic(runs, "torque-rate")
    stopped = sum(_stopped(summary) for summary in runs.summaries)
    fell = sum(not summary.upright and not _stopped(summary) for summary in runs.summaries)
    if fell:
        return f"FAIL (fell, {fell} of {rates.runs})"
    if stopped:
        return f"FAIL (stopped, {stopped} of {rates.runs})"
    smooth = statistic(results[scene, settings.smooth], "torque-rate").mean
    if math.isnan(rates.mean) or math.isnan(smooth):
        return "–"
    if rates.mean > settings.factor * smooth:
        return f"FAIL (torque chatter, {_ratio(rates.mean, smooth):.0f} times {settings.smooth})"
    return "PASS"


def _stopped(summary: Summary) -> bool:
    """Return whether the run ended because the failsafe stopped the robot until a reset."""
    return summary.modes.get("failsafe:stopped", 0.0) > 0.0
