"""How well the states reach the server: counters, age and watchdog level of one session."""

from transport.protocol.messages.torque import Comm, Watchdog, WatchdogLevel
from transport.protocol.silence_stages import Stage, stage

WINDOW = 100
"""`success_100` looks back over so many expected states, as libfranka's control_command_success_rate."""

_MASK = (1 << WINDOW) - 1

RTT_WINDOW = 128
"""Round trips reported by the client are kept, and their percentiles renewed, so many at a time."""

DEGRADED_MISSES = 5
"""So many missing ticks in a row are called `degraded`."""


class CommStats:
    """Statistics over the states of one session."""

    def __init__(self) -> None:
        self.late = self.dup = self.out_of_order = 0
        self._missing = 0
        self._answered, self._expected = 0, 0
        self._rtts: list[float] = []
        self._rtt_p50: float | None = None
        self._rtt_p99: float | None = None
        self._age_ns = self._clock_steps = 0

    def accepted(self, gap: int, age_ns: int, clock_steps: int, rtt_us: float | None) -> None:
        """A state was accepted whose seq is `gap` after the last one; clock_steps: of the client's clock so far."""
        self._missing += gap - 1
        self._answered = ((self._answered << min(gap, WINDOW)) | 1) & _MASK
        self._expected = min(self._expected + gap, WINDOW)
        self._age_ns, self._clock_steps = age_ns, clock_steps
        if rtt_us is not None:
            self._note_rtt(rtt_us)

    def dropped(self, count: int) -> None:
        """`count` states were overtaken by newer ones before anyone looked at them."""
        self.late += count

    def _note_rtt(self, rtt_us: float) -> None:
        self._rtts.append(rtt_us)
        if len(self._rtts) == RTT_WINDOW:
            ordered = sorted(self._rtts)
            self._rtt_p50, self._rtt_p99 = ordered[RTT_WINDOW // 2], ordered[RTT_WINDOW * 99 // 100]
            self._rtts.clear()

    def report(self) -> Comm:
        return Comm(
            success_100=self._answered.bit_count() / self._expected if self._expected else 1.0,
            lost=max(0, self._missing - self.late),
            late=self.late,
            dup=self.dup,
            out_of_order=self.out_of_order,
            age_ms=self._age_ns * 1e-6,
            clock_steps=self._clock_steps,
            rtt_p50_us=self._rtt_p50,
            rtt_p99_us=self._rtt_p99,
        )


def watchdog(silence_ns: int, dt_ns: int, hold_ns: int, latch_ns: int) -> Watchdog:
    """The level after `silence_ns` between two states of a robot that should send one every `dt_ns`."""
    misses = max(0, (silence_ns + dt_ns // 2) // dt_ns - 1)
    now = stage(silence_ns, hold_ns, latch_ns)
    if now is Stage.FOLLOW:
        degraded = misses >= DEGRADED_MISSES
        level = WatchdogLevel.DEGRADED if degraded else WatchdogLevel.WARN if misses else WatchdogLevel.OK
    else:
        level = WatchdogLevel.HOLD if now is Stage.REST else WatchdogLevel.LATCHED
    return Watchdog(state=level, misses=misses)
