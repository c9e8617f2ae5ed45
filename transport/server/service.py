"""The service: bytes of a state in, bytes of a torque out. It carries out what the reception says, steps the
controller, and has both noted.

The same bytes, handed in at the same times, get the same torques, bit for bit; a log is replayed through it.
"""

import logging
from collections.abc import Callable
from time import monotonic_ns

import msgspec

from controllers.command import Command, Mode
from idyn.inputs import finite
from idyn.types import Array, ContactSet
from transport.log.part import Entry
from transport.log.recorder import Recorder
from transport.protocol.codec import decode, encode
from transport.protocol.errors import ProtocolError
from transport.protocol.foot_switches import FootSwitches
from transport.protocol.messages import FromServer
from transport.protocol.messages.error import Code, ErrorMessage
from transport.protocol.messages.requests import Config, ConfigSet
from transport.server.rate_limit import RateLimit
from transport.server.reconfigure import Built, Order, Workshop, changed
from transport.server.served_controller import ServedController, build_host
from transport.server.sessions.outcomes import Afresh, Arrival, Change, Known, Refusal, Report, Tick
from transport.server.sessions.reception import Reception
from transport.server.sessions.session import Accepted, Fault, Session
from transport.server.settings import ServerSettings
from transport.server.timings import Timings
from transport.server.torque_reply import Decision, torque_message

log = logging.getLogger(__name__)


