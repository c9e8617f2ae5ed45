"""Stopped processes over real sockets: after short pauses the robot walks on, after long ones it stands until it is reset."""

import pytest

from sim_harness.pauses import run_pause, walking


@pytest.mark.long
@pytest.mark.parametrize("who", ["server", "robot"])
@pytest.mark.parametrize("milliseconds", [30, 150, 500])
def test_nobody_falls_for_a_pause(who, milliseconds):
    """Run with `-m long -s`: it prints what happened."""
    outcome = run_pause(walking("demo"), "coulomb", who, milliseconds)
    print(outcome.words)
    assert outcome.upright
    assert outcome.walked > 0.2
    if who == "server":
        assert outcome.stopped == (milliseconds > 100)
        assert outcome.reset == (True if outcome.stopped else None)
