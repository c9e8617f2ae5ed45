"""Anticipation: estimates when the next state is due, so that the server can poll for it.

After a millisecond of sleep the processor's caches are cold, and the same tick takes twice as long. With a regular client the
server therefore wakes `lead_us` before the next state is due and polls until `lead_us` after. With an irregular client, or one
in lock step, it does not poll. Early states are answered when they arrive.
"""

REGULAR = 0.2
"""Largest relative difference of two successive intervals of a regular client."""

SOON_NS = 200_000
"""Time around a due state in which no other client is served [ns]."""


class Anticipation:
    """Estimates the arrival of the next state from the last two intervals."""

    def __init__(self, lead_us: float) -> None:
        """lead_us: time before and after the due time in which the server polls [µs]; 0: never"""
        self._lead_ns = round(lead_us * 1e3)
        self._last_ns = 0
        self._interval_ns = 0
        self._regular = False

    def arrived(self, now_ns: int, period_ns: int) -> None:
        """Note the arrival of a state. period_ns: nominal period of the client [ns]

        Longer intervals are not regular: a state that waited because the server slept must not make it sleep longer.
        """
        interval = now_ns - self._last_ns
        steady = abs(interval - self._interval_ns) < REGULAR * interval
        self._regular = steady and interval < (1.0 + REGULAR) * period_ns
        self._last_ns, self._interval_ns = now_ns, interval

    def rest_s(self, now_ns: int) -> float:
        """Return the time to sleep before polling [s]; 0 for an irregular client, and when polling should start."""
        if not self._regular or self._lead_ns == 0:
            return 0.0
        return max(0.0, (self._last_ns + self._interval_ns - self._lead_ns - now_ns) * 1e-9)

    def expects(self, now_ns: int) -> bool:
        """Return whether to keep polling: the next state is late by less than `lead_us`."""
        return now_ns < self._last_ns + self._interval_ns + self._lead_ns

    def due_ns(self) -> int:
        """Return when the next state is due, if the client is regular [ns]."""
        return self._last_ns + self._interval_ns

    def soon(self, now_ns: int) -> bool:
        """Return whether the state of a regular client is due within `SOON_NS`, or is late by less than that."""
        return self._regular and abs(self.due_ns() - now_ns) < SOON_NS
