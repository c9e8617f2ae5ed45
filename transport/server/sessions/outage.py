"""Duration of an outage: the shorter of the times without states on the robot's and on the server's clock.

A pause of the server is not an outage: the waiting states are one tick apart on the robot's clock. A pause of the robot is not
an outage either, if its clock pauses too. The server's clock counts from its last answer, because a client may wait for it.
For simulated and replayed clients only their own clock counts.

Beyond a bound the server's clock alone is an outage, too, unless the robot's clock advanced at least half as far: otherwise a
robot's clock that is slow, stopped or in wrong units would hide any silence.
"""


class OutageTimer:
    """Measures the time without states of one client [ns].

    silence_ns: time on the server's clock that is an outage whatever the robot's clock says [ns]
    robot_clock: use the robot's clock only
    """

    def __init__(self, silence_ns: int, *, robot_clock: bool) -> None:
        self._silence_ns, self._robot_clock = silence_ns, robot_clock
        self._t_robot: int | None = None
        self._answered: tuple[int, int] | None = None  # t_robot of the last accepted state; server's clock at its answer
        self._accepted_ns: int | None = None
        self._now_ns = self._longest = 0

    def heard(self, t_robot: int, now_ns: int) -> None:
        """Note the arrival of a state that is not answered. t_robot: robot's clock, now_ns: server's clock [ns]"""
        if self._t_robot is None or t_robot > self._t_robot:
            self._longest = self._gap(t_robot, now_ns)
            self._t_robot, self._now_ns = t_robot, now_ns

    def accepted(self, t_robot: int, now_ns: int, outage_ns: int) -> int:
        """Note an accepted state and return the duration of a pause of the server [ns].

        The pause is the time since the last accepted state on the server's clock, minus the outage.
        outage_ns: the result of `until`
        """
        pause = 0 if self._accepted_ns is None else now_ns - self._accepted_ns - outage_ns
        self._t_robot, self._now_ns, self._accepted_ns, self._longest = t_robot, now_ns, now_ns, 0
        self._answered = t_robot, now_ns
        return pause

    def answered(self, now_ns: int) -> None:
        """Note that the answer to the accepted state was sent."""
        self._now_ns = max(self._now_ns, now_ns)
        if self._answered is not None:
            self._answered = self._answered[0], self._now_ns

    def until(self, t_robot: int, now_ns: int) -> int:
        """Return the longest time without states since the last accepted state, if a state of `t_robot` arrives now [ns]."""
        gap = self._gap(t_robot, now_ns)
        if self._answered is None or self._robot_clock:
            return gap
        t_answered, answered_ns = self._answered
        silence = now_ns - answered_ns
        return silence if silence > self._silence_ns and 2 * (t_robot - t_answered) < silence else gap

    def _gap(self, t_robot: int, now_ns: int) -> int:
        """Return the longest time without states on both clocks."""
        if self._t_robot is None:
            return 0
        by_robot = t_robot - self._t_robot
        return max(self._longest, by_robot if self._robot_clock else min(by_robot, now_ns - self._now_ns))
