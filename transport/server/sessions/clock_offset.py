"""Age of a state, by two unsynchronised clocks: their offset is estimated, with drift and steps.

The offset is the smallest recent delay `t_recv − t_send`; a state's age is its delay beyond that. Setting a clock shifts all
later delays: single outliers are ignored, a shift that lasts becomes the new offset, and is reported.
"""

WINDOW = 1024
"""The smallest delay of one to two windows of so many states counts; clocks drift by some 50 ppm, far below a tick in it."""

LASTS = 25
"""So many states in a row with a delay of their own make it the new offset."""


class ClockOffset:
    """Between one client's clock and the server's.

    step_ns: by how much the offset changed at the last step [ns]; steps: how many there were
    """

    def __init__(self, believable_ns: int) -> None:
        """believable_ns: delays further than this from the offset, either way, are not believed at first [ns]"""
        self._believable_ns = believable_ns
        self._offset: int | None = None
        self._least: int | None = None
        self._states = 0
        self._other: int | None = None  # another delay than all others, and how often it was seen in a row
        self._seen = 0
        self.step_ns = self.steps = 0

    def age_ns(self, t_send: int | None, t_recv: int) -> int:
        """How much longer than usual this state was under way [ns], ≥ 0; it is remembered."""
        if t_send is None:
            return 0
        delay = t_recv - t_send
        if self._offset is None:
            self._offset = delay
        if abs(delay - self._offset) > self._believable_ns:
            self._doubt(delay)
        else:
            self._believe(delay)
        return max(0, delay - self._offset)

    def _believe(self, delay: int) -> None:
        self._seen = 0
        self._least = delay if self._least is None else min(self._least, delay)
        assert self._offset is not None  # by `age_ns`
        self._offset = min(self._offset, delay)
        self._states += 1
        if self._states == WINDOW:
            self._offset, self._least, self._states = self._least, None, 0

    def _doubt(self, delay: int) -> None:
        if self._other is None or abs(delay - self._other) > self._believable_ns:
            self._seen = 0
        self._other = delay if self._seen == 0 or self._other is None else min(self._other, delay)
        self._seen += 1
        if self._seen == LASTS:
            assert self._offset is not None  # by `age_ns`
            self.step_ns, self.steps = self._other - self._offset, self.steps + 1
            self._offset, self._least, self._states, self._seen = self._other, None, 0, 0
