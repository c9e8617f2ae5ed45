"""The dispatcher: decodes messages of all clients, finds their sessions, and returns outcomes. No socket, no clock.

One client controls the robot, until it sends `stop` or has sent no state for `release_ms`. Shadow clients receive torques at
the same time, and must not apply them.
"""

from collections import Counter
from collections.abc import Callable
from typing import Literal

from transport.protocol.codec import decode
from transport.protocol.errors import ProtocolError
from transport.protocol.messages import requests
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.command import CommandAck, CommandMessage, PlanHello, PlanWelcome, SeenState
from transport.protocol.messages.state import Comm, StateMessage
from transport.server.sessions.emergency_stop import StopClients, readable
from transport.server.sessions.handshake import Host, agree, session_id, welcome
from transport.server.sessions.latches import CommandLatch, CommandOrder, Latched, Latches
from transport.server.sessions.session import (
    Accepted,
    Arrival,
    Outcome,
    Phase,
    Refusal,
    Reply,
    Request,
    Requested,
    Resend,
    Restart,
    Session,
)

MOST_PLANNERS = 16  # largest number of planners with a session; a further one ends the oldest session


class PlannerSessions:
    """Identity, session number and commands of each planner, by its name."""

    def __init__(self, command: CommandLatch) -> None:
        """command: the command in force"""
        self._command = command
        self._sessions: dict[str, tuple[bytes, int, CommandOrder]] = {}

    def knows(self, identity: bytes) -> bool:
        """Return whether this client has a session."""
        return any(identity == own for own, *_ in self._sessions.values())

    def commands(self, identity: bytes, session: int) -> CommandOrder | None:
        """Return the commands of the session of this number; None if it is not this client's."""
        return next((order for *own, order in self._sessions.values() if own == [identity, session]), None)

    def begin(self, hello: PlanHello, arrival: Arrival, host: Host, state: SeenState | None) -> Reply:
        """Start a session. Planners over CURVE have keys of the role 'plan'; others are listed by name.

        state: last state of the robot, None without one
        Raises ProtocolError for a name that is not listed, and while a command of another client of this name is in force.
        """
        if host.settings.curve is None and hello.name not in host.settings.planners:
            raise ProtocolError(Code.NOT_CONTROLLING, "name", f"'{hello.name}' is not in the server's setting `planners`")
        other, *_ = self._sessions.get(hello.name, (arrival.identity,))
        if other != arrival.identity and (left := self._command.in_force_s(other, arrival.now_ns)) > 0.0:
            problem = f"the command of another '{hello.name}' is in force for {left:.3f} s"
            raise ProtocolError(Code.NOT_CONTROLLING, "name", problem)
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
                controller=host.controller_settings,
                state=state,
            )
        )


Handler = Callable[..., Outcome]
"""Handler of one message type: (session or None, message, arrival) → outcome. Raises ProtocolError for a refusal."""


