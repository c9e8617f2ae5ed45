"""The time of a robot's states."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from transport.unitree.clock import PERIOD_NS, RobotClock


def test_the_tick_counts_milliseconds_and_wraps():
    clock = RobotClock()
    first = clock.time_ns(2**32 - 3, 5)
    assert clock.time_ns(2**32 - 1, 6) - first == 2_000_000
    assert clock.time_ns(1, 6) - first == 4_000_000
    assert clock.time_ns(101, 7) - first == 104_000_000


@given(st.lists(st.integers(-900_000, 900_000), min_size=1, max_size=200))
def test_without_a_tick_jitter_of_sending_does_not_count(jitter):
    clock, begin = RobotClock(), 10**18
    times = [clock.time_ns(0, begin + PERIOD_NS * k + late) for k, late in enumerate([0, *jitter])]
    assert all(b - a == PERIOD_NS for a, b in pairwise(times))


def test_without_a_tick_lost_states_count():
    clock = RobotClock()
    first = clock.time_ns(0, 10**18)
    assert clock.time_ns(0, 10**18 + 250 * PERIOD_NS) - first == 250 * PERIOD_NS


@given(st.lists(st.integers(-(10**9), 10**9), max_size=50))
def test_time_always_increases(sent):
    clock = RobotClock()
    times = [clock.time_ns(0, each) for each in sent]
    assert all(b - a >= PERIOD_NS for a, b in pairwise(times))
