"""Message about a paced run that was slower than real time."""

from sim_harness.measure.metrics import Summary

REAL_TIME = 0.995
"""Least `pace` of a run that counts as real time."""


def slowness(summary: Summary, period: float) -> str:
    """Return a message that explains why a paced run was slower than real time, '' if it was not. period: of the ticks [s]"""
    if not summary.pace < REAL_TIME:
        return ""
    times = (
        f"p50 {summary.round_trip_p50:.0f} µs, p99 {summary.round_trip_p99:.0f} µs" if summary.round_trip_p50 else "no replies"
    )
    return (
        f"{summary.label}: this machine did not keep {1 / period:g} Hz; the world ran at {summary.pace:.2f} × real time. "
        f"Of {round(summary.seconds / period)} replies {summary.late} took longer than a period ({times}); "
        f"the longest tick took {1e3 * summary.longest_tick:.0f} ms."
    )
