"""Who may talk, and about what: from bytes of any client to what the service has to do. No socket, no clock.

One client controls; it keeps that right until it stops or has been silent for `release_ms`. Shadows watch beside it.
"""

from collections import Counter

import msgspec

from transport.protocol.codec import decode
from transport.protocol.errors import ProtocolError
from transport.protocol.messages import FromServer, Message
from transport.protocol.messages.base import ClientMessage
from transport.protocol.messages.error import Code, ErrorMessage
from transport.protocol.messages.hello import Hello
from transport.protocol.messages.requests import (
    ConfigGet,
    ConfigSet,
    Heartbeat,
    HeartbeatAck,
    Reset,
    ResetAck,
    StatsGet,
    Stop,
    StopAck,
)
from transport.protocol.messages.state import StateMessage
from transport.server.sessions.emergency_stop import EmergencyStop, asked
from transport.server.sessions.handshake import Host, agree
from transport.server.sessions.session import Accepted, Fault, Session
from transport.server.sessions.state_table import TABLE, Action, Phase


class Reply(msgspec.Struct, frozen=True):
    """Send this. about_state: in answer to a state."""

    message: FromServer
    about_state: bool = False


class Known(msgspec.Struct, frozen=True):
    """Send this again: it answered the same state before."""

    reply: bytes


class Begin(msgspec.Struct, frozen=True):
    """A session begins: reset its controller and welcome it."""

    session: Session


class Cleared(msgspec.Struct, frozen=True):
    """A fault was cleared: reset the session's controller and send this."""

    session: Session
    message: ResetAck


class Tick(msgspec.Struct, frozen=True):
    """Step the session's controller with this and answer."""

    session: Session
    accepted: Accepted


class Ask(msgspec.Struct, frozen=True):
    """Answer a question that does not concern the control."""

    session: Session | None
    message: StatsGet | ConfigGet | ConfigSet


Outcome = Reply | Known | Begin | Cleared | Tick | Ask


