"""Age of a state, by two unsynchronised clocks: their offset is estimated, with drift and steps.

The offset is the smallest recent delay `t_recv − t_send`; a state's age is its delay beyond that. Setting a clock shifts all
later delays: single outliers are ignored, a shift that lasts becomes the new offset, and is reported.
"""

WINDOW = 1024
"""The smallest delay of one to two windows of so many states counts; clocks drift by some 50 ppm, far below a tick in it."""

STEP_STATES = 25
"""So many states in a row with a delay of their own make it the new offset."""


class ClockOffset:
    """Between one client's clock and the server's.

    step_ns: by how much the offset changed at the last step [ns]; steps: how many there were
    """

    def __init__(self, tolerance_ns: int) -> None:
        """tolerance_ns: delays further than this from the offset, either way, are not believed at first [ns]"""
        self._tolerance_ns = tolerance_ns
        self._offset: int | None = None
        self._smallest: int | None = None
        self._states = 0
        self._outlier: int | None = None  # another delay than all others, and how often it was seen in a row
        self._outliers = 0
        self.step_ns = self.steps = 0

    def age_ns(self, t_send: int | None, t_recv: int) -> int:
        """How much longer than usual this state was under way [ns], ≥ 0; it is remembered."""
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
        self._outliers = 0
        self._smallest = delay if self._smallest is None else min(self._smallest, delay)
        assert self._offset is not None  # by `age_ns`
        self._offset = min(self._offset, delay)
        self._states += 1
        if self._states == WINDOW:
            self._offset, self._smallest, self._states = self._smallest, None, 0

    def _count_outlier(self, delay: int) -> None:
        if self._outlier is None or abs(delay - self._outlier) > self._tolerance_ns:
            self._outliers = 0
        self._outlier = delay if self._outliers == 0 or self._outlier is None else min(self._outlier, delay)
        self._outliers += 1
        if self._outliers == STEP_STATES:
            assert self._offset is not None  # by `age_ns`
            self.step_ns, self.steps = self._outlier - self._offset, self.steps + 1
            self._offset, self._smallest, self._states, self._outliers = self._outlier, None, 0, 0
