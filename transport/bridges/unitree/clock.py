"""The time of a robot's states."""

import numpy as np

from idyn.types import Array

PERIOD_NS = 2_000_000
"""Period of the states [ns]."""

WRAP = 2**32
"""Number of values of the robot's tick."""

MILLISECOND_NS = 1_000_000
"""Unit of the tick [ns]."""

MOVING = 0.3
"""Norm of the joint speeds at which motion and times of sending count equally [rad/s]."""

MOST_PERIODS = 50
"""Longest time between two states by their motion; after a longer pause the times of sending count [periods]."""


class RobotClock:
    """Time by the robot's tick [ms], which wraps. Without a tick, for a simulator that sends none: by motion, or, at rest, by
    the times of sending.

    A simulator that has fallen behind makes its steps up at once. Between two states then lies more time than between their
    times of sending, and less between the next ones. The joints tell how much, Δq = n T v̄, with T the period of a state and v̄
    the mean speed, so that angles and speeds agree. Times of sending still pull the clock, so that both do not drift apart.
    """

    def __init__(self) -> None:
        self._ns: int | None = None
        self._tick = self._first = 0
        self._q = self._v = np.zeros(0)

    def time_ns(self, tick: int, sent_ns: int, q: Array, v: Array) -> int:
        """Return the time of the next state [ns], later than that of the one before.

        tick: of the state, 0: the robot has none; sent_ns: time of sending by the sender's clock [ns]
        q, v: angles [rad] and speeds [rad/s] of the joints
        """
        if self._ns is None:
            self._ns = self._first = sent_ns
        elif tick:
            self._ns += max((tick - self._tick) % WRAP * MILLISECOND_NS, 1)
        else:
            self._ns += max(round(self._periods(sent_ns - self._ns, q, v)), 1) * PERIOD_NS
        self._tick, self._q, self._v = tick, q, v
        return self._ns

    def step(self, q: Array, v: Array) -> float:
        """Return the time since the last state by the motion of the joints [periods], for a simulator's q ← q + T v; 1 at rest.

        Less than 1: some joints are still those of the last state.
        """
        squared = float(v @ v)
        if self._ns is None or squared < MOVING**2:
            return 1.0
        return float((q - self._q) @ v) / squared / (1e-9 * PERIOD_NS)

    def _periods(self, sent_ns: int, q: Array, v: Array) -> float:
        """Return the time since the last state [periods]. sent_ns: time of sending since the last state's time [ns]"""
        by_sending, mean = sent_ns / PERIOD_NS, 0.5 * (self._v + v)
        squared = float(mean @ mean)
        if squared == 0.0 or by_sending > MOST_PERIODS:
            return by_sending
        by_motion = float((q - self._q) @ mean) / squared / (1e-9 * PERIOD_NS)
        share = squared / (squared + MOVING**2)
        return share * min(max(by_motion, 1.0), MOST_PERIODS) + (1.0 - share) * by_sending