class Seat:
    """A controller and what its client saw of it last."""

    def __init__(self, controller: ServedController) -> None:
        self.controller = controller
        self.last_tau: Array | None = None

    def clear(self) -> None:
        self.controller.reset()
        self.last_tau = None


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What a message leads to.

    reply: the bytes to send back, empty when it takes longer and `Service.finished` will have them
    about_state: the message was a state; answered: with a torque
    fault: what a session was latched for by it, None: none was
    """

    reply: bytes
    about_state: bool = False
    answered: bool = False
    fault: Fault | None = None


class Service:
    """Answers every message of every client."""

    def __init__(
        self,
        controller: ServedController,
        settings: ServerSettings,
        *,
        shadow: ServedController | None = None,
        clock: Callable[[], int] = monotonic_ns,
        recorder: Recorder | None = None,
        workshop: Workshop | None = None,
    ) -> None:
        """
        shadow: a second controller, for a client that watches
        clock: the server's clock [ns], only for times in replies
        workshop: builds what `config_set` asks for; without one settings are fixed
        """
        self._settings = settings
        self._clock = clock
        self._recorder = recorder
        self._workshop = workshop
        self._own = controller.snapshot()["settings"]
        self._deadline_ns = round(settings.deadline_us * 1e3)
        self._hold_ns = round(settings.watchdog.hold_ms * 1e6)
        self._timings = Timings()
        self._last: tuple[bytes, Decision] | None = None  # a state of the controlling client, and its answer
        self._lines = RateLimit()
        self._seats = {False: Seat(controller)} | ({True: Seat(shadow)} if shadow else {})
        self._reception = Reception(build_host(controller, settings), shadows=len(self._seats) - 1)

    @property
    def controller(self) -> ServedController:
        """The one that controls now: `config_set` puts another in its place."""
        return self._seats[False].controller

    def handle(self, identity: bytes, data: bytes, t_recv_ns: int) -> Answer:
        """The answer to one message of one client that arrived at `t_recv_ns` on the server's clock. Never raises: what goes
        wrong here latches the client's session and is told."""
        arrival = Arrival(identity, data, t_recv_ns)
        try:
            answer = self._answer(arrival)
        except Exception as error:
            log.exception("a message could not be handled; its session is latched")
            answer = self._failed(arrival, error)
        if answer.reply:
            self._record(arrival, answer)
        return answer

    def finished(self, now_ns: int) -> list[tuple[bytes, bytes]]:
        """Identities and replies for what took longer than a moment."""
        built = None if self._workshop is None else self._workshop.take()
        if built is None:
            return []
        order, reply = built.order, encode(self._put_in_place(built, now_ns))
        self._record(Arrival(order.identity, order.request, now_ns), Answer(reply))
        return [(order.identity, reply)]

    def rehearse(self) -> None:
        """Go through the last tick of the controlling client once more, for the processor's caches only: nothing is noted."""
        if self._last is not None:
            data, decision = self._last
            decode(data)
            decision.session.read(decision.accepted.message)
            _contacts(self.controller, decision.accepted)
            self.controller.rehearse()
            _gated(decision.session, decision.accepted, decision.command, decision.tau)
            encode(torque_message(decision))

    def overtaken(self, identity: bytes, data: bytes, t_recv_ns: int) -> None:
        """A state of a client arrived together with a newer one: it gets no answer, but the robot was not silent."""
        arrival = Arrival(identity, data, t_recv_ns)
        self._reception.overtaken(arrival)
        self._record(arrival, Answer(b"", about_state=True))

    def _answer(self, arrival: Arrival) -> Answer:
        """Carry out what the reception says."""
        outcome = self._reception.receive(arrival)
        if isinstance(outcome, Tick):
            return self._tick(outcome.session, outcome.accepted, arrival)
        if isinstance(outcome, Known):
            return Answer(outcome.reply, about_state=True, answered=True)
        if isinstance(outcome, Refusal):
            self._blame(outcome.message, arrival.now_ns)
            return Answer(encode(outcome.message), outcome.about_state, fault=outcome.fault)
        if isinstance(outcome, Afresh):
            self._seats[outcome.session.agreement.dry_run].clear()
            return Answer(encode(outcome.message))
        if isinstance(outcome, Report):
            return Answer(encode(self._timings.report(self._reception, outcome.session)))
        if isinstance(outcome, Change):
            return Answer(self._order(outcome.session, outcome.message, arrival))
        return Answer(encode(outcome.message))

    def _failed(self, arrival: Arrival, error: Exception) -> Answer:
        reason = f"the server failed ({type(error).__name__}: {error})"
        session = self._reception.sessions.get(arrival.identity)
        fault = None if session is None else session.latch(reason, arrival.now_ns)
        return Answer(encode(self._reception.refuse(ProtocolError(Code.INTERNAL, None, reason), session, None)), fault=fault)

    def _record(self, arrival: Arrival, answer: Answer) -> None:
        if self._recorder is not None:
            self._recorder.put(
                Entry(arrival.identity, arrival.now_ns, arrival.data, answer.reply, answer.about_state, answer.answered)
            )

    def _blame(self, error: ErrorMessage, now_ns: int) -> None:
        """A log line for a refusal, at most one a second of each kind."""
        if (silent := self._lines.admit(error.code, now_ns)) is not None:
            log.warning("refused (%s): %s; %d like it before, not logged", error.code, error.message, silent)

    def _tell_pause(self, session: Session, pause_ms: float, now_ns: int) -> None:
        """A log line for a pause of this process, or of a robot's clock; a simulated robot's may stand still at any time."""
        simulated = session.agreement.robot_clock
        if not simulated and self._lines.admit("pause", now_ns) is not None:
            log.warning("session %d: no state was handled for %.0f ms, but the robot was not silent", session.id, pause_ms)

    # -- the tick -----------------------------------------------------------------------------------------------------

    def _tick(self, session: Session, accepted: Accepted, arrival: Arrival) -> Answer:
        """The answer to a state."""
        seat, measured = self._seats[session.agreement.dry_run], accepted.measured
        if accepted.watchdog.pause_ms > 0.0:
            self._tell_pause(session, accepted.watchdog.pause_ms, arrival.now_ns)
        begin = self._clock()
        try:
            contacts = _contacts(seat.controller, accepted)
            command = seat.controller.answer(measured.state, contacts, accepted.inputs)
            seat.controller.settle()
        except Exception as error:  # whatever breaks inside, the client must hear of it in this tick
            log.exception("session %d: the controller failed; latched", session.id)
            return self._broken(session, accepted, f"the controller failed ({error})", arrival.now_ns)
        if not finite(command.tau):
            return self._broken(session, accepted, "the torque is not finite", arrival.now_ns)
        tau, limited_by = _gated(session, accepted, command, seat.last_tau)
        t_send = self._clock()
        decision = Decision(
            session=session,
            accepted=accepted,
            command=command,
            tau=tau,
            limited_by=limited_by,
            message="; ".join(filter(None, (command.message, measured.note, self._unlogged()))),
            warm=seat.last_tau is not None,
            t_recv=arrival.now_ns,
            t_send=t_send,
            step_ns=t_send - begin,
            deadline_ns=self._deadline_ns,
            hold_ns=self._hold_ns,
        )
        seat.last_tau = tau
        return self._answered(decision, arrival)

    def _answered(self, decision: Decision, arrival: Arrival) -> Answer:
        """The reply, once it has been noted."""
        session, message = decision.session, torque_message(decision)
        reply = encode(message)
        self._timings.note(decision.step_ns, message.deadline_met)
        session.answered(message.seq, arrival.data, reply, decision.t_send)
        if not session.agreement.dry_run:
            self._last = arrival.data, decision
        if decision.command.mode is not Mode.FAULT:
            return Answer(reply, about_state=True, answered=True)
        fault = session.latch(decision.message, arrival.now_ns)  # this answer still damps; then the robot's own failsafe does
        return Answer(reply, about_state=True, answered=True, fault=fault)

    def _unlogged(self) -> str:
        return f"not logged: {self._recorder.problem}" if self._recorder is not None and self._recorder.problem else ""

    def _broken(self, session: Session, accepted: Accepted, reason: str, now_ns: int) -> Answer:
        """Something failed on this side: latch the session and say so."""
        fault = session.latch(reason, now_ns)
        error = self._reception.refuse(ProtocolError(Code.INTERNAL, None, reason), session, accepted.message)
        return Answer(encode(error), about_state=True, fault=fault)

    # -- new settings -------------------------------------------------------------------------------------------------

    def _order(self, session: Session | None, message: ConfigSet, arrival: Arrival) -> bytes:
        """Have a controller with other settings built; the reply, empty when that takes longer."""
        try:
            if self._workshop is None:
                raise ProtocolError(Code.BAD_SCHEMA, "settings", "the settings of this server are fixed")
            self._check_idle(arrival.now_ns)
            snapshot = changed(self.controller.snapshot(), message.settings, self._own)
            self._workshop.begin(Order(arrival.identity, arrival.data, message, snapshot))
        except ProtocolError as error:
            return encode(self._reception.refuse(error, session, message))
        built = self._workshop.take()
        return b"" if built is None else encode(self._put_in_place(built, arrival.now_ns))

    def _put_in_place(self, built: Built, now_ns: int) -> FromServer:
        """The new controller takes over, unless a client controls the old one by now."""
        try:
            if built.controller is None:
                raise ProtocolError(Code.BAD_SCHEMA, "settings", built.problem)
            self._check_idle(now_ns)
        except ProtocolError as error:
            return self._reception.refuse(error, self._reception.sessions.get(built.order.identity), built.order.message)
        self._seats[False] = Seat(built.controller)
        self._reception.end_sessions()
        self._reception.host = build_host(built.controller, self._settings)
        return Config(settings=self._reception.host.controller)

    def _check_idle(self, now_ns: int) -> None:
        if self._reception.controlling(now_ns):
            raise ProtocolError(Code.NOT_CONTROLLING, None, "settings cannot change while a client controls the robot")


def _gated(session: Session, accepted: Accepted, command: Command, last_tau: Array | None) -> tuple[Array, Array]:
    """What the last gate lets through of a command's torque, and why not all of it (na). last_tau: the answer before (na)"""
    measured = accepted.measured
    before = last_tau if measured.tau_applied is None else measured.tau_applied
    return session.agreement.gate.apply(
        command.tau, measured.angles, measured.speeds, before, accepted.inputs.dt, command.limited_by
    )


def _contacts(controller: ServedController, accepted: Accepted) -> ContactSet:
    """The contacts of a state: as measured, from geometry, or of those feet that say they touch."""
    given, q = accepted.contacts, accepted.measured.state.q
    if given is None:
        return controller.contacts(q)
    return given.on(controller.contacts(q, given.keys)) if isinstance(given, FootSwitches) else given
