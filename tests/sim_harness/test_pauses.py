"""Paused processes over real sockets: after short pauses the robot walks on, after long ones it stands until reset."""

import pytest
from fast import full

from sim_harness.compare.pauses import Outcome, run_pause, study, table, walking, walks
from sim_harness.compare.study import report_of
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan


@full
def test_pauses_are_described_in_the_report():
    trace = run_in_process(load_plan("stand", 0.2), "coulomb", lambda *_: None).trace
    outcomes = [
        Outcome(
            who=who, milliseconds=150, law="coulomb", ticks={"ok": 90, "failsafe:rest": 110}, longest_tick=0.15,
            stopped=stopped, reset=True if stopped else None, upright=True, walked=0.4, traces=(trace,),
        )
        for who, stopped in (("server", True), ("robot", False))
    ]  # fmt: skip
    found = {"pauses": dict(enumerate(outcomes))}
    html = report_of(study("demo", "coulomb", [150]), found).html
    for outcome in outcomes:
        assert outcome.words.replace("'", "&#x27;") in html
    assert "reset, continued to walk" in html
    assert "its world stopped with it" in html
    assert walks(found).startswith(b"\x89PNG")
    assert [row[0] for row in table(found)] == ["stopped", "server", "robot"]


@pytest.mark.long
@pytest.mark.parametrize("who", ["server", "robot"])
@pytest.mark.parametrize("milliseconds", [30, 150, 500])
def test_a_robot_does_not_fall_during_pauses(who, milliseconds):
    """Run with `-m long -s`: it prints its measurements."""
    outcome = run_pause(walking("demo"), "coulomb", who, milliseconds)
    print(outcome.words)
    assert outcome.upright
    assert outcome.walked > 0.2
    if who == "server":
        assert outcome.stopped == (milliseconds > 100)
        assert outcome.reset == (True if outcome.stopped else None)
