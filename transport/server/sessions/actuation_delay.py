"""The actuation delay: time from a state until its torque acts, measured on the robot's clock only.

The field `t_applied` of a state is the time of the state whose torque acted until now. Without delay that is the previous
state: delay = t_robot − t_applied − period. A lost answer makes the delay appear longer for one tick; therefore the result is
a median.
"""

from bisect import bisect_left, insort
from collections import deque

MEMORY = 31
"""Number of delays from which the median is computed."""


STOPPED_NS = 50_000_000
"""Time without answers after which the robot's torques are taken for its own [ns]: its side stops after 100 ms or less."""


SETTLING = 50
"""States after a lost answer in which the robot's own side may still change torques: it returns to the server's gradually."""


class ActuationDelay:
    """Median actuation delay of one session.

    follows: whether the torque that acted until now is known to be that of the answer one delay ago: no answer was lost in the
        last `SETTLING` states, and none for as long as the robot's own side waits before it stops. None: no state had t_applied
    stopped: answers were missing for that long; the robot ignores further ones until a reset
    """

    follows: bool | None = None
    stopped = False

    def __init__(self, period_ns: int) -> None:
        self._period_ns, self._unsettled = period_ns, 0
        self._measured: deque[int] = deque()
        self._ordered: list[int] = []

    def reset(self) -> None:
        """Forget all measurements."""
        self._measured.clear()
        self._ordered.clear()

    def accepted(self, t_robot: int, t_applied: int | None) -> float:
        """Add the delay of an accepted state and return the median of the last delays [s], ≥ 0; 0 before the first one.

        t_robot, t_applied: robot's clock [ns]; t_applied = None adds no delay
        """
        if t_applied is not None:
            self._note(max(t_robot - t_applied - self._period_ns, 0))
        median = self._ordered[(len(self._ordered) - 1) // 2] if self._ordered else 0
        if t_applied is not None:
            missing = t_robot - t_applied - self._period_ns - median
            self.stopped = self.stopped or t_robot - t_applied > STOPPED_NS
            self._unsettled = SETTLING if missing >= self._period_ns // 2 else max(self._unsettled - 1, 0)
            self.follows = not self.stopped and not self._unsettled
        return median * 1e-9

    def _note(self, delay: int) -> None:
        """Add a measurement and drop the oldest one."""
        oldest = self._measured.popleft() if len(self._measured) == MEMORY else None
        self._measured.append(delay)
        if delay != oldest:
            if oldest is not None:
                del self._ordered[bisect_left(self._ordered, oldest)]
            insort(self._ordered, delay)
