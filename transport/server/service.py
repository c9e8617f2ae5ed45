"""The service: bytes of a state in, bytes of a torque out. It carries out what the reception says, steps the
controller, and has both noted.

The same bytes, handed in at the same times, get the same torques, bit for bit; a log is replayed through it.
"""

import logging
from collections.abc import Callable
from time import monotonic_ns

import msgspec

from controllers.command import Command, Mode
from idyn.terms.inputs import finite
from transport.log.part import Entry
from transport.log.recorder import Recorder
from transport.protocol.codec import encode
from transport.protocol.errors import ProtocolError
from transport.protocol.messages import FromServer
from transport.protocol.messages.error import Code, ErrorMessage
from transport.protocol.messages.requests import Config, ConfigSet
from transport.protocol.messages.state import StateMessage
from transport.server.controller_slot import ControllerSlot
from transport.server.rate_limit import RateLimit
from transport.server.reconfigure import BuildRequest, BuildResult, ControllerBuilder, changed
from transport.server.served_controller import ServedController, build_host
from transport.server.sessions.dispatcher import Dispatcher
from transport.server.sessions.outcomes import Arrival, Refusal, Resend, Restart, SettingsRequest, StatsRequest
from transport.server.sessions.session import Accepted, Fault, Session
from transport.server.settings import ServerSettings
from transport.server.timings import Timings
from transport.server.torque_reply import Decision, torque_message