class Dispatcher:
    """All sessions, by the identity of their client. stops: the emergency-stop clients; states: number of received states"""

    def __init__(self, host: Host, *, shadows: int) -> None:
        """shadows: number of shadow clients allowed"""
        self.host = host
        self.sessions: dict[bytes, Session] = {}
        self.received = self.states = 0
        self.refused: Counter[str] = Counter()
        self._shadows = shadows
        self._latches, self._command = Latches(), CommandLatch()  # of the robot, independent of sessions
        settings = host.settings
        self.stops = StopClients(settings, self.sessions, self._latches)
        self._control = b""  # identity of the last client that took control
        self._planners = PlannerSessions(self._command)
        self._release_ns = round(settings.release_ms * 1e6)
        self._latch_ns = round(settings.watchdog.latch_ms * 1e6)
        self.table = self._state_table()

    def _state_table(self) -> dict[Phase, dict[type, Handler]]:
        """Return the handler of each message type in each phase of a session; other types are refused."""
        always: dict[type, Handler] = {
            requests.Hello: self._begin,
            requests.Stop: self._end,
            requests.StatsGet: self._pass_on,
            requests.TickGet: self._pass_on,
            requests.ConfigSet: self._pass_on,
            requests.ConfigGet: self._send_settings,
            PlanHello: self._begin_plan,
            CommandMessage: self._accept_command,
            requests.Estop: self._stop_from_anywhere,
        }
        without = always | dict.fromkeys((StateMessage, requests.Reset, requests.Heartbeat), self._refuse_without_session)
        within = always | {StateMessage: self._tick, requests.Reset: self._reset, requests.Heartbeat: self._echo}
        latched = within | {StateMessage: self._refuse_latched}
        return {Phase.ABSENT: without, Phase.RUNNING: within, Phase.LATCHED: latched, Phase.ENDED: dict(without)}

    def receive(self, arrival: Arrival) -> Outcome:
        """Return the outcome of a message, `Refusal` if it is malformed or not allowed."""
        self.received += 1
        message = None
        session = self.sessions.get(arrival.identity)
        try:
            try:
                message = decode(arrival.data)
            finally:  # before all other checks, and also for malformed messages
                stops = self.stops.engage(arrival.identity, message, arrival.data)
            handler = self.table[Phase.ABSENT if session is None else session.phase].get(type(message))
            if handler is None:
                kind = message.__struct_config__.tag
                raise ProtocolError(Code.BAD_SCHEMA, "t", f"expected a message of a client, got '{kind}'")
            return handler(session, message, arrival)
        except ProtocolError as error:
            refusal = self.refuse(error, session, message)
            if stops:
                refusal.message += "; its emergency stop is engaged"
            fault = error.fault if isinstance(error, Latched) else None
            return Refusal(refusal, about_state=isinstance(message, StateMessage), fault=fault)

    def overtaken(self, arrival: Arrival) -> None:
        """Note a state that arrived together with a newer one."""
        session, message = self.sessions.get(arrival.identity), readable(arrival.data)
        self.stops.engage(arrival.identity, message, arrival.data)
        if session is None:
            return
        self.states += 1
        session.heard_ns = arrival.now_ns
        if isinstance(message, StateMessage) and message.session == session.id:
            session.used = True
            session.overtaken(message.t_robot, arrival.now_ns)

    def refuse(self, error: ProtocolError, session: Session | None, message: object) -> ErrorMessage:
        """Count a refusal and return the error reply."""
        self.refused[error.code] += 1
        seq = message.seq if isinstance(message, StateMessage) else None
        return error.reply(session.id if session else None, seq)

    def controlling(self, now_ns: int) -> bytes:
        """Return the identity of the client that controls the robot; b'' without one."""
        return self._control if self._controlling(now_ns) is not None else b""

    def period_ns(self) -> int:
        """Return the nominal period of the client that took control last [ns]; 0 without one."""
        session = self.sessions.get(self._control)
        return session.agreement.dt_ns if session is not None else 0

    def comm(self, session: Session | None) -> Comm | None:
        """Return the statistics of a session; without one, those of the client that took control last, None before it."""
        reported = session or self.sessions.get(self._control)
        return reported.comm.report if reported else None

    def fault(self, session: Session | None) -> str | None:
        """Return what stops the robot of a session until `reset`; without a session, the controlled robot."""
        return (session.latches if session else self._latches).reason or None

    def knows(self, identity: bytes) -> bool:
        """Return whether this client has a session, as a robot, a shadow or a planner."""
        return identity in self.sessions or self._planners.knows(identity)

    def shadows(self, identity: bytes) -> bool:
        """Return whether this is a shadow client."""
        session = self.sessions.get(identity)
        return session is not None and session.agreement.dry_run

    def farewell(self, reason: str) -> list[tuple[bytes, requests.StopAck]]:
        """End all sessions because the server ends. Return identity and message for each client."""
        running = [(identity, session) for identity, session in self.sessions.items() if not session.ended]
        self.sessions.clear()
        return [(identity, requests.StopAck(session=session.id, reason=reason)) for identity, session in running]

    def end_sessions(self) -> None:
        """End all sessions except shadows: after a change of the controller a client needs a new hello."""
        for key in [key for key, session in self.sessions.items() if not session.agreement.dry_run]:
            del self.sessions[key]

    # -- the handlers of the state table ----------------------------------------------------------------------------------

    def _begin(self, session: Session | None, hello: requests.Hello, arrival: Arrival) -> Restart:
        """Start a session. A hello that is repeated before its client has used the session gets the same welcome."""
        if session is not None and not (session.used or session.ended) and session.agreement.hello == arrival.data:
            session.heard_ns = arrival.now_ns
            return Restart(session, welcome(session.agreement, self.host, session.latches.reason))
        dry_run = hello.client.kind == "shadow"
        rivals = [key for key, other in self.sessions.items() if key != arrival.identity and other.agreement.dry_run == dry_run]
        busy = [key for key in rivals if self._alive(self.sessions[key], arrival.now_ns)]
        if len(busy) >= (self._shadows if dry_run else 1):
            problem = f"expected at most {self._shadows} shadow clients" if dry_run else "another client controls the robot"
            raise ProtocolError(Code.NOT_CONTROLLING, "client.kind", problem)
        agreement = agree(hello, self.host, arrival.data, arrival.now_ns)
        for key in rivals:
            del self.sessions[key]
        latches, fault = Latches() if dry_run else self._latches, None
        if not dry_run:
            self._command.clear()
            self._control = arrival.identity
            fault = latches.begin(agreement.id, self._latch_ns, arrival.now_ns)
        begun = self.sessions[arrival.identity] = Session(agreement, self.host.settings, arrival.now_ns, latches, self._command)
        return Restart(begun, welcome(agreement, self.host, latches.reason), fault)

    def _tick(self, session: Session, state: StateMessage, arrival: Arrival) -> Resend | Accepted:
        self.states += 1
        session.check_number(state.session)
        session.heard_ns = arrival.now_ns
        if not session.agreement.dry_run and (silence := self.stops.silence(arrival.now_ns)):
            session.latches.engage(f"emergency stop: {silence}")
        known = session.recorded_reply(state, arrival.data)
        return Accepted(session, state, session.accept(state, arrival.now_ns)) if known is None else Resend(known)

    def _refuse_latched(self, session: Session, state: StateMessage, arrival: Arrival) -> Outcome:
        self.states += 1
        session.check_number(state.session)
        session.heard_ns = arrival.now_ns
        assert session.latches.fault is not None  # by `Session.phase`
        raise ProtocolError(Code.LATCHED_FAULT, None, session.latches.fault.refusal)

    def _refuse_without_session(self, session: Session | None, message: object, arrival: Arrival) -> Outcome:
        raise ProtocolError(Code.NOT_CONTROLLING, None, "no session; send hello first")

    def _reset(self, session: Session, reset: requests.Reset, arrival: Arrival) -> Restart:
        session.check_number(reset.session)
        session.heard_ns = arrival.now_ns
        if not session.agreement.dry_run and (silence := self.stops.silence(arrival.now_ns)):
            raise ProtocolError(Code.LATCHED_FAULT, None, silence)
        session.reset(reset)
        return Restart(session, requests.ResetAck(session=session.id))

    def _echo(self, session: Session, heartbeat: requests.Heartbeat, arrival: Arrival) -> Reply:
        """Answer a heartbeat. It does not prolong the client's control of the robot."""
        session.check_number(heartbeat.session)
        mode: Literal["ok", "latched"] = "latched" if session.latches.reason else "ok"
        sent, received = heartbeat.t_send, arrival.now_ns
        return Reply(requests.HeartbeatAck(session=session.id, t_send=sent, t_recv=received, mode=mode))

    def _end(self, session: Session | None, stop: requests.Stop, arrival: Arrival) -> Reply:
        """End the session. The session number is not checked, so that `stop` always works."""
        if session is not None:
            session.ended = True
            if not session.agreement.dry_run:
                self._latches.heard_ns = None
        return Reply(requests.StopAck(session=stop.session))

    def _stop_from_anywhere(self, session: Session | None, estop: requests.Estop, arrival: Arrival) -> Reply:
        """Acknowledge an emergency stop, which `receive` has engaged, or a heartbeat of its client."""
        if not self.stops.allows(estop.name):
            raise ProtocolError(Code.NOT_CONTROLLING, "name", f"'{estop.name}' is not in the server's setting `estops`")
        self.stops.hear(arrival.identity, arrival.now_ns)
        reason = self._latches.estop
        return Reply(requests.EstopAck(stopped=bool(reason), reason=reason, timeout_ms=self.host.settings.estop_timeout_ms))

    def _pass_on(self, session: Session | None, request: Requested, arrival: Arrival) -> Request:
        return Request(session, request)

    def _send_settings(self, session: Session | None, request: requests.ConfigGet, arrival: Arrival) -> Reply:
        return Reply(requests.Config(settings=self.host.controller_settings))

    def _begin_plan(self, session: Session | None, hello: PlanHello, arrival: Arrival) -> Reply:
        return self._planners.begin(hello, arrival, self.host, self._seen(arrival.now_ns))

    def _accept_command(self, session: Session | None, command: CommandMessage, arrival: Arrival) -> Reply:
        order = self._planners.commands(arrival.identity, command.session)
        if order is None:
            if session is None:
                raise ProtocolError(Code.NOT_CONTROLLING, None, "no session; send plan_hello or hello first")
            session.check_number(command.session)
            if not self._controls(session, arrival.now_ns):
                raise ProtocolError(Code.NOT_CONTROLLING, None, "only the controlling client and planners may send commands")
            order = session.commands
        order.check(command, arrival.data, arrival.now_ns)
        if (fault := self._latches.fault) is not None:
            raise ProtocolError(Code.LATCHED_FAULT, None, fault.refusal)
        if command.tasks and not self.host.controller.realises_tasks:
            raise ProtocolError(Code.BAD_SCHEMA, "tasks", "the controller's law or grip permits no tasks")
        until = self._command.accept(command, self.host, arrival.identity, arrival.now_ns)
        order.accepted(arrival.data, until)
        return Reply(CommandAck(session=command.session, valid_until=until, state=self._seen(arrival.now_ns)))

    def _seen(self, now_ns: int) -> SeenState | None:
        return None if (session := self._controlling(now_ns)) is None else session.seen()

    # -- control ----------------------------------------------------------------------------------------------------------

    def _alive(self, session: Session, now_ns: int) -> bool:
        return not session.ended and now_ns - session.heard_ns < self._release_ns

    def _controlling(self, now_ns: int) -> Session | None:
        session = self.sessions.get(self._control)
        return session if session is not None and self._controls(session, now_ns) else None

    def _controls(self, session: Session, now_ns: int) -> bool:
        return not session.agreement.dry_run and self._alive(session, now_ns)
