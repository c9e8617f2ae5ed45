"""Age of a state, measured with two unsynchronised clocks. Their offset is estimated; it may drift and step.

The offset is the smallest recent delay `t_recv − t_send`; the age of a state is its delay minus the offset. Setting a clock
shifts all later delays: single outliers are ignored, a persistent shift becomes the new offset and is counted as a step.
"""

WINDOW = 1024
"""States per window; the offset is the smallest delay of the current and the previous window.

Clock drift (50 ppm) within two windows is far below the length of a tick.
"""

STEP_STATES = 25
"""Consecutive outliers with about the same delay that make it the new offset."""


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
            self._count_outlier(delay)
        else:
            self._accept(delay)
        return max(0, delay - self._offset)

    def _accept(self, delay: int) -> None:
        """Update the offset with a delay within the tolerance."""
        self._outliers = 0
        self._smallest = delay if self._smallest is None else min(self._smallest, delay)
        assert self._offset is not None  # by `age_ns`
        self._offset = min(self._offset, delay)
        self._states += 1
        if self._states == WINDOW:
            self._offset, self._smallest, self._states = self._smallest, None, 0

    def _count_outlier(self, delay: int) -> None:
        """Count a delay outside the tolerance. Enough of them in a row, all about the same, count as a step of the clock."""
        if self._outlier is None or abs(delay - self._outlier) > self._tolerance_ns:
            self._outliers = 0
        self._outlier = delay if self._outliers == 0 or self._outlier is None else min(self._outlier, delay)
        self._outliers += 1
        if self._outliers == STEP_STATES:
            assert self._offset is not None  # by `age_ns`
            self.step_ns, self.steps = self._outlier - self._offset, self.steps + 1
            self._offset, self._smallest, self._states, self._outliers = self._outlier, None, 0, 0
