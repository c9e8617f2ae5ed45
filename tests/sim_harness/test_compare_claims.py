"""Claims and verdicts: how data and falls decide them."""

import math

import msgspec
import pytest

from sim_harness.compare.checks import decide, verdict
from sim_harness.compare.quantities import QUANTITIES
from sim_harness.compare.results import Runs, statistic
from sim_harness.compare.settings import (
    CheckSettings,
    ComparisonSettings,
    SceneSettings,
    VerdictSettings,
)
from sim_harness.measure.metrics import Summary

SUMMARY = Summary(
    label="", engine="lcp", seconds=1.0, upright=True, height=0.1, tilt=0.0, drift=0.0, distance=0.0, tracking=1.0,
    speed_tracking=1.0, torque=1.0, torque_rate=1.0, torque_rate_max=1.0, weight=1.0, force=1.0, force_error=1.0,
    force_error_relative=0.01, contact_force_error=1.0, path_error=math.nan, modes={"ok": 0.75}, step_p50=None, step_p99=None,
    step_max=None, round_trip_p50=None, round_trip_p99=None, late=0, pace=1.0, longest_tick=0.001,
)  # fmt: skip


def runs(*values, upright=True, field="tracking"):
    return Runs(folders=[], summaries=[msgspec.structs.replace(SUMMARY, upright=upright, **{field: v}) for v in values])


def claim(results, **check):
    scenes = tuple(SceneSettings(name=name) for name in dict.fromkeys(scene for scene, _ in results))
    settings = ComparisonSettings(title="", scene=scenes)
    return decide(CheckSettings(claim="c", quantity=check.pop("quantity", "tracking"), **check), settings, results)


def test_mean_and_spread_leave_out_falls():
    both = Runs(folders=[], summaries=[*runs(1.0, 3.0).summaries, *runs(100.0, upright=False).summaries])
    figures = statistic(both, "tracking")
    assert (figures.mean, figures.fallen, figures.runs) == (2.0, 1, 3)
    assert figures.spread == pytest.approx(math.sqrt(2))
    assert math.isnan(statistic(runs(1.0, upright=False), "tracking").mean)
    assert QUANTITIES["degraded"].value(SUMMARY) == 25.0


def test_an_order_is_decided_by_the_worst_pair():
    results = {("a", "pid"): runs(3.0), ("a", "id-qp-mu"): runs(1.0), ("b", "pid"): runs(2.1), ("b", "id-qp-mu"): runs(1.0)}
    order = {"larger": ("pid",), "smaller": ("id-qp-mu",)}
    outcome = claim(results, **order, factor=2.0)
    assert outcome.holds is True
    assert outcome.measured == "pid over id-qp-mu: 2.1 times (b)"
    assert claim(results, **order, factor=2.5).holds is False
    assert claim(results, **order, factor=2.5, scenes=("a",)).holds is True


def test_a_fall_is_worse_than_any_run_and_two_falls_are_not_compared():
    fell, stood = runs(0.1, upright=False), runs(1.0)
    order = {"larger": ("pid",), "smaller": ("id-qp-mu",)}
    assert claim({("a", "pid"): fell, ("a", "id-qp-mu"): stood}, **order).holds is True
    assert claim({("a", "pid"): stood, ("a", "id-qp-mu"): fell}, **order).holds is False
    assert claim({("a", "pid"): fell, ("a", "id-qp-mu"): fell}, **order).holds is None


def test_after_a_fall_claims_about_other_quantities_do_not_hold():
    """A fallen robot has a small torque rate and a short path."""
    fell, stood = runs(0.1, upright=False), runs(1.0)
    results = {("a", "pid"): fell, ("a", "id-qp-mu"): stood}
    for quantity in ("torque-rate-max", "distance", "torque"):
        for larger, smaller, holds in (("pid", "id-qp-mu", None), ("id-qp-mu", "pid", False)):
            assert claim(results, quantity=quantity, larger=(larger,), smaller=(smaller,)).holds is holds
    outcome = claim(results, controllers=("pid", "id-qp-mu"), at_least=0.5)
    assert (outcome.holds, outcome.measured) == (False, "pid: fell (a)")
    assert claim(results, controllers=("id-qp-mu",), at_least=0.5).holds is True


def test_a_range_names_the_controller_nearest_to_its_limit():
    results = {("a", "pid"): runs(5.0), ("a", "id-t-1"): runs(9.0), ("b", "pid"): runs(2.0)}
    assert claim(results, controllers=("pid", "id-t-1"), at_most=10.0).measured.startswith("id-t-1: 9")
    assert claim(results, controllers=("pid", "id-t-1"), at_least=1.5, at_most=20.0).measured.startswith("pid: 2")


def test_a_range_holds_only_if_every_controller_keeps_it():
    results = {
        ("a", "pid"): runs(0.011, field="force_error_relative"),
        ("a", "id-t-1"): runs(0.03, field="force_error_relative"),
    }
    limits = {"quantity": "force-error-relative", "at_least": 1.0, "at_most": 2.0}
    assert claim(results, **limits, controllers=("pid",)).holds is True
    outcome = claim(results, **limits, controllers=("pid", "id-t-1"))
    assert outcome.holds is False
    assert outcome.measured.startswith("id-t-1: 3")


def test_verdicts_report_falls_stops_and_chatter():
    settings = VerdictSettings(smooth="id-qp-mu", factor=10.0)
    results = {
        ("a", "id-qp-mu"): runs(1.0, field="torque_rate"),
        ("a", "id-lcp-mu"): runs(11.0, field="torque_rate"),
        ("a", "pid"): runs(1.0, upright=False),
    }
    assert verdict(settings, "a", "id-qp-mu", results) == "PASS"
    assert verdict(settings, "a", "id-lcp-mu", results) == "FAIL (torque chatter, 11 times id-qp-mu)"
    assert verdict(settings, "a", "pid", results) == "FAIL (fell, 1 of 1)"
    results["a", "id-t-1"] = runs({"ok": 0.9, "failsafe:stopped": 0.1}, field="modes")
    assert verdict(settings, "a", "id-t-1", results) == "FAIL (stopped, 1 of 1)"
    without = msgspec.structs.replace(settings, smooth="pid")
    assert verdict(without, "a", "id-lcp-mu", results) == "–"
    assert verdict(without, "a", "pid", results) == "FAIL (fell, 1 of 1)"
