"""The duration of an outage, on two clocks."""

import pytest
from standin import MS

from transport.server.sessions.clocks import OutageTimer


def ticking(*, robot_clock: bool = False) -> OutageTimer:
    timer = OutageTimer(250 * MS, robot_clock=robot_clock)
    for tick in range(3):
        timer.accepted(tick * MS, tick * MS, 0)
        timer.answered(tick * MS)
    return timer


def test_an_outage_is_the_shorter_time_of_both_clocks() -> None:
    assert ticking().until(3 * MS, 3 * MS) == MS
    assert ticking().until(52 * MS, 42 * MS) == 40 * MS
    assert ticking().until(3 * MS, 250 * MS) == MS
    assert ticking().until(3 * MS, 500 * MS) == 498 * MS
    assert ticking().until(300 * MS, 500 * MS) == 298 * MS
    assert ticking(robot_clock=True).until(52 * MS, 3 * MS) == 50 * MS


@pytest.mark.parametrize("heard", [False, True])
def test_an_outage_ends_with_the_next_accepted_state(heard: bool) -> None:
    timer = ticking()
    if heard:  # the first state after the outage is not answered
        timer.heard(52 * MS, 52 * MS)
        assert timer.until(53 * MS, 53 * MS) == 50 * MS
    timer.accepted(53 * MS, 53 * MS, timer.until(53 * MS, 53 * MS))
    assert timer.until(54 * MS, 54 * MS) == MS
