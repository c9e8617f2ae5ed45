"""Rate limit of log lines."""

from transport.server.rate_limit import PERIOD_NS, RateLimit, similar


def test_each_kind_of_line_is_written_once_per_period() -> None:
    lines = RateLimit()
    assert lines.admit("x", 0) == 0
    assert lines.admit("x", 1) is None
    assert lines.admit("x", PERIOD_NS - 1) is None
    assert lines.admit("y", 1) == 0
    assert lines.admit("x", PERIOD_NS) == 2
    assert lines.admit("x", 2 * PERIOD_NS) == 0


def test_a_line_tells_only_of_lines_that_were_suppressed() -> None:
    assert similar(0) == ""
    assert similar(2) == "; 2 similar not logged"
