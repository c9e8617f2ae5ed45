"""The rate of the robot's clock: `t_robot` in other units than ns is found in the first states of a session.

r = advance of `t_robot` per tick of `dt_nominal`, s = advance of `t_robot` per time on the server's clock. Units are wrong when
both are wrong: a robot that runs slower than it said has a wrong r but s = 1, and after a pause of the server s is wrong but
r = 1. For simulated clients, whose world may run at any speed, r alone decides.
"""

import math

STATES = 100
"""Number of states in which the rate is judged."""

FIRST = 10
"""State from which it is judged; before, single delays count too much."""

FACTOR = 30.0
"""Rates between 1/FACTOR and FACTOR are not errors of units: these are factors of 1000."""

PERIODS = (0.5, 5.0)
"""Bounds of the mean period as multiples of `dt_nominal`: beyond them the measured period of a tick is clamped."""

UNITS = {0: "ns", -1: "µs", -2: "ms", -3: "s"}
"""Unit of `t_robot` for each power of 1000 of r."""


class ClockRate:
    """Judges the clock of one client in its first states."""

    def __init__(self, dt_ns: int, *, robot_clock: bool) -> None:
        """dt_ns: nominal period [ns]; robot_clock: the client is simulated or replayed"""
        self._dt_ns, self._robot_clock = dt_ns, robot_clock
        self._first: tuple[int, int, int] | None = None
        self._states = 0

    @property
    def judged(self) -> bool:
        """Whether enough states were seen."""
        return self._states >= STATES

    def problem(self, seq: int, t_robot: int, now_ns: int) -> str:
        """Return what is wrong with the clock or with `dt_nominal`; '' if nothing is.

        seq, t_robot: of an accepted state, robot's clock [ns]; now_ns: its arrival, server's clock [ns]
        """
        self._states += 1
        if self._first is None:
            self._first = seq, t_robot, now_ns
        if self._states < FIRST:
            return ""
        seq0, t0, now0 = self._first
        advance, nominal, elapsed = t_robot - t0, (seq - seq0) * self._dt_ns, max(now_ns - now0, 1)
        r, s = advance / nominal, advance / elapsed
        if not 1.0 / FACTOR < r < FACTOR and (self._robot_clock or not 1.0 / FACTOR < s < FACTOR):
            unit = UNITS.get(round(math.log10(r) / 3.0))
            guess = f"; it appears to be in {unit}" if unit not in (None, "ns") else ""
            by = "" if self._robot_clock else f" and by {elapsed * 1e-6:.3g} ms on the server's clock"
            return (
                f"t_robot: expected ns, got an advance of {advance} in {seq - seq0} periods of dt_nominal"
                f" ({nominal * 1e-6:.3g} ms){by}{guess}"
            )
        if self._states == STATES and not self._robot_clock and not PERIODS[0] <= r <= PERIODS[1] and 0.5 < s < 2.0:
            mean = advance / (seq - seq0) * 1e-9
            return f"dt_nominal: expected about the measured period of {mean:.3g} s, got {self._dt_ns * 1e-9:.3g} s"
        return ""
