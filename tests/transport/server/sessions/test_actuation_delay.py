"""The actuation delay, estimated from the robot's stamps."""

import numpy as np
import pytest

from transport.server.sessions.clocks import MEMORY, ActuationDelay

MS = 1_000_000


def test_one_period_is_not_a_delay():
    delay = ActuationDelay(MS)
    assert delay.accepted(0, None) == 0.0
    assert [delay.accepted(k * MS, (k - 1) * MS) for k in range(1, 10)] == [0.0] * 9


@pytest.mark.parametrize("ticks", [1, 2, 5])
def test_the_delay_is_the_time_beyond_one_period(ticks):
    delay = ActuationDelay(MS)
    told = [delay.accepted(k * MS, (k - 1 - ticks) * MS) for k in range(20)]
    assert told == pytest.approx([ticks * 1e-3] * 20)


def test_lost_replies_do_not_count_as_delay():
    """Three ticks in a hundred in which the motors still had the torque before."""
    delay, rng = ActuationDelay(MS), np.random.default_rng(0)
    told = [delay.accepted(k * MS, (k - 1 - (rng.random() < 0.03)) * MS) for k in range(1000)]
    assert set(told[MEMORY:]) == {0.0}


def test_future_stamps_do_not_count_and_a_reset_clears_the_delay():
    delay = ActuationDelay(MS)
    assert delay.accepted(0, 50 * MS) == 0.0
    delay.reset()
    assert delay.accepted(10 * MS, 4 * MS) == pytest.approx(0.005)
