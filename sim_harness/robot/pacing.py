"""Clock of a periodic loop with absolute deadlines. It sleeps and never spins."""

import time


class Pacer:
    """Wakes at start + k · period, k = 1, 2, … Deadlines that have passed are skipped, not caught up with.

    skipped: number of missed deadlines
    """

    def __init__(self, period: float) -> None:
        """period: [s]; the first deadline is one period after the first `wait`"""
        self.skipped = 0
        self._period = round(period * 1e9)
        self._deadline = 0

    def wait(self) -> int:
        """Sleep until the next deadline and return the delay of the wake-up [ns], ≥ 0. The first call only starts the clock."""
        now = time.monotonic_ns()
        if self._deadline == 0:
            self._deadline = now + self._period
            return 0
        if now >= self._deadline + self._period:
            behind = (now - self._deadline) // self._period
            self.skipped += behind
            self._deadline += behind * self._period
        while (rest := self._deadline - time.monotonic_ns()) > 0:
            time.sleep(rest * 1e-9)
        late = -rest
        self._deadline += self._period
        return late
