"""The time of a robot's states."""

PERIOD_NS = 2_000_000
"""Period of the states [ns]."""

WRAP = 2**32
"""Number of values of the robot's tick."""

MILLISECOND_NS = 1_000_000
"""Unit of the tick [ns]."""


class RobotClock:
    """Time by the robot's tick [ms], which wraps; without a tick, by the times of sending, rounded to whole periods."""

    def __init__(self) -> None:
        self._ns: int | None = None
        self._tick = self._first = 0

    def time_ns(self, tick: int, sent_ns: int) -> int:
        """Return the time of the next state [ns], later than that of the one before.

        tick: of the state, 0: the robot has none; sent_ns: time of sending by the sender's clock [ns]
        """
        if self._ns is None:
            self._ns = self._first = sent_ns
        elif tick:
            self._ns += max((tick - self._tick) % WRAP * MILLISECOND_NS, 1)
        else:
            periods = round((sent_ns - self._first) / PERIOD_NS)
            self._ns = max(self._first + periods * PERIOD_NS, self._ns + PERIOD_NS)
        self._tick = tick
        return self._ns
