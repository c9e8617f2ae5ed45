"""The time of a robot's states."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from transport.unitree.clock import DRIFT_NS, PERIOD_NS, RobotClock


def test_the_tick_counts_milliseconds_and_wraps():
    clock = RobotClock()
    first = clock.time_ns(2**32 - 3, 5.0)
    assert clock.time_ns(2**32 - 1, 5.1) - first == 2_000_000
    assert clock.time_ns(1, 5.1) - first == 4_000_000
    assert clock.time_ns(101, 5.2) - first == 104_000_000


@given(st.lists(st.floats(0.0, 0.008), min_size=1, max_size=200))
def test_without_a_tick_jitter_of_arrival_does_not_count(jitter):
    clock, begin = RobotClock(), 10.0
    times = [clock.time_ns(0, begin + 1e-9 * PERIOD_NS * k + late) for k, late in enumerate([0.0, *jitter])]
    assert all(b - a == PERIOD_NS for a, b in pairwise(times))


def test_without_a_tick_lost_states_are_noticed():
    clock = RobotClock()
    first = clock.time_ns(0, 1.0)
    second = clock.time_ns(0, 1.5)
    assert second - first == 500_000_000
    assert clock.time_ns(0, 1.5) - second == PERIOD_NS
    third = clock.time_ns(0, 1.2)  # the clock of this machine was set back
    assert third > second
    assert DRIFT_NS > PERIOD_NS
