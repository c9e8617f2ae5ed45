"""The time of a robot's states."""

PERIOD_NS = 2_000_000
"""Period of the states [ns]."""

DRIFT_NS = 20_000_000
"""Largest difference between the counted time and the time of arrival [ns]."""

WRAP = 2**32
"""Number of values of the robot's tick."""

MILLISECOND_NS = 1_000_000
"""Unit of the tick [ns]."""


class RobotClock:
    """Time by the robot's tick [ms], which wraps; without a tick, by counting states: their times of arrival vary too much."""

    def __init__(self) -> None:
        self._ns: int | None = None
        self._tick = 0

    def time_ns(self, tick: int, arrival: float) -> int:
        """Return the time of the next state [ns], later than that of the one before.

        tick: of the state, 0: the robot has none; arrival: by the monotonic clock [s]
        """
        arrived = round(arrival * 1e9)
        if self._ns is None:
            self._ns = arrived
        elif tick:
            self._ns += max((tick - self._tick) % WRAP * MILLISECOND_NS, 1)
        else:
            counted = self._ns + PERIOD_NS
            self._ns = counted if abs(counted - arrived) < DRIFT_NS else max(arrived, self._ns + 1)
        self._tick = tick
        return self._ns
