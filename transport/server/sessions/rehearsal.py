"""Cache warming: the last state is received once more before the next one comes, by a session of its own."""

from transport.server.sessions.emergency_stop import EmergencyStop
from transport.server.sessions.handshake import Host
from transport.server.sessions.outcomes import Arrival
from transport.server.sessions.reception import Reception
from transport.server.sessions.session import Accepted, Session


class Rehearsal:
    """A reception of its own, which is told each state that another one has accepted. Theirs notes nothing of it."""

    def __init__(self, host: Host) -> None:
        self._reception = Reception(host, shadows=0)

    def receive(self, arrival: Arrival, accepted: Accepted) -> None:
        """Receive once more what was accepted. Where that is refused, as the first state is, the next one will not be."""
        outcome = self._reception.receive(arrival)
        if not isinstance(outcome, Accepted):
            agreement, settings = accepted.session.agreement, self._reception.host.settings
            stand_in = Session(agreement, settings, arrival.now_ns, EmergencyStop(), seq=accepted.message.seq)
            self._reception.sessions = {arrival.identity: stand_in}
