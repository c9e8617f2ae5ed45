import gc
import sys

import pytest

from transport.realtime import SWITCH_INTERVAL, steady
from transport.server.rate_limit import PERIOD_NS, RateLimit
from transport.server.sessions.comm_stats import RTT_WINDOW, WINDOW, CommStats


def test_success_looks_back_over_the_last_hundred() -> None:
    comm = CommStats()
    assert comm.report().success_100 == 1.0
    for _ in range(10):
        comm.accepted(2, 0, 0, None)  # every other one lost
    assert comm.report().success_100 == 0.5
    assert comm.report().lost == 10
    for _ in range(WINDOW):
        comm.accepted(1, 0, 0, None)
    assert comm.report().success_100 == 1.0
    comm.accepted(10**18, 0, 0, None)
    assert comm.report().success_100 == 1 / WINDOW


def test_percentiles_of_the_round_trips() -> None:
    comm = CommStats()
    for i in range(RTT_WINDOW):
        comm.accepted(1, 0, 0, float(i))
    report = comm.report()
    assert (report.rtt_p50_us, report.rtt_p99_us) == (64.0, 126.0)


def test_a_kind_of_line_is_written_once_a_period() -> None:
    lines = RateLimit()
    assert lines.admit("x", 0) == 0
    assert lines.admit("x", 1) is None
    assert lines.admit("x", PERIOD_NS - 1) is None
    assert lines.admit("y", 1) == 0
    assert lines.admit("x", PERIOD_NS) == 2
    assert lines.admit("x", 2 * PERIOD_NS) == 0


def test_steady_leaves_everything_as_it_was() -> None:
    before = (sys.getswitchinterval(), gc.isenabled())
    with steady():
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL)
        assert not gc.isenabled()
    assert (sys.getswitchinterval(), gc.isenabled()) == before
