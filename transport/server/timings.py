"""Durations of the controller's steps, and the server's statistics."""

from transport.protocol.messages.requests import Stats
from transport.server.sessions.dispatcher import Dispatcher
from transport.server.sessions.session import Session


class Timings:
    """Step durations [ns] and missed deadlines of all ticks since the start of the service.

    others_ns: time spent on clients other than the controlling one, while there was one [ns]; dropped: their dropped messages
    """

    def __init__(self) -> None:
        self.others_ns = self.dropped = 0
        self.steps = self.total_ns = self.max_ns = self.deadline_misses = 0

    def note(self, step_ns: int, deadline_met: bool) -> None:
        """Count one tick."""
        self.steps += 1
        self.total_ns += step_ns
        self.max_ns = max(self.max_ns, step_ns)
        self.deadline_misses += not deadline_met

    @property
    def summary(self) -> str:
        """The work so far in a few words."""
        return f"{self.steps} torques, {self.deadline_misses} of them late"

    def report(self, dispatcher: Dispatcher, session: Session | None) -> Stats:
        """Return the statistics, with the counters of the dispatcher and of a session, of the robot without one."""
        return Stats(
            received=dispatcher.received,
            torques=self.steps,
            refused=dict(dispatcher.refused),
            deadline_misses=self.deadline_misses,
            step_us_mean=self.total_ns * 1e-3 / max(1, self.steps),
            step_us_max=self.max_ns * 1e-3,
            comm=dispatcher.comm(session),
            others_us_mean=self.others_ns * 1e-3 / max(1, self.steps),
            dropped=self.dropped,
            fault=dispatcher.fault(session),
            states=dispatcher.states,
        )
