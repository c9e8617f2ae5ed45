"""Clocks of robot and server: ages, wrong units, outages, the actuation delay and round trips."""

import numpy as np
import pytest
from fast import every
from rig import Rig
from standin import MS

from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.requests import ClientKind
from transport.protocol.messages.state import TorqueMessage
from transport.server.sessions.clocks import (
    MEMORY,
    RTT_WINDOW,
    STEP_STATES,
    SUCCESS_WINDOW,
    WINDOW,
    ActuationDelay,
    ClockOffset,
    CommStats,
)

BELIEVABLE = 10 * MS


def ages(clock: ClockOffset, delays: list[int], start: int = 0) -> list[int]:
    """Of states a millisecond apart that arrive so much [ns] after their stamps."""
    return [clock.age_ns(MS * (start + i), MS * (start + i) + delay) for i, delay in enumerate(delays)]


def test_age_is_measured_from_the_fastest_recent_state():
    clock = ClockOffset(BELIEVABLE)
    ages(clock, [500_007] * 10)
    assert ages(clock, [500_007, 503_007, 500_007], 10) == [0, 3000, 0]
    assert clock.age_ns(None, 0) == 0


def test_clock_drift_does_not_age_states():
    clock = ClockOffset(BELIEVABLE)
    drift = ages(clock, [MS * i // 20_000 for i in range(20 * WINDOW)])  # 50 ppm
    assert max(drift) < 2 * WINDOW * 50 + 1
    assert clock.steps == 0


@every("step", [-1000 * MS, -11 * MS, 11 * MS, 1000 * MS])
def test_a_single_wrong_stamp_does_not_age_other_states_and_a_lasting_step_is_learned_and_counted(step):
    clock = ClockOffset(BELIEVABLE)
    ages(clock, [0] * 100)
    assert ages(clock, [step], 100) == [max(0, step)]
    assert ages(clock, [0] * 100, 101) == [0] * 100
    assert clock.steps == 0
    after = ages(clock, [step] * 200, 201)
    assert after[: STEP_STATES - 1] == [max(0, step)] * (STEP_STATES - 1)
    assert after[STEP_STATES - 1 :] == [0] * (201 - STEP_STATES)
    assert (clock.steps, clock.step_ns) == (1, step)


def test_late_states_and_varying_delays_are_not_a_clock_step():
    clock, late = ClockOffset(BELIEVABLE), 15 * MS
    assert ages(clock, [0, late] * (2 * STEP_STATES)) == [0, late] * (2 * STEP_STATES)
    assert clock.steps == 0
    clock = ClockOffset(BELIEVABLE)
    ages(clock, [0] * 100)
    ages(clock, [20 * MS * (i + 1) for i in range(200)], 100)
    assert clock.steps == 0


UNITS = {"µs": 1_000, "ms": 1_000_000}


def run(rig: Rig, kind: ClientKind, *, robot_ns: float, server_ns: float, dt: float = 1e-3) -> tuple[int, str]:
    """Send 200 states with so much time between them on each clock. Return the seq of the first refusal and its text."""
    rig.greet(kind=kind, dt_nominal=dt)
    for seq in range(1, 201):
        rig.now = round(seq * server_ns)
        reply = rig.send(rig.state(seq, t_robot=10**9 + round(seq * robot_ns), t_send=None))
        if isinstance(reply, ErrorMessage):
            assert reply.code is Code.LATCHED_FAULT
            return seq, reply.message
        assert isinstance(reply, TorqueMessage)
    return 0, ""


@every("kind", ["robot", "sim"])
@every("unit", UNITS)
def test_wrong_units_are_found_and_named(kind, unit, robot):
    seq, text = run(Rig(robot), kind, robot_ns=MS / UNITS[unit], server_ns=MS)
    assert 0 < seq <= 100
    assert "t_robot: expected ns" in text
    assert text.count(f"it appears to be in {unit}") == 1


@every(
    ("kind", "robot_ms", "server_ms"),
    [
        ("robot", 1.0, 1.0),
        ("robot", 1.0, 1e-3),  # the server has a backlog
        ("robot", 1.0, 90.0),  # a busy machine
        ("robot", 1.3, 1.3),
        ("sim", 1.0, 1e-3),
        ("sim", 0.1, 1.0),
        ("sim", 20.0, 1.0),
    ],
)
def test_other_rates_are_no_errors_of_units(kind, robot_ms, server_ms, robot):
    assert run(Rig(robot), kind, robot_ns=robot_ms * MS, server_ns=server_ms * MS) == (0, "")


@every("dt", [1e-4, 5e-3])
def test_a_period_that_differs_from_dt_nominal_is_named(dt, robot):
    seq, text = run(Rig(robot), "robot", robot_ns=MS, server_ns=MS, dt=dt)
    assert seq == 100
    assert f"dt_nominal: expected about the measured period of 0.001 s, got {dt:g} s" in text


def test_the_actuation_delay_is_the_time_beyond_one_period():
    assert ActuationDelay(MS).accepted(0, 50 * MS) == 0.0  # a stamp in the future
    delay = ActuationDelay(MS)
    assert delay.accepted(0, None) == 0.0
    assert [delay.accepted(k * MS, (k - 1) * MS) for k in range(1, 10)] == [0.0] * 9
    for ticks in (1, 2, 5):
        delay = ActuationDelay(MS)
        told = [delay.accepted(k * MS, (k - 1 - ticks) * MS) for k in range(20)]
        assert told == pytest.approx([ticks * 1e-3] * 20)


def test_lost_replies_do_not_count_as_delay():
    """Three ticks in a hundred in which the motors still had the torque before."""
    delay, rng = ActuationDelay(MS), np.random.default_rng(0)
    told = [delay.accepted(k * MS, (k - 1 - (rng.random() < 0.03)) * MS) for k in range(1000)]
    assert set(told[MEMORY:]) == {0.0}


def test_the_success_rate_covers_the_last_hundred_states_and_round_trips_have_percentiles():
    comm = CommStats()
    assert comm.report.success_100 == 1.0
    for _ in range(10):
        comm.accepted(2, 0, 0, None)  # every other one lost
    assert comm.report.success_100 == 0.5
    assert comm.report.lost == 10
    for _ in range(SUCCESS_WINDOW):
        comm.accepted(1, 0, 0, None)
    assert comm.report.success_100 == 1.0
    comm.accepted(10**18, 0, 0, None)
    assert comm.report.success_100 == 1 / SUCCESS_WINDOW
    comm = CommStats()
    for i in range(RTT_WINDOW):
        comm.accepted(1, 0, 0, float(i))
    report = comm.report
    assert (report.rtt_p50_us, report.rtt_p99_us) == (64.0, 126.0)