log = logging.getLogger(__name__)


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What a message leads to.

    reply: the bytes to send back, empty when it takes longer and `Service.finished` will have them
    about_state: the message was a state; answered: with a torque
    decision: what that torque comes from, None: it was sent before, or there is none
    fault: what a session was latched for, None: none was
    """

    reply: bytes
    about_state: bool = False
    answered: bool = False
    decision: Decision | None = None
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
        builder: ControllerBuilder | None = None,
    ) -> None:
        """
        shadow: a second controller, for a client that watches
        clock: the server's clock [ns], only for times in replies
        builder: builds what `config_set` asks for; without one settings are fixed
        """
        self._settings = settings
        self._clock = clock
        self._recorder = recorder
        self._builder = builder
        self._own = controller.snapshot()["settings"]
        self._deadline_ns = round(settings.deadline_us * 1e3)
        self._timings = Timings()
        self._unsettled: tuple[Arrival, Answer] | None = None
        self._lines = RateLimit()
        self._slots = {False: ControllerSlot(controller)} | ({True: ControllerSlot(shadow)} if shadow else {})
        host = build_host(controller, settings)
        self._dispatcher = Dispatcher(host, shadows=len(self._slots) - 1)

    @property
    def controller(self) -> ServedController:
        """The one that controls now: `config_set` puts another in its place."""
        return self._slots[False].controller

    def handle(self, identity: bytes, data: bytes, t_recv_ns: int) -> Answer:
        """The answer to one message of one client that arrived at `t_recv_ns` on the server's clock; `settle` comes when it has
        left. Never raises: what goes wrong here latches the client's session and is told."""
        self.settle()
        arrival = Arrival(identity, data, t_recv_ns)
        try:
            answer = self._answer(arrival)
        except Exception as error:
            log.exception("a message could not be handled; its session is latched")
            answer = self._fail(self._session(arrival), None, _failure(error), arrival.now_ns)
        self._unsettled = arrival, answer
        return answer

    def settle(self) -> Fault | None:
        """Do what the last answer need not wait for; anything else that is asked of the service does it first, and keeps to
        itself what this would have told: what a session was latched for meanwhile, or with the message itself, None: nothing.
        Never raises."""
        if self._unsettled is None:
            return None
        (arrival, answer), self._unsettled = self._unsettled, None
        fault = answer.fault
        try:
            if answer.reply:
                self._record(arrival, answer)
            if answer.decision is not None:
                fault = self._after_reply(arrival, answer.reply, answer.decision)
        except Exception as error:
            log.exception("an answer could not be noted; its session is latched")
            session = self._session(arrival)
            fault = None if session is None else session.latch(_failure(error), arrival.now_ns)
        return fault

    def finished(self, now_ns: int) -> list[tuple[bytes, bytes]]:
        """Identities and replies for what took longer than a moment."""
        result = None if self._builder is None else self._builder.take()
        if result is None:
            return []
        self.settle()
        request, reply = result.request, encode(self._install(result, now_ns))
        self._record(Arrival(request.identity, request.data, now_ns), Answer(reply))
        return [(request.identity, reply)]

    def overtaken(self, identity: bytes, data: bytes, t_recv_ns: int) -> None:
        """A state of a client arrived together with a newer one: it gets no answer, but the robot was not silent."""
        self.settle()
        arrival = Arrival(identity, data, t_recv_ns)
        self._dispatcher.overtaken(arrival)
        self._record(arrival, Answer(b"", about_state=True))

    def _answer(self, arrival: Arrival) -> Answer:
        """Carry out what the reception says."""
        outcome = self._dispatcher.receive(arrival)
        if isinstance(outcome, Accepted):
            return self._tick(outcome, arrival)
        if isinstance(outcome, Resend):
            return Answer(outcome.reply, about_state=True, answered=True)
        if isinstance(outcome, Refusal):
            self._log_refusal(outcome.message, arrival.now_ns)
            return Answer(encode(outcome.message), outcome.about_state, fault=outcome.fault)
        if isinstance(outcome, Restart):
            self._slots[outcome.session.agreement.dry_run].reset()
            return Answer(encode(outcome.message))
        if isinstance(outcome, StatsRequest):
            return Answer(encode(self._timings.report(self._dispatcher, outcome.session)))
        if isinstance(outcome, SettingsRequest):
            return Answer(self._build(outcome.session, outcome.message, arrival))
        return Answer(encode(outcome.message))

    def _record(self, arrival: Arrival, answer: Answer) -> None:
        if self._recorder is not None:
            self._recorder.put(
                Entry(arrival.identity, arrival.now_ns, arrival.data, answer.reply, answer.about_state, answer.answered)
            )

    def _log_refusal(self, error: ErrorMessage, now_ns: int) -> None:
        """A log line for a refusal, at most one a second of each kind."""
        if (silent := self._lines.admit(error.code, now_ns)) is not None:
            log.warning("refused (%s): %s; %d like it before, not logged", error.code, error.message, silent)

    def _log_pause(self, session: Session, pause_ms: float, now_ns: int) -> None:
        """A log line for a pause of this process, or of a robot's clock; a simulated robot's may stand still at any time."""
        simulated = session.agreement.robot_clock
        if not simulated and self._lines.admit("pause", now_ns) is not None:
            log.warning("session %d: no state was handled for %.0f ms, but the robot was not silent", session.id, pause_ms)

    # -- the tick -----------------------------------------------------------------------------------------------------

    def _tick(self, accepted: Accepted, arrival: Arrival) -> Answer:
        """The answer to a state."""
        session = accepted.session
        slot = self._slots[session.agreement.dry_run]
        if accepted.watchdog.pause_ms > 0.0:
            self._log_pause(session, accepted.watchdog.pause_ms, arrival.now_ns)
        begin = self._clock()
        try:
            contacts = slot.contacts(accepted)
            command = slot.controller.answer(accepted.measured.state, contacts, accepted.inputs)
        except Exception as error:  # whatever breaks inside, the client must hear of it in this tick
            log.exception("session %d: the controller failed; latched", session.id)
            return self._fail(session, accepted.message, f"the controller failed ({error})", arrival.now_ns)
        if not finite(command.tau):
            return self._fail(session, accepted.message, "the torque is not finite", arrival.now_ns)
        decision = self._decide(accepted, command, arrival, begin)
        slot.last_tau = decision.tau
        return Answer(encode(torque_message(decision)), about_state=True, answered=True, decision=decision)

    def _decide(self, accepted: Accepted, command: Command, arrival: Arrival, begin: int) -> Decision:
        """What comes of a controller's command. begin: when it was asked for [ns]"""
        slot = self._slots[accepted.session.agreement.dry_run]
        tau, limited_by = slot.gate(accepted, command)
        notes = command.message, accepted.measured.note, self._log_problem()
        t_send = self._clock()
        return Decision(
            accepted=accepted,
            command=command,
            tau=tau,
            limited_by=limited_by,
            message="; ".join(filter(None, notes)) if any(notes) else "",
            warm=slot.last_tau is not None,
            t_recv=arrival.now_ns,
            t_send=t_send,
            step_ns=t_send - begin,
            deadline_ns=self._deadline_ns,
        )

    def _after_reply(self, arrival: Arrival, reply: bytes, decision: Decision) -> Fault | None:
        """A torque has been sent."""
        session = decision.accepted.session
        self._timings.note(decision.step_ns, decision.deadline_met)
        session.answered(decision.accepted.message.seq, arrival.data, reply, decision.t_send)
        self._slots[session.agreement.dry_run].controller.settle()
        if decision.command.mode is not Mode.FAULT:
            return None
        return session.latch(decision.message, arrival.now_ns)  # this answer still damps; then the robot's own failsafe does

    def _log_problem(self) -> str:
        return f"not logged: {self._recorder.problem}" if self._recorder is not None and self._recorder.problem else ""

    def _fail(self, session: Session | None, state: StateMessage | None, reason: str, now_ns: int) -> Answer:
        """Something failed on this side: latch the session, if there is one, and say so. state: that is answered, if any"""
        fault = None if session is None else session.latch(reason, now_ns)
        error = self._dispatcher.refuse(ProtocolError(Code.INTERNAL, None, reason), session, state)
        return Answer(encode(error), about_state=state is not None, fault=fault)

    def _session(self, arrival: Arrival) -> Session | None:
        return self._dispatcher.sessions.get(arrival.identity)

    # -- new settings -------------------------------------------------------------------------------------------------

    def _build(self, session: Session | None, message: ConfigSet, arrival: Arrival) -> bytes:
        """Have a controller with other settings built; the reply, empty when that takes longer."""
        try:
            if self._builder is None:
                raise ProtocolError(Code.BAD_SCHEMA, "settings", "the settings of this server are fixed")
            self._check_idle(arrival.now_ns)
            snapshot = changed(self.controller.snapshot(), message.settings, self._own)
            self._builder.begin(BuildRequest(arrival.identity, arrival.data, message, snapshot))
        except ProtocolError as error:
            return encode(self._dispatcher.refuse(error, session, message))
        result = self._builder.take()
        return b"" if result is None else encode(self._install(result, arrival.now_ns))

    def _install(self, result: BuildResult, now_ns: int) -> FromServer:
        """The new controller takes over, unless a client controls the old one by now."""
        try:
            if result.controller is None:
                raise ProtocolError(Code.BAD_SCHEMA, "settings", result.problem)
            self._check_idle(now_ns)
        except ProtocolError as error:
            session = self._dispatcher.sessions.get(result.request.identity)
            return self._dispatcher.refuse(error, session, result.request.message)
        self._slots[False] = ControllerSlot(result.controller)
        self._dispatcher.end_sessions()
        self._dispatcher.host = build_host(result.controller, self._settings)
        return Config(settings=self._dispatcher.host.controller)

    def _check_idle(self, now_ns: int) -> None:
        if self._dispatcher.controlling(now_ns):
            raise ProtocolError(Code.NOT_CONTROLLING, None, "settings cannot change while a client controls the robot")


def _failure(error: Exception) -> str:
    return f"the server failed ({type(error).__name__}: {error})"
