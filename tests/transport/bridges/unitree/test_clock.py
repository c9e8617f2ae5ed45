"""The time of a robot's states."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.bridges.unitree.clock import PERIOD_NS, RobotClock

STILL = np.zeros(12), np.zeros(12)


def test_the_tick_counts_milliseconds_and_wraps():
    clock = RobotClock()
    first = clock.time_ns(2**32 - 3, 5, *STILL)
    assert clock.time_ns(2**32 - 1, 6, *STILL) - first == 2_000_000
    assert clock.time_ns(1, 6, *STILL) - first == 4_000_000
    assert clock.time_ns(101, 7, *STILL) - first == 104_000_000


@given(st.lists(st.integers(-900_000, 900_000), min_size=1, max_size=200))
def test_without_a_tick_jitter_of_sending_does_not_count(jitter):
    clock, begin = RobotClock(), 10**18
    times = [clock.time_ns(0, begin + PERIOD_NS * k + late, *STILL) for k, late in enumerate([0, *jitter])]
    assert all(b - a == PERIOD_NS for a, b in pairwise(times))


def test_without_a_tick_lost_states_count():
    clock = RobotClock()
    first = clock.time_ns(0, 10**18, *STILL)
    assert clock.time_ns(0, 10**18 + 250 * PERIOD_NS, *STILL) - first == 250 * PERIOD_NS


@given(st.lists(st.integers(-(10**9), 10**9), max_size=50), st.integers(0, 2**31))
def test_time_always_increases(sent, seed):
    clock, rng = RobotClock(), np.random.default_rng(seed)
    times = [clock.time_ns(0, each, rng.normal(size=12), rng.normal(size=12)) for each in sent]
    assert all(b - a >= PERIOD_NS for a, b in pairwise(times))


def swing(n, rng):
    """Angles and speeds after each step of a simulator, q += T v, of joints that swing with 0.3 rad at 2 Hz (n, 12)."""
    t = 1e-9 * PERIOD_NS * np.arange(n)[:, None]
    v = 0.3 * 12.6 * np.cos(12.6 * t + rng.uniform(0.0, 6.28, 12))
    return np.cumsum(1e-9 * PERIOD_NS * v, axis=0), v


@pytest.mark.parametrize("seed", range(5))
def test_the_time_of_a_simulator_that_makes_steps_up_is_that_of_its_motion(seed):
    """It pauses for up to 40 ms, then steps without waiting; states are sent every 2 ms as they are, sometimes twice."""
    rng, clock = np.random.default_rng(seed), RobotClock()
    q, v = swing(6000, rng)
    done, step, worst, first = -1, 0, 0, 0
    for k in range(5000):
        if rng.random() > 0.03 or k < 10:  # otherwise the simulator pauses
            step = max(step, k - int(rng.integers(0, 20)) * (rng.random() < 0.1))
        if step == done:
            continue
        now = clock.time_ns(0, 10**18 + k * PERIOD_NS + int(rng.integers(-500_000, 500_000)), q[step], v[step])
        first = first or now
        worst, done = max(worst, abs((now - first) // PERIOD_NS - step)), step
    assert worst <= 2


def test_without_motion_the_times_of_sending_count_again():
    rng, clock = np.random.default_rng(0), RobotClock()
    q, v = swing(500, rng)
    for k in range(500):
        clock.time_ns(0, 10**18 + (k + 30) * PERIOD_NS, q[k], v[k])
    last = clock.time_ns(0, 10**18 + 530 * PERIOD_NS, q[-1], np.zeros(12))
    assert abs(clock.time_ns(0, 10**18 + 600 * PERIOD_NS, q[-1], np.zeros(12)) - (10**18 + 600 * PERIOD_NS)) <= PERIOD_NS
    assert last < 10**18 + 600 * PERIOD_NS
