"""Whether a paced run kept the time of the clock, in words."""

from sim_harness.measure.metrics import Summary

REAL_TIME = 0.995
"""A run at this pace or above was one in real time."""


def slowness(summary: Summary, period: float) -> str:
    """What kept a paced run from being one in real time, '' when nothing did. period: of its ticks [s]."""
    if not summary.pace < REAL_TIME:
        return ""
    times = (
        f"p50 {summary.round_trip_p50:.0f} µs, p99 {summary.round_trip_p99:.0f} µs" if summary.round_trip_p50 else "none came"
    )
    return (
        f"{summary.label}: {1 / period:g} Hz could not be held here; the world was slowed to {summary.pace:.2f} × real time. "
        f"Of {round(summary.seconds / period)} replies {summary.late} took longer than a period ({times}); "
        f"the longest tick took {1e3 * summary.longest_tick:.0f} ms."
    )
