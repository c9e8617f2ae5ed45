"""Decisions about claims."""

import math

from sim_harness.compare.quantities import QUANTITIES
from sim_harness.compare.results import Outcome, Results, Runs, statistic
from sim_harness.compare.settings import CheckSettings, ComparisonSettings, VerdictSettings
from sim_harness.measure.metrics import Summary


def decide(check: CheckSettings, comparison: ComparisonSettings, results: Results) -> Outcome:
    """A claim against the data, in the scene where it is nearest to failing."""
    scenes = check.scenes or tuple(scene.name for scene in comparison.scene)
    judge = _in_order if check.larger else _in_range
    judged = [entry for scene in scenes for entry in judge(check, scene, results)]
    if not judged:
        return Outcome(check.claim, None, "nothing was measured", check.explanation)
    margin, sentence = min(judged, key=lambda entry: entry[0])
    return Outcome(check.claim, margin >= 0.0, sentence, check.explanation)


Judged = list[tuple[float, str]]
"""Margins (≥ 0: it holds there) with what was measured."""


def _in_order(check: CheckSettings, scene: str, results: Results) -> Judged:
    """A fall of `smaller` disproves the claim; one of `larger` proves nothing but that the robot lost its aim."""
    judged = []
    for larger in check.larger:
        for smaller in check.smaller:
            if (scene, larger) not in results or (scene, smaller) not in results:
                continue
            more, less = (_level(results[scene, name], check.quantity) for name in (larger, smaller))
            if math.isinf(more) and (math.isinf(less) or not QUANTITIES[check.quantity].lost):
                continue  # not comparable
            ratio = _ratio(more, less)
            if not math.isnan(ratio):
                judged.append((ratio - check.factor, f"{_said(larger, more, smaller, less)} ({scene})"))
    return judged


def _said(larger: str, more: float, smaller: str, less: float) -> str:
    if math.isinf(more) or math.isinf(less):
        return f"{larger if math.isinf(more) else smaller} fell"
    return f"{larger} over {smaller}: {_ratio(more, less):.3g} times"


def _in_range(check: CheckSettings, scene: str, results: Results) -> Judged:
    judged = []
    for name in check.controllers:
        if (scene, name) not in results:
            continue
        value = _level(results[scene, name], check.quantity)
        if math.isinf(value):
            judged.append((-math.inf, f"{name}: fell ({scene})"))
        elif not math.isnan(value):
            margin = min(value - check.at_least, check.at_most - value)
            judged.append((margin, f"{name}: {value:.3g} {QUANTITIES[check.quantity].heading} ({scene})"))
    return judged


def _level(runs: Runs, quantity: str) -> float:
    """Mean over the seeds; infinite when any robot fell: what it did until then is not comparable."""
    figures = statistic(runs, quantity)
    return math.inf if figures.fallen else figures.mean


def _ratio(more: float, less: float) -> float:
    """NaN when one of them is."""
    return more / less if less else more + math.inf


def verdict(settings: VerdictSettings, scene: str, controller: str, results: Results) -> str:
    """PASS, or FAIL and why; '–' without a torque to compare with, because the smooth controller fell."""
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
    """Whether the robot's failsafe stopped it for good, which ends a run."""
    return summary.modes.get("failsafe:stopped", 0.0) > 0.0
