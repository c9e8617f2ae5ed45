"""Figures and other outcomes of recorded logs."""

import msgspec
import pytest
from fast import full

from sim_harness.commands.main import main
from sim_harness.compare import jobs
from sim_harness.compare.ambiguity import Ambiguities, Ambiguity, ambiguities, ambiguities_text
from sim_harness.compare.jobs import LOG, finished, load_trace, run_task
from sim_harness.compare.run import Options, all_tasks
from sim_harness.compare.settings import load_comparison
from sim_harness.measure.metrics import normal_forces
from sim_harness.run.logs import summarise_log
from sim_harness.run.plan import build_plan, load_plan


@full
def test_a_log_gives_the_figures_of_its_run(comparison, tmp_path, capsys):
    """All but the last tick's force, which no later state carries, and the clock."""
    settings = load_comparison(comparison)
    for (task,) in all_tasks(settings, tmp_path, Options()).values():
        run_task(task)
        summary = finished(task).summary
        (recorded,) = summarise_log(task.folder / LOG)
        for name in ("seconds", "height", "tilt", "drift", "distance", "tracking", "speed_tracking", "torque",
                     "torque_rate", "torque_rate_max", "weight"):  # fmt: skip
            assert getattr(recorded, name) == pytest.approx(getattr(summary, name), rel=1e-12)
        assert recorded.verdict == summary.verdict
        assert (recorded.modes, recorded.step_p50) == (summary.modes, pytest.approx(summary.step_p50))
        last = normal_forces(load_trace(task.folder))[1][-1]
        assert recorded.force * 39 + last == pytest.approx(summary.force * 40, rel=1e-9)
        assert main(["compare", str(task.folder / LOG)]) == 0
        assert "log.mcap" in capsys.readouterr().out


@full
def test_a_log_is_searched_for_other_outcomes(comparison, tmp_path, capsys):
    """Every fourth of 40 states of a stance, which has one outcome."""
    task = next(task for (task,) in all_tasks(load_comparison(comparison), tmp_path, Options()).values())
    run_task(task)
    log = task.folder / LOG
    checks = ambiguities(log, 4, 5, lambda _: None)
    assert (checks.checked, checks.proved, checks.found) == (10, 10, [])
    assert main(["check", str(log), "--every", "20", "--samples", "2"]) == 0
    assert "2 ticks checked, 0 with several outcomes" in capsys.readouterr().out
    assert main(["replay", str(log), "--explain"]) == 0
    assert "4 proved to have one outcome; 0 with one found" in capsys.readouterr().out
    assert main(["check", str(log), "--every", "0"]) == 2
    assert "every" in capsys.readouterr().err


def test_other_outcomes_are_described():
    found = Ambiguity(seq=7, t_s=0.5, outcomes=2, apart=12.5, pressing=[["LF_FOOT", "RH_FOOT"], []])
    assert ambiguities_text(Ambiguities(checked=9, proved=6, found=[found])).splitlines() == [
        "9 ticks checked, 1 with several outcomes under the same torques",
        "6 proved to have one outcome; 2 with one found, not proved to be the only one",
        "seq 7, 0.500 s: 2 outcomes up to 12.5 apart: LF_FOOT, RH_FOOT press; or no contact presses",
    ]


@full
def test_a_log_of_the_arm_gives_the_figures_of_its_run(tmp_path):
    """Forces between fingers and box, and the errors of the joints that follow."""
    settings = load_plan("grasp", 0.3).settings
    plan = build_plan(msgspec.structs.replace(settings, contacts="message"))
    (task,) = jobs.tasks_of(plan, "lcp-mu-selected", [0], tmp_path, "log")
    run_task(task)
    summary, trace = finished(task).summary, load_trace(task.folder)
    (recorded,) = summarise_log(task.folder / LOG)
    assert recorded.tracking == pytest.approx(summary.tracking, rel=1e-12)
    assert recorded.speed_tracking == pytest.approx(summary.speed_tracking, rel=1e-12)
    known = len(trace) - 1  # no later state tells the last force
    assert recorded.force * known + normal_forces(trace)[1][-1] == pytest.approx(summary.force * (known + 1), rel=1e-9)
    assert summary.force > 15.0


def test_logs_and_comparisons_cannot_be_mixed(comparison, capsys):
    assert main(["compare", comparison, "log.mcap"]) == 2
    assert main(["compare"]) == 2
    assert "log.mcap" in capsys.readouterr().err
