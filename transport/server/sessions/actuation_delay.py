"""The actuation delay: time from a state until its torque acts, measured on the robot's clock only.

A state tells in `t_applied` which state's torque acted until now. Without delay that is the previous state; time beyond one
period is delay. A lost answer makes it appear longer for one tick, hence the median.
"""

from bisect import bisect_left, insort
from collections import deque

MEMORY = 31
"""Number of states for the median."""


class ActuationDelay:
    """Median actuation delay of one session."""

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self._measured: deque[int] = deque()
        self._ordered: list[int] = []

    def reset(self) -> None:
        """Forget all measurements."""
        self._measured.clear()
        self._ordered.clear()

    def accepted(self, t_robot: int, t_applied: int | None) -> float:
        """Return the delay after a state [s], ≥ 0; 0 without `t_applied`. t_robot, t_applied: robot's clock [ns]"""
        if t_applied is not None:
            self._note(max(t_robot - t_applied - self._period_ns, 0))
        return self._ordered[(len(self._ordered) - 1) // 2] * 1e-9 if self._ordered else 0.0

    def _note(self, delay: int) -> None:
        """Add a measurement and drop the oldest one."""
        oldest = self._measured.popleft() if len(self._measured) == MEMORY else None
        self._measured.append(delay)
        if delay != oldest:
            if oldest is not None:
                del self._ordered[bisect_left(self._ordered, oldest)]
            insort(self._ordered, delay)
