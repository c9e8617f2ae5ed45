"""Ages by two clocks: drift and steps are learned, single wild stamps are not."""

import pytest

from transport.server.sessions.clocks import STEP_STATES, WINDOW, ClockOffset

MS = 1_000_000
BELIEVABLE = 10 * MS


def ages(clock: ClockOffset, delays: list[int], start: int = 0) -> list[int]:
    """Of states a millisecond apart that arrive so much [ns] after their stamps."""
    return [clock.age_ns(MS * (start + i), MS * (start + i) + delay) for i, delay in enumerate(delays)]


def test_age_is_measured_from_the_fastest_recent_state() -> None:
    clock = ClockOffset(BELIEVABLE)
    ages(clock, [500_007] * 10)
    assert ages(clock, [500_007, 503_007, 500_007], 10) == [0, 3000, 0]
    assert clock.age_ns(None, 0) == 0


def test_clock_drift_does_not_age_states() -> None:
    clock = ClockOffset(BELIEVABLE)
    drift = ages(clock, [MS * i // 20_000 for i in range(20 * WINDOW)])  # 50 ppm
    assert max(drift) < 2 * WINDOW * 50 + 1
    assert clock.steps == 0


@pytest.mark.parametrize("wild", [-1000 * MS, -11 * MS, 11 * MS, 1000 * MS])
def test_a_single_wrong_stamp_does_not_age_other_states(wild: int) -> None:
    clock = ClockOffset(BELIEVABLE)
    ages(clock, [0] * 100)
    assert ages(clock, [wild], 100) == [max(0, wild)]
    assert ages(clock, [0] * 100, 101) == [0] * 100
    assert clock.steps == 0


@pytest.mark.parametrize("step", [-1000 * MS, -15 * MS, 15 * MS, 1000 * MS])
def test_a_lasting_clock_step_is_learned_and_counted(step: int) -> None:
    clock = ClockOffset(BELIEVABLE)
    ages(clock, [0] * 100)
    after = ages(clock, [step] * 200, 100)
    assert after[: STEP_STATES - 1] == [max(0, step)] * (STEP_STATES - 1)
    assert after[STEP_STATES - 1 :] == [0] * (201 - STEP_STATES)
    assert (clock.steps, clock.step_ns) == (1, step)


def test_late_states_now_and_then_are_not_a_clock_step() -> None:
    clock = ClockOffset(BELIEVABLE)
    late = 15 * MS
    assert ages(clock, [0, late] * (2 * STEP_STATES)) == [0, late] * (2 * STEP_STATES)
    assert clock.steps == 0


def test_varying_delays_are_not_a_clock_step() -> None:
    clock = ClockOffset(BELIEVABLE)
    ages(clock, [0] * 100)
    ages(clock, [20 * MS * (i + 1) for i in range(200)], 100)
    assert clock.steps == 0