class Reception:
    """All sessions, by the identity of their client."""

    def __init__(self, host: Host, *, shadows: int) -> None:
        self.host = host
        self.sessions: dict[bytes, Session] = {}
        self.faults: list[Fault] = []
        self.received = 0
        self.refused: Counter[str] = Counter()
        self._shadows = shadows
        self._stop = EmergencyStop()  # of the robot, whoever controls it
        self._release_ns = round(host.settings.release_ms * 1e6)

    def receive(self, identity: bytes, data: bytes, now_ns: int) -> Outcome:
        """What a message leads to. Malformed and refused ones lead to a `Reply` with the blame."""
        self.received += 1
        message = None
        session = self.sessions.get(identity)
        try:
            try:
                message = decode(data)
            finally:  # before anything else is looked at, and of what cannot be read, too
                stops = self._stops(session, message, data)
            if not isinstance(message, ClientMessage):
                kind = message.__struct_config__.tag
                raise ProtocolError(Code.BAD_SCHEMA, "t", f"a client does not send '{kind}'")
            return self._dispatch(identity, session, message, data, now_ns)
        except ProtocolError as error:
            refusal = self.refuse(error, session, message)
            if stops:
                refusal.message += "; its emergency stop is engaged"
            return Reply(refusal, about_state=isinstance(message, StateMessage))

    def overtaken(self, identity: bytes, data: bytes, now_ns: int) -> None:
        """A state that came together with a newer one."""
        session = self.sessions.get(identity)
        if session is None:
            return
        session.heard_ns = now_ns
        try:
            message = decode(data)
        except ProtocolError:
            self._stops(session, None, data)
            return
        self._stops(session, message, data)
        if isinstance(message, StateMessage) and message.session == session.id:
            session.overtaken(message.t_robot, now_ns)

    def _stops(self, session: Session | None, message: Message | None, data: bytes) -> bool:
        """Engage an emergency stop when the message asks for one; whether it does. Over a new connection, before any hello,
        the session's number is enough."""
        number = asked(message, data)
        if number is None:
            return False
        own = session or next((other for other in self.sessions.values() if other.id == number), None)
        if own is not None:
            own.stop.engaged = True
        return own is not None

    def refuse(self, error: ProtocolError, session: Session | None, message: object) -> ErrorMessage:
        """The error reply, counted."""
        self.refused[error.code] += 1
        seq = message.seq if isinstance(message, StateMessage) else None
        return error.reply(session.id if session else None, seq)

    def controlling(self, now_ns: int) -> bool:
        """Whether a client controls the robot now."""
        return any(self._controls(session, now_ns) for session in self.sessions.values())

    def end_sessions(self) -> None:
        """Who controlled the robot before it got another controller must say hello to that one."""
        self.sessions = {key: session for key, session in self.sessions.items() if session.agreement.dry_run}

    def _dispatch(self, identity: bytes, session: Session | None, message: ClientMessage, data: bytes, now_ns: int) -> Outcome:
        action = TABLE[Phase.ABSENT if session is None else session.phase][type(message)]
        if action is Action.REFUSE_ABSENT:
            raise ProtocolError(Code.NOT_CONTROLLING, None, "no session; send hello first")
        if session is not None and isinstance(message, StateMessage | Heartbeat | Reset):
            return self._serve(session, message, action, data, now_ns)
        if isinstance(message, Hello):
            return self._greet(identity, message, data, now_ns)
        if isinstance(message, Stop):
            return self._end(session, message)
        assert isinstance(message, StatsGet | ConfigGet | ConfigSet)  # nothing else is in the table
        return Ask(session, message)

    def _serve(
        self, session: Session, message: StateMessage | Heartbeat | Reset, action: Action, data: bytes, now_ns: int
    ) -> Outcome:
        """A message inside a session."""
        if message.session != session.id:
            raise ProtocolError(
                Code.NOT_CONTROLLING, "session", f"expected {session.id}, got {message.session}; send hello first"
            )
        if not isinstance(message, Heartbeat):  # a heart alone holds no control
            session.heard_ns = now_ns
        if isinstance(message, StateMessage):
            if action is Action.REFUSE_LATCHED:
                raise session.refusal()
            if (known := session.known_answer(message, data)) is not None:
                return Known(known)
            return Tick(session, session.accept(message, now_ns))
        if isinstance(message, Reset):
            session.reset(message)
            return Cleared(session, ResetAck(session=session.id))
        latched = session.phase is Phase.LATCHED
        ack = HeartbeatAck(session=session.id, t_send=message.t_send, t_recv=now_ns, mode="latched" if latched else "ok")
        return Reply(ack)

    def _greet(self, identity: bytes, hello: Hello, data: bytes, now_ns: int) -> Begin:
        agreement = agree(hello, self.host, data, now_ns)
        others = [(key, other) for key, other in self.sessions.items() if key != identity]
        rivals = [key for key, other in others if other.agreement.dry_run == agreement.dry_run]
        busy = [key for key in rivals if self._alive(self.sessions[key], now_ns)]
        if agreement.dry_run and len(busy) >= self._shadows:
            raise ProtocolError(Code.NOT_CONTROLLING, "client.kind", f"the server has room for {self._shadows} shadows")
        if not agreement.dry_run and busy:
            raise ProtocolError(Code.NOT_CONTROLLING, "client.kind", "another client controls the robot")
        for key in rivals:
            del self.sessions[key]
        stop = EmergencyStop() if agreement.dry_run else self._stop
        session = Session(agreement, self.host.settings, now_ns, self.faults, stop)
        self.sessions[identity] = session
        return Begin(session)

    def _end(self, session: Session | None, message: Stop) -> Reply:
        """Stopping needs no valid session number: it must work when nothing else does."""
        if session is not None:
            session.phase = Phase.ENDED
        return Reply(StopAck(session=message.session))

    def _alive(self, session: Session, now_ns: int) -> bool:
        return session.phase is not Phase.ENDED and now_ns - session.heard_ns < self._release_ns

    def _controls(self, session: Session, now_ns: int) -> bool:
        return not session.agreement.dry_run and self._alive(session, now_ns)
