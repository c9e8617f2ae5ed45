"""The sessions of planners: clients that send commands while another client controls the robot."""

from transport.protocol.errors import ProtocolError
from transport.protocol.messages.command import PlanHello, PlanWelcome, SeenState
from transport.protocol.messages.error import Code
from transport.server.sessions.command_latch import CommandLatch, CommandOrder
from transport.server.sessions.handshake import Host, session_id
from transport.server.sessions.outcomes import Arrival, Reply

MOST_PLANNERS = 16
"""Largest number of planners with a session; a further one ends the oldest session."""


class PlannerSessions:
    """Identity, session number and commands of each planner, by its name."""

    def __init__(self, host: Host, command: CommandLatch) -> None:
        """command: the command in force"""
        self._host, self._command = host, command
        self._sessions: dict[str, tuple[bytes, int, CommandOrder]] = {}

    def knows(self, identity: bytes) -> bool:
        """Return whether this client has a session."""
        return any(identity == own for own, *_ in self._sessions.values())

    def commands(self, identity: bytes, session: int) -> CommandOrder | None:
        """Return the commands of the session of this number; None if it is not this client's."""
        return next((order for *own, order in self._sessions.values() if own == [identity, session]), None)

    def begin(self, hello: PlanHello, arrival: Arrival, state: SeenState | None) -> Reply:
        """Start a session. Planners over CURVE have keys of the role 'plan'; others are listed by name.

        state: last state of the robot, None without one
        Raises ProtocolError for a name that is not listed, and while a command of another client of this name is in force.
        """
        host = self._host
        if host.settings.curve is None and hello.name not in host.settings.planners:
            raise ProtocolError(Code.NOT_CONTROLLING, "name", f"'{hello.name}' is not in the server's setting `planners`")
        other, *_ = self._sessions.get(hello.name, (arrival.identity,))
        if other != arrival.identity and (left := self._command.in_force_s(other, arrival.now_ns)) > 0.0:
            raise ProtocolError(
                Code.NOT_CONTROLLING, "name", f"the command of another '{hello.name}' is in force for {left:.3f} s"
            )
        if len(self._sessions) >= MOST_PLANNERS and hello.name not in self._sessions:
            del self._sessions[next(iter(self._sessions))]
        number = session_id(arrival.data, arrival.now_ns, host.settings.session_bits)
        self._sessions[hello.name] = arrival.identity, number, CommandOrder()
        robot = host.robot
        return Reply(
            PlanWelcome(
                session=number,
                model_name=robot.name,
                joint_names=list(robot.joint_names),
                contact_frames=list(robot.contact_names),
                controller=host.controller,
                state=state,
            )
        )
