"""When the next state is due, so that the server can poll for it without sleeping.

After a millisecond of sleep a processor's caches are cold, and the same tick takes twice as long. A server whose client is
regular therefore wakes a little before the next state and polls for it without sleeping, until the state is late by as much
as the server woke early. An irregular client, or one in lock-step, gets none of this, and a state that comes early is
answered at once.
"""

REGULAR = 0.2
"""Two intervals that differ by less than this share count as a rhythm."""


class Anticipation:
    """Follows the arrivals of states."""

    def __init__(self, lead_us: float) -> None:
        """lead_us: how long before a state is due the server is to be awake [µs]; 0: never"""
        self._lead_ns = round(lead_us * 1e3)
        self._last_ns = 0
        self._interval_ns = 0
        self._regular = False

    def arrived(self, now_ns: int) -> None:
        """A state came in."""
        interval = now_ns - self._last_ns
        self._regular = abs(interval - self._interval_ns) < REGULAR * interval
        self._last_ns, self._interval_ns = now_ns, interval

    def rest_s(self, now_ns: int) -> float:
        """How long to rest before the next state has to be expected [s]; 0 when there is no telling, or no time."""
        if not self._regular or self._lead_ns == 0:
            return 0.0
        return max(0.0, (self._last_ns + self._interval_ns - self._lead_ns - now_ns) * 1e-9)

    def expects(self, now_ns: int) -> bool:
        """Whether the next state is due, or late by no more than the lead: worth staying awake for."""
        return now_ns < self._last_ns + self._interval_ns + self._lead_ns
