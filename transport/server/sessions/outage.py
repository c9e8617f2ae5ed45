"""Dropouts of a robot: the time without a state by both clocks, the robot's and the server's, whichever is shorter.

A pause of the server is no dropout: the states that wait are a tick apart by the robot's clock. A pause of a simulated world is
none either: its next state is a tick later by its own clock. The server's clock counts from its last answer, because a client
may wait for that. Of simulated and replayed clients only their own clock counts.
"""


class OutageTimer:
    """Of one client since its last accepted state [ns].

    robot_clock: only the robot's clock counts
    """

    def __init__(self, *, robot_clock: bool) -> None:
        self._robot_clock = robot_clock
        self._t_robot: int | None = None
        self._accepted_ns: int | None = None
        self._now_ns = self._longest = 0

    def heard(self, t_robot: int, now_ns: int) -> None:
        """A state has arrived that is not answered."""
        if self._t_robot is None or t_robot > self._t_robot:
            self._longest = self.until(t_robot, now_ns)
            self._t_robot, self._now_ns = t_robot, now_ns

    def accepted(self, t_robot: int, now_ns: int, outage_ns: int) -> int:
        """A state has arrived that is, after this silence of the robot. By how much the server's clock has run on beyond that
        since the last one."""
        pause = 0 if self._accepted_ns is None else now_ns - self._accepted_ns - outage_ns
        self._t_robot, self._now_ns, self._accepted_ns, self._longest = t_robot, now_ns, now_ns, 0
        return pause

    def answered(self, now_ns: int) -> None:
        """The accepted state's answer has left."""
        self._now_ns = max(self._now_ns, now_ns)

    def until(self, t_robot: int, now_ns: int) -> int:
        """The longest silence since the last accepted state, if a state of `t_robot` arrives now."""
        if self._t_robot is None:
            return 0
        by_robot = t_robot - self._t_robot
        return max(self._longest, by_robot if self._robot_clock else min(by_robot, now_ns - self._now_ns))
