"""Communication statistics of one session, and its watchdog level."""

from transport.protocol.messages.torque import ON_TIME, Comm, Watchdog, WatchdogLevel
from transport.protocol.outage_stages import Stage, stage

WINDOW = 100
"""Number of expected states over which `success_100` is computed, as libfranka's control_command_success_rate."""

_MASK = (1 << WINDOW) - 1

RTT_WINDOW = 128
"""Number of reported round trips from which the percentiles are computed."""

DEGRADED_MISSES = 5
"""Consecutive missing ticks from which the watchdog level is `degraded`."""


class CommStats:
    """Statistics of the states of one session. report: as sent to the client, always up to date"""

    def __init__(self) -> None:
        zeros = dict.fromkeys(("lost", "late", "dup", "out_of_order", "clock_steps"), 0)
        self.report = Comm(success_100=1.0, age_ms=0.0, rtt_p50_us=None, rtt_p99_us=None, **zeros)
        self._missing = self._expected = 0
        self._answered = 0  # one bit for each of the last expected states
        self._rtts: list[float] = []

    def accepted(self, gap: int, age_ns: int, clock_steps: int, rtt_us: float | None) -> None:
        """Count an accepted state. gap: increase of seq; clock_steps: steps of the client's clock so far"""
        report = self.report
        if gap > 1 or self._answered != _MASK:
            self._count_success(gap)
        report.age_ms, report.clock_steps = age_ns * 1e-6, clock_steps
        if rtt_us is not None:
            self._rtts.append(rtt_us)
            if len(self._rtts) == RTT_WINDOW:
                self._renew_percentiles()

    def dropped(self, count: int) -> None:
        """Count states that were overtaken by newer ones."""
        self.report.late += count
        self._count_lost()

    def _count_success(self, gap: int) -> None:
        self._missing += gap - 1
        self._answered = ((self._answered << min(gap, WINDOW)) | 1) & _MASK
        self._expected = min(self._expected + gap, WINDOW)
        self.report.success_100 = self._answered.bit_count() / self._expected
        self._count_lost()

    def _count_lost(self) -> None:
        self.report.lost = max(0, self._missing - self.report.late)

    def _renew_percentiles(self) -> None:
        ordered = sorted(self._rtts)
        self.report.rtt_p50_us, self.report.rtt_p99_us = ordered[RTT_WINDOW // 2], ordered[RTT_WINDOW * 99 // 100]
        self._rtts.clear()


def late_ns(dt_ns: int) -> int:
    """Return the time without a state after which one is missing [ns]: 1.5 periods of `dt_ns`."""
    return 2 * dt_ns - dt_ns // 2


def watchdog(outage_ns: int, dt_ns: int, hold_ns: int, latch_ns: int) -> Watchdog:
    """Return the watchdog level after a time without states. dt_ns: nominal period [ns]"""
    misses = max(0, (outage_ns + dt_ns // 2) // dt_ns - 1)
    now = stage(outage_ns, hold_ns, latch_ns)
    if now is Stage.FOLLOW:
        if misses == 0:
            return ON_TIME
        level = WatchdogLevel.DEGRADED if misses >= DEGRADED_MISSES else WatchdogLevel.WARN
    else:
        level = WatchdogLevel.HOLD if now is Stage.REST else WatchdogLevel.LATCHED
    return Watchdog(state=level, misses=misses)
