"""A loop's clock: absolute deadlines, sleeping and never spinning."""

import time


class Pacer:
    """Wakes at start + k · period. A missed deadline is skipped, not made up for in a burst.

    skipped: deadlines that went by
    """

    def __init__(self, period: float) -> None:
        """period: [s]; the first deadline is one period after the first `wait`."""
        self.skipped = 0
        self._period = round(period * 1e9)
        self._deadline = 0

    def wait(self) -> int:
        """Sleep until the next deadline; how late the sleep ended [ns], ≥ 0. The first call only starts the clock."""
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
