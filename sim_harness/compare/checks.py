"""Claims decided by the data."""

import math

from sim_harness.compare.quantities import QUANTITIES
from sim_harness.compare.results import Outcome, Results, Runs, statistic
from sim_harness.compare.settings import CheckSettings, ComparisonSettings, VerdictSettings


def decide(check: CheckSettings, comparison: ComparisonSettings, results: Results) -> Outcome:
    """A claim against the data, in the scene where it is nearest to failing."""
    scenes = check.scenes or tuple(scene.name for scene in comparison.scene)
    judge = _in_order if check.larger else _in_range
    judged = [entry for scene in scenes for entry in judge(check, scene, results)]
    if not judged:
        return Outcome(check.claim, None, "nothing was measured", check.explanation)
    margin, sentence = min(judged, key=lambda entry: entry[0])
    return Outcome(check.claim, margin >= 1.0, sentence, check.explanation)


Judged = list[tuple[float, str]]
"""Margins (≥ 1: it holds there) with what was measured."""


def _in_order(check: CheckSettings, scene: str, results: Results) -> Judged:
    judged = []
    for larger in check.larger:
        for smaller in check.smaller:
            if (scene, larger) not in results or (scene, smaller) not in results:
                continue
            more, less = (_level(results[scene, name], check.quantity) for name in (larger, smaller))
            if math.isnan(more) or math.isnan(less):
                continue
            ratio = _ratio(more, less)
            if math.isnan(ratio):
                continue
            judged.append((ratio / check.factor, f"{larger} over {smaller}: {ratio:.3g} times ({scene})"))
    return judged


def _in_range(check: CheckSettings, scene: str, results: Results) -> Judged:
    judged = []
    for name in check.controllers:
        if (scene, name) not in results:
            continue
        value = _level(results[scene, name], check.quantity)
        if math.isnan(value):
            continue
        margin = 1.0 if check.at_least <= value <= check.at_most else 0.0
        heading = QUANTITIES[check.quantity].heading
        said = "fell" if math.isinf(value) else f"{value:.3g}"
        judged.append((margin, f"{name}: {said} {'' if math.isinf(value) else heading} ({scene})".replace("  ", " ")))
    return judged


def _level(runs: Runs, quantity: str) -> float:
    """Mean over the seeds; infinite when any robot fell: what it did until then is not comparable."""
    figures = statistic(runs, quantity)
    return math.inf if figures.fallen else figures.mean


def _ratio(more: float, less: float) -> float:
    """NaN when both are infinite: two that fell cannot be told apart."""
    if math.isinf(more) and math.isinf(less):
        return math.nan
    return more / less if less > 0 else math.inf


def verdict(settings: VerdictSettings, scene: str, controller: str, results: Results) -> str:
    """PASS, or FAIL and why."""
    runs = results[scene, controller]
    rates = statistic(runs, "torque-rate")
    if rates.fallen:
        return f"FAIL (fell, {rates.fallen} of {rates.runs})"
    smooth = statistic(results[scene, settings.smooth], "torque-rate").mean
    if rates.mean > settings.factor * smooth:
        return f"FAIL (torque chatter, {rates.mean / smooth:.0f} times {settings.smooth})"
    return "PASS"
