"""Claims and verdicts: how data and falls decide them."""

import math

import msgspec
import pytest

from sim_harness.compare.quantities import QUANTITIES
from sim_harness.compare.report import scene_table
from sim_harness.compare.results import Runs, decide, statistic, verdict
from sim_harness.compare.settings import CheckSettings, ComparisonSettings, SceneSettings, VerdictSettings
from sim_harness.measure.metrics import Summary
from sim_harness.measure.verdict import Ending
from sim_harness.measure.verdict import verdict as judged

SUMMARY = Summary(
    label="", engine="lcp", seconds=1.0, verdict=judged(Ending.STOOD, "stood 1.0 s"), height=0.1, tilt=0.0, drift=0.0,
    distance=0.0, tracking=1.0, speed_tracking=1.0, torque=1.0, torque_rate=1.0, torque_rate_max=1.0, weight=1.0, force=1.0,
    risen=math.nan, last_tracking=1.0,
    force_error=1.0, force_error_relative=0.01, contact_force_error=1.0, path_error=math.nan, modes={"ok": 0.75},
    forward=0.4, left=-0.1, turn=0.5,
    substituted=0.125, told=0.75, step_p50=None, step_p99=None, step_max=None, round_trip_p50=None, round_trip_p99=None, late=0,
    pace=1.0,
    longest_tick=0.001,
)  # fmt: skip


FELL = judged(Ending.FELL, "fell at 0.50 s", 0.5)


def runs(*values, verdict=SUMMARY.verdict, field="tracking"):
    return Runs(folders=[], summaries=[msgspec.structs.replace(SUMMARY, verdict=verdict, **{field: v}) for v in values])


def claim(results, **check):
    scenes = tuple(SceneSettings(name=name) for name in dict.fromkeys(scene for scene, _ in results))
    settings = ComparisonSettings(title="", scene=scenes)
    return decide(CheckSettings(claim="c", quantity=check.pop("quantity", "tracking"), **check), settings, results)


def test_mean_and_spread_leave_out_falls():
    both = Runs(folders=[], summaries=[*runs(1.0, 3.0).summaries, *runs(100.0, verdict=FELL).summaries])
    figures = statistic(both, "tracking")
    assert (figures.mean, figures.cut_short, figures.runs) == (2.0, ("fell",), 3)
    assert figures.spread == pytest.approx(math.sqrt(2))
    assert math.isnan(statistic(runs(1.0, verdict=FELL), "tracking").mean)
    assert QUANTITIES["substituted"].value(SUMMARY) == 12.5
    assert QUANTITIES["told"].value(SUMMARY) == 75.0


def test_a_single_run_has_its_verdict_and_no_spread_and_several_have_counts():
    comparison = ComparisonSettings(
        title="", controllers=("pid", "id-qp-mu", "id-t-1"), quantities=("tracking",), scene=(SceneSettings(name="a"),)
    )
    results = {("a", "pid"): runs(2.0), ("a", "id-qp-mu"): runs(2.0, 2.0), ("a", "id-t-1"): runs(1.0, verdict=FELL)}
    heading, pid, id_qp_mu, id_t_1 = scene_table(comparison, comparison.scene[0], results)
    assert heading[2] == "verdicts"
    assert pid[1:] == ["2", "stood 1.0 s at 1 N·m/s"]
    assert id_qp_mu[1:] == ["2 ± 0", "2 stood at 1 N·m/s"]
    assert id_t_1[1:] == ["fell", "fell at 0.50 s, torques for 0.8 s"]


def test_an_order_is_decided_by_the_worst_pair():
    results = {("a", "pid"): runs(3.0), ("a", "id-qp-mu"): runs(1.0), ("b", "pid"): runs(2.1), ("b", "id-qp-mu"): runs(1.0)}
    order = {"larger": ("pid",), "smaller": ("id-qp-mu",)}
    outcome = claim(results, **order, factor=2.0)
    assert outcome.holds is True
    assert outcome.measured == "pid over id-qp-mu: 2.1 times (b)"
    assert claim(results, **order, factor=2.5).holds is False
    assert claim(results, **order, factor=2.5, scenes=("a",)).holds is True


def test_a_claim_is_refuted_by_its_own_fall_and_not_decided_by_that_of_the_other():
    fell, stood = runs(0.1, verdict=FELL), runs(1.0)
    order = {"larger": ("pid",), "smaller": ("id-qp-mu",)}
    undecided = claim({("a", "pid"): fell, ("a", "id-qp-mu"): stood}, **order)
    assert (undecided.holds, undecided.measured) == (None, "pid: fell (a)")
    both = {("a", "pid"): fell, ("a", "id-qp-mu"): stood, ("b", "pid"): runs(3.0), ("b", "id-qp-mu"): stood}
    assert (claim(both, **order).holds, claim(both, **order, factor=4.0).holds) == (True, False)
    assert claim({("a", "pid"): stood, ("a", "id-qp-mu"): fell}, **order).holds is False
    assert claim({("a", "pid"): fell, ("a", "id-qp-mu"): fell}, **order).holds is None


def test_after_a_fall_claims_about_other_quantities_do_not_hold():
    """A fallen robot has a small torque rate and a short path."""
    fell, stood = runs(0.1, verdict=FELL), runs(1.0)
    results = {("a", "pid"): fell, ("a", "id-qp-mu"): stood}
    for quantity in ("torque-rate-max", "distance", "torque", "tracking"):
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
        ("a", "pid"): runs(1.0, verdict=FELL),
    }
    assert verdict(settings, "a", "id-qp-mu", results) == "PASS"
    assert verdict(settings, "a", "id-lcp-mu", results) == "FAIL (torque chatter, 11 times id-qp-mu)"
    assert verdict(settings, "a", "pid", results) == "FAIL (fell, 1 of 1)"
    results["a", "id-t-1"] = runs(1.0, verdict=judged(Ending.STOPPED, "was stopped", 0.9))
    assert verdict(settings, "a", "id-t-1", results) == "FAIL (stopped, 1 of 1)"
    without = msgspec.structs.replace(settings, smooth="pid")
    assert verdict(without, "a", "id-lcp-mu", results) == "–"
    assert verdict(without, "a", "pid", results) == "FAIL (fell, 1 of 1)"
