"""The loop's clock under a clock of our own, and what a trace keeps."""

from types import SimpleNamespace

import numpy as np
import pytest

from controllers.robot.load import load_robot
from sim_harness.measure.trace import TraceWriter
from sim_harness.robot import robot_side
from sim_harness.robot.robot_side import Pacer

MS = 1_000_000


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only while somebody sleeps; every sleep ends 30 µs late."""
    state = SimpleNamespace(now=5 * MS)

    def sleep(seconds):
        state.now += round(seconds * 1e9) + 30_000

    monkeypatch.setattr(robot_side, "time", SimpleNamespace(monotonic_ns=lambda: state.now, sleep=sleep))
    return state


def test_lateness_does_not_add_up(clock):
    pacer = Pacer(1e-3)
    pacer.wait()
    for k in range(1, 101):
        assert pacer.wait() == 30_000
        assert clock.now == 5 * MS + k * MS + 30_000
    assert pacer.skipped == 0


def test_missed_deadlines_are_skipped_without_a_burst(clock):
    pacer = Pacer(1e-3)
    pacer.wait()
    pacer.wait()
    clock.now += round(3.4 * MS)
    late = pacer.wait()
    assert pacer.skipped == 2
    assert 0 <= late < MS
    pacer.wait()
    assert clock.now == 5 * MS + 5 * MS + 30_000


def test_a_late_tick_within_its_period_is_not_skipped(clock):
    pacer = Pacer(1e-3)
    pacer.wait()
    clock.now += round(1.5 * MS)
    assert pacer.wait() == round(0.5 * MS)
    assert pacer.skipped == 0
    pacer.wait()
    assert clock.now == 7 * MS + 30_000


def test_a_trace_keeps_the_filled_rows_only(tmp_path):
    robot, q = load_robot("quadruped")
    writer = TraceWriter(robot, 10)
    for k in range(3):
        writer.state(k * 1e-3, q, np.zeros(18), 9.0 + k)
        writer.predicted("RF_FOOT", (11.0, 1.0, -1.0))
        writer.predicted("BODY0", (1.0, 0.0, 0.0))
        writer.command(np.full(12, k), "ok" if k < 2 else "hold", np.nan)
        writer.simulated(("RF_FOOT", "LH_FOOT"), np.array([[12.0, 0, 0], [3.0, 0, 0]]), 0)
    trace = writer.trace()
    assert len(trace) == 3
    assert trace.share("ok") == pytest.approx(2 / 3)
    assert trace.share("damping") == 0
    np.testing.assert_array_equal(trace.predicted[0, 1], [11, 1, -1])
    assert np.isnan(trace.predicted[0, [0, 2, 3]]).all()
    np.testing.assert_array_equal(trace.simulated[2, :, 0], [np.nan, 12, 3, np.nan])
    trace.save_npz(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz") as saved:
        np.testing.assert_array_equal(saved["tau"], trace.tau)
        assert saved["places"].tolist() == list(trace.places)
        assert saved["modes"].tolist() == ["ok", "hold"]
