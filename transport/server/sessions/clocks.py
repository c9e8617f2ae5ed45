"""Clocks of a session: actuation delay, age of a state, rate of the robot's clock, duration of an outage."""

import math
from bisect import bisect_left, insort
from collections import deque

from transport.protocol.messages.state import ON_TIME, Comm, Watchdog, WatchdogLevel
from transport.protocol.torque_gate import Stage, stage

MEMORY = 31  # number of delays from which the median is computed

STOPPED_NS = 50_000_000
"""Time without answers after which the robot's torques are taken for its own [ns]: its side stops after 100 ms or less."""

SETTLING = 50
"""States after a lost answer in which the robot's own side may still change torques: it returns to the server's gradually."""


class ActuationDelay:
    """Median actuation delay of one session.

    follows: whether the torque that acted until now is known to be that of the answer one delay ago: no answer was lost in the
        last `SETTLING` states, and none for as long as the robot's own side waits before it stops. None: no state had t_applied
    stopped: answers were missing for that long; the robot ignores further ones until a reset
    """

    follows: bool | None = None
    stopped = False

    def __init__(self, period_ns: int) -> None:
        self._period_ns, self._unsettled = period_ns, 0
        self._measured: deque[int] = deque()
        self._ordered: list[int] = []

    def accepted(self, t_robot: int, t_applied: int | None) -> float:
        """Add the delay of an accepted state and return the median of the last delays [s], ≥ 0; 0 before the first one.

        t_robot, t_applied: robot's clock [ns]; t_applied = None adds no delay
        """
        if t_applied is not None:
            delay = max(t_robot - t_applied - self._period_ns, 0)
            oldest = self._measured.popleft() if len(self._measured) == MEMORY else None
            self._measured.append(delay)
            if delay != oldest:
                if oldest is not None:
                    del self._ordered[bisect_left(self._ordered, oldest)]
                insort(self._ordered, delay)
        median = self._ordered[(len(self._ordered) - 1) // 2] if self._ordered else 0
        if t_applied is not None:
            missing = t_robot - t_applied - self._period_ns - median
            self.stopped = self.stopped or t_robot - t_applied > STOPPED_NS
            self._unsettled = SETTLING if missing >= self._period_ns // 2 else max(self._unsettled - 1, 0)
            self.follows = not self.stopped and not self._unsettled
        return median * 1e-9


WINDOW = 1024
"""States per window; the offset is the smallest delay of the current and the previous window.

Clock drift (50 ppm) within two windows is far below the length of a tick.
"""

STEP_STATES = 25  # consecutive outliers with about the same delay that make it the new offset


class ClockOffset:
    """Offset between the clocks of one client and the server.

    step_ns: change of the offset at the last step [ns]; steps: number of steps
    """

    def __init__(self, tolerance_ns: int) -> None:
        """tolerance_ns: delays that differ more than this from the offset are outliers [ns]"""
        self._tolerance_ns = tolerance_ns
        self._offset: int | None = None
        self._smallest: int | None = None
        self._states = 0
        self._outlier: int | None = None  # smallest of the last outliers, and their number
        self._outliers = 0
        self.step_ns = self.steps = 0

    def age_ns(self, t_send: int | None, t_recv: int) -> int:
        """Return the age of a state [ns], ≥ 0, and update the offset. t_send: robot's clock, t_recv: server's clock [ns]"""
        if t_send is None:
            return 0
        delay = t_recv - t_send
        if self._offset is None:
            self._offset = delay
        if abs(delay - self._offset) > self._tolerance_ns:
            self._count_outlier(delay, self._offset)
        else:
            self._outliers = 0
            self._smallest = delay if self._smallest is None else min(self._smallest, delay)
            self._offset = min(self._offset, delay)
            self._states += 1
            if self._states == WINDOW:
                self._offset, self._smallest, self._states = self._smallest, None, 0
        return max(0, delay - self._offset)

    def _count_outlier(self, delay: int, offset: int) -> None:
        """Count a delay outside the tolerance. Enough of them in a row, all about the same, count as a step of the clock."""
        if self._outlier is None or abs(delay - self._outlier) > self._tolerance_ns:
            self._outliers = 0
        self._outlier = delay if self._outliers == 0 or self._outlier is None else min(self._outlier, delay)
        self._outliers += 1
        if self._outliers == STEP_STATES:
            self.step_ns, self.steps = self._outlier - offset, self.steps + 1
            self._offset, self._smallest, self._states, self._outliers = self._outlier, None, 0, 0


STATES = 100  # number of states in which the rate is judged
FIRST = 10  # state from which it is judged; before, single delays count too much
FACTOR = 30.0  # rates between 1/FACTOR and FACTOR are not errors of units: these are factors of 1000

PERIODS = (0.5, 5.0)
"""Bounds of the mean period as multiples of `dt_nominal`: beyond them the measured period of a tick is clamped."""

UNITS = {0: "ns", -1: "µs", -2: "ms", -3: "s"}  # unit of `t_robot` for each power of 1000 of r


class ClockRate:
    """Judges the clock of one client in its first states. judged: enough of them were seen"""

    judged = False

    def __init__(self, dt_ns: int, *, robot_clock: bool) -> None:
        """dt_ns: nominal period [ns]; robot_clock: the client is simulated or replayed"""
        self._dt_ns, self._robot_clock = dt_ns, robot_clock
        self._first: tuple[int, int, int] | None = None
        self._states = 0

    def problem(self, seq: int, t_robot: int, now_ns: int) -> str:
        """Return what is wrong with the clock or with `dt_nominal`; '' if nothing is.

        seq, t_robot: of an accepted state, robot's clock [ns]; now_ns: its arrival, server's clock [ns]
        """
        self._states += 1
        self.judged = self._states >= STATES
        if self._first is None:
            self._first = seq, t_robot, now_ns
        if self._states < FIRST:
            return ""
        seq0, t0, now0 = self._first
        advance, nominal, elapsed = t_robot - t0, (seq - seq0) * self._dt_ns, max(now_ns - now0, 1)
        r, s = advance / nominal, advance / elapsed
        if not 1.0 / FACTOR < r < FACTOR and (self._robot_clock or not 1.0 / FACTOR < s < FACTOR):
            unit = UNITS.get(round(math.log10(r) / 3.0))
            guess = f"; it appears to be in {unit}" if unit not in (None, "ns") else ""
            by = "" if self._robot_clock else f" and by {elapsed * 1e-6:.3g} ms on the server's clock"
            return (
                f"t_robot: expected ns, got an advance of {advance} in {seq - seq0} periods of dt_nominal"
                f" ({nominal * 1e-6:.3g} ms){by}{guess}"
            )
        if self._states == STATES and not self._robot_clock and not PERIODS[0] <= r <= PERIODS[1] and 0.5 < s < 2.0:
            mean = advance / (seq - seq0) * 1e-9
            return f"dt_nominal: expected about the measured period of {mean:.3g} s, got {self._dt_ns * 1e-9:.3g} s"
        return ""


class OutageTimer:
    """Measures the time without states of one client [ns].

    silence_ns: time on the server's clock that is an outage whatever the robot's clock says [ns]
    robot_clock: use the robot's clock only
    """

    def __init__(self, silence_ns: int, *, robot_clock: bool) -> None:
        self._silence_ns, self._robot_clock = silence_ns, robot_clock
        self._t_robot: int | None = None
        self._answered: tuple[int, int] | None = None  # t_robot of the last accepted state; server's clock at its answer
        self._accepted_ns: int | None = None
        self._now_ns = self._longest = 0

    def heard(self, t_robot: int, now_ns: int) -> None:
        """Note the arrival of a state that is not answered. t_robot: robot's clock, now_ns: server's clock [ns]"""
        if self._t_robot is None or t_robot > self._t_robot:
            self._longest = self._gap(t_robot, now_ns)
            self._t_robot, self._now_ns = t_robot, now_ns

    def accepted(self, t_robot: int, now_ns: int, outage_ns: int) -> int:
        """Note an accepted state and return the duration of a pause of the server [ns].

        The pause is the time since the last accepted state on the server's clock, minus the outage.
        outage_ns: the result of `until`
        """
        pause = 0 if self._accepted_ns is None else now_ns - self._accepted_ns - outage_ns
        self._t_robot, self._now_ns, self._accepted_ns, self._longest = t_robot, now_ns, now_ns, 0
        self._answered = t_robot, now_ns
        return pause

    def answered(self, now_ns: int) -> None:
        """Note that the answer to the accepted state was sent."""
        self._now_ns = max(self._now_ns, now_ns)
        if self._answered is not None:
            self._answered = self._answered[0], self._now_ns

    def until(self, t_robot: int, now_ns: int) -> int:
        """Return the longest time without states since the last accepted state, if a state of `t_robot` arrives now [ns]."""
        gap = self._gap(t_robot, now_ns)
        if self._answered is None or self._robot_clock:
            return gap
        t_answered, answered_ns = self._answered
        silence = now_ns - answered_ns
        return silence if silence > self._silence_ns and 2 * (t_robot - t_answered) < silence else gap

    def _gap(self, t_robot: int, now_ns: int) -> int:
        """Return the longest time without states on both clocks."""
        if self._t_robot is None:
            return 0
        by_robot = t_robot - self._t_robot
        return max(self._longest, by_robot if self._robot_clock else min(by_robot, now_ns - self._now_ns))


SUCCESS_WINDOW = 100
"""Number of expected states over which `success_100` is computed, as libfranka's control_command_success_rate."""

_MASK = (1 << SUCCESS_WINDOW) - 1

RTT_WINDOW = 128  # number of reported round trips from which the percentiles are computed
DEGRADED_MISSES = 5  # consecutive missing ticks from which the watchdog level is `degraded`


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
                ordered = sorted(self._rtts)
                report.rtt_p50_us, report.rtt_p99_us = ordered[RTT_WINDOW // 2], ordered[RTT_WINDOW * 99 // 100]
                self._rtts.clear()

    def dropped(self, count: int) -> None:
        """Count states that were overtaken by newer ones."""
        self.report.late += count
        self._count_lost()

    def _count_success(self, gap: int) -> None:
        self._missing += gap - 1
        self._answered = ((self._answered << min(gap, SUCCESS_WINDOW)) | 1) & _MASK
        self._expected = min(self._expected + gap, SUCCESS_WINDOW)
        self.report.success_100 = self._answered.bit_count() / self._expected
        self._count_lost()

    def _count_lost(self) -> None:
        self.report.lost = max(0, self._missing - self.report.late)


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
