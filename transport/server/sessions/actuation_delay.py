"""How long a torque takes to the motors, told by the robot itself: no clock but its own.

A state names in `t_applied` the state whose torque the motors had until now. Without any delay that is the state of the tick
before; what is more than one period is delay. Single answers that are lost make it look longer for a tick: so a median counts.
"""

from bisect import bisect_left, insort
from collections import deque

MEMORY = 31
"""States whose median counts."""


class ActuationDelay:
    """Owns the last measurements of one session."""

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self._measured: deque[int] = deque()
        self._ordered: list[int] = []

    def reset(self) -> None:
        """Nothing has been measured."""
        self._measured.clear()
        self._ordered.clear()

    def accepted(self, t_robot: int, t_applied: int | None) -> float:
        """The delay now [s], ≥ 0, after a state of `t_robot` [ns]; 0 for robots that do not tell."""
        if t_applied is not None:
            self._note(max(t_robot - t_applied - self._period_ns, 0))
        return self._ordered[(len(self._ordered) - 1) // 2] * 1e-9 if self._ordered else 0.0

    def _note(self, delay: int) -> None:
        """In the place of the oldest one."""
        oldest = self._measured.popleft() if len(self._measured) == MEMORY else None
        self._measured.append(delay)
        if delay != oldest:
            if oldest is not None:
                del self._ordered[bisect_left(self._ordered, oldest)]
            insort(self._ordered, delay)
