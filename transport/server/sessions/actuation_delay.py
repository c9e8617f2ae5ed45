"""How long a torque takes to the motors, told by the robot itself: no clock but its own.

A state names in `t_applied` the state whose torque the motors had until now. Without any delay that is the state of the tick
before; what is more than one period is delay. Single answers that are lost make it look longer for a tick: so a median counts.
"""

from collections import deque

MEMORY = 31
"""States whose median counts."""


class ActuationDelay:
    """Owns the last measurements of one session."""

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self._measured: deque[int] = deque(maxlen=MEMORY)

    def reset(self) -> None:
        """Nothing has been measured."""
        self._measured.clear()

    def accepted(self, t_robot: int, t_applied: int | None) -> float:
        """The delay now [s], ≥ 0, after a state of `t_robot` [ns]; 0 for robots that do not tell."""
        if t_applied is not None:
            self._measured.append(max(t_robot - t_applied - self._period_ns, 0))
        count = len(self._measured)
        return sorted(self._measured)[(count - 1) // 2] * 1e-9 if count else 0.0
