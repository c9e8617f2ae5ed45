"""Statistics of the connection."""

from transport.server.sessions.comm_stats import RTT_WINDOW, WINDOW, CommStats


def test_the_success_rate_covers_the_last_hundred_states() -> None:
    comm = CommStats()
    assert comm.report.success_100 == 1.0
    for _ in range(10):
        comm.accepted(2, 0, 0, None)  # every other one lost
    assert comm.report.success_100 == 0.5
    assert comm.report.lost == 10
    for _ in range(WINDOW):
        comm.accepted(1, 0, 0, None)
    assert comm.report.success_100 == 1.0
    comm.accepted(10**18, 0, 0, None)
    assert comm.report.success_100 == 1 / WINDOW


def test_round_trip_percentiles_match_numpy() -> None:
    comm = CommStats()
    for i in range(RTT_WINDOW):
        comm.accepted(1, 0, 0, float(i))
    report = comm.report
    assert (report.rtt_p50_us, report.rtt_p99_us) == (64.0, 126.0)
