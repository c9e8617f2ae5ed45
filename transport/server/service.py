"""The service: bytes of a message in, bytes of the reply out.

It is deterministic: the same bytes at the same times give the same torques bit for bit, so that a log can be replayed.
"""

import logging
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

import msgspec

from controllers.command import Mode
from controllers.controller import Controller
from controllers.monitor.safety import slowest_rate
from idyn.terms.inputs import finite
from transport.log.recorder import Entry, Recorder
from transport.protocol.codec import encode
from transport.protocol.errors import ProtocolError, printable
from transport.protocol.messages import FromServer
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.requests import Config, ConfigSet, Stats, StatsGet, TickGet
from transport.protocol.messages.state import StateMessage
from transport.server.controller_slot import ControllerSlot, Decision, tick_message, torque_message
from transport.server.reconfigure import Build, ControllerBuilder, changed
from transport.server.sessions.dispatcher import Dispatcher
from transport.server.sessions.handshake import Host
from transport.server.sessions.latches import Fault
from transport.server.sessions.session import Accepted, Arrival, Refusal, Request, Requested, Resend, Restart, Session
from transport.server.settings import ServerSettings

PERIOD_NS = 1_000_000_000  # minimum interval of lines of one kind [ns]


def similar(suppressed: int) -> str:
    """Return the end of a line: how many lines of its kind were suppressed since the last one; '' without any."""
    return f"; {suppressed} similar not logged" if suppressed else ""


class RateLimit:
    """Limits log lines to one per kind and period, and counts the suppressed ones."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        self._suppressed: dict[str, int] = {}

    def admit(self, kind: str, now_ns: int) -> int | None:
        """Return None to suppress a line, else the number of lines of this kind suppressed since the last one."""
        since = self._since.get(kind)
        if since is not None and 0 <= now_ns - since < PERIOD_NS:
            self._suppressed[kind] = self._suppressed.get(kind, 0) + 1
            return None
        self._since[kind] = now_ns
        return self._suppressed.pop(kind, 0)


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


log = logging.getLogger(__name__)


class Answer(msgspec.Struct, frozen=True, gc=False):
    """The reply to a message."""

    reply: bytes  # bytes to send; empty: the reply comes later from `Service.finished`
    about_state: bool = False  # the message was a state
    answered: bool = False  # the reply is a torque
    refused: bool = False  # it is a refusal, not of a state
    decision: Decision | None = None  # the data from which a new torque was made; None: no torque, or one that was sent before
    # the fault that this message caused, which stops its session until a reset (latched); None without one
    fault: Fault | None = None


class Service:
    """Answers every message of every client. dispatcher: of their sessions; timings: durations so far"""

    def __init__(
        self,
        controller: Controller,
        settings: ServerSettings,
        *,
        shadow: Controller | None = None,
        clock: Callable[[], int] = monotonic_ns,
        recorder: Recorder | None = None,
        builder: ControllerBuilder | None = None,
        make_reply: Callable[..., Any] = torque_message,
    ) -> None:
        """
        shadow: a second controller, for a shadow client
        clock: server's clock [ns], used only for times in replies
        builder: builds controllers for `config_set`; None: the settings are fixed
        make_reply: makes the answer to a state, as `torque_message`; a replay's has fewer fields
        """
        self._settings = settings
        self._clock = clock
        self._recorder = recorder
        self._builder, self._make_reply = builder, make_reply
        self._own = controller.snapshot()["settings"]
        self._deadline_ns = round(settings.deadline_us * 1e3)
        self.timings = Timings()
        self._unsettled: tuple[Arrival, Answer] | None = None
        self._lines = RateLimit()
        self._slots = {False: ControllerSlot(controller)} | ({True: ControllerSlot(shadow)} if shadow else {})
        self.dispatcher = Dispatcher(Host(controller, settings), shadows=len(self._slots) - 1)

    @property
    def controller(self) -> Controller:
        """The current controller; `config_set` replaces it."""
        return self._slots[False].controller

    def handle(self, identity: bytes, data: bytes, t_recv_ns: int) -> Answer:
        """Return the answer to a message of a client. Call `settle` after sending it. Never raises.

        identity: ZMQ identity of the client; t_recv_ns: arrival on the server's clock [ns]
        An exception is reported in the reply and latches a fault: the session refuses states until a reset.
        """
        self.settle()
        arrival = Arrival(identity, data, t_recv_ns)
        try:
            answer = self._answer(arrival)
        except Exception as error:
            log.exception("handling a message failed; its session is latched")
            answer = self._fail(self._session(arrival), None, _failure(error), arrival.now_ns)
        self._unsettled = arrival, answer
        return answer

    def settle(self) -> Fault | None:
        """Finish the last exchange after its reply was sent: recording, statistics, the controller's `settle`. Never raises.

        Return the fault that the exchange caused and that stops its session until a reset, None without one. All other methods
        call `settle` first and ignore the fault.
        """
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
            log.exception("finishing an exchange failed; its session is latched")
            session = self._session(arrival)
            fault = None if session is None else session.latch(_failure(error), arrival.now_ns)
        return fault

    def finished(self, now_ns: int) -> list[tuple[bytes, bytes]]:
        """Return identity and reply of each request that has finished in the background."""
        build = None if self._builder is None else self._builder.take()
        if build is None:
            return []
        self.settle()
        reply = encode(self._install(build, now_ns))
        self._record(Arrival(build.identity, build.data, now_ns), Answer(reply))
        return [(build.identity, reply)]

    def overtaken(self, identity: bytes, data: bytes, t_recv_ns: int) -> None:
        """Note a state that arrived together with a newer one. It gets no answer; it ends the time without states, though."""
        self.settle()
        arrival = Arrival(identity, data, t_recv_ns)
        self.dispatcher.overtaken(arrival)
        self._record(arrival, Answer(b"", about_state=True))

    def drop(self, now_ns: int) -> None:
        """Note a message that is not answered, because too many of its client wait."""
        self.timings.dropped += 1
        if (silent := self._lines.admit("dropped", now_ns)) is not None:
            log.warning("a message was dropped: its client sends too many%s", similar(silent))

    def farewell(self, reason: str) -> list[tuple[bytes, bytes]]:
        """End all sessions because the server ends. Return identity and goodbye of each client."""
        self.settle()
        return [(identity, encode(goodbye)) for identity, goodbye in self.dispatcher.farewell(reason)]

    def _answer(self, arrival: Arrival) -> Answer:
        outcome = self.dispatcher.receive(arrival)
        if isinstance(outcome, Accepted):
            return self._tick(outcome, arrival)
        if isinstance(outcome, Resend):
            return Answer(outcome.reply, about_state=True, answered=True)
        if isinstance(outcome, Refusal):
            self._log_refusal(outcome.message, arrival.now_ns)
            about = outcome.about_state
            return Answer(encode(outcome.message), about, refused=not about, fault=outcome.fault)
        if isinstance(outcome, Restart):
            self._slots[outcome.session.agreement.dry_run].reset()
            return Answer(encode(outcome.message), fault=outcome.fault)
        if isinstance(outcome, Request):
            return Answer(self._requested(outcome.session, outcome.message, arrival))
        return Answer(encode(outcome.message))

    def _requested(self, session: Session | None, message: Requested, arrival: Arrival) -> bytes:
        if isinstance(message, StatsGet):
            return encode(self.timings.report(self.dispatcher, session))
        if isinstance(message, TickGet):
            last = self._slots[False].last if self.dispatcher.controlling(arrival.now_ns) else None
            return encode(tick_message(self.controller.robot, last))
        return self._build(session, message, arrival)

    def _record(self, arrival: Arrival, answer: Answer) -> None:
        if self._recorder is not None:
            kinds = answer.about_state, answer.answered, answer.refused
            self._recorder.put(Entry(arrival.identity, arrival.now_ns, arrival.data, answer.reply, *kinds))

    def _log_refusal(self, error: ErrorMessage, now_ns: int) -> None:
        """Log a refusal, at most one per second and code."""
        if (silent := self._lines.admit(error.code, now_ns)) is not None:
            log.warning("refused (%s): %s%s", error.code, error.message, similar(silent))

    def _log_pause(self, session: Session, pause_ms: float, now_ns: int) -> None:
        """Log a pause of this process or of the robot's clock, except for simulated robots, which may pause at any time."""
        simulated = session.agreement.robot_clock
        if not simulated and self._lines.admit("pause", now_ns) is not None:
            log.warning("session %d: no state was handled for %.0f ms, although the robot sent states", session.id, pause_ms)

    # -- the tick -----------------------------------------------------------------------------------------------------

    def _tick(self, accepted: Accepted, arrival: Arrival) -> Answer:
        session, measured = accepted.session, accepted.measured
        slot = self._slots[session.agreement.dry_run]
        if measured.watchdog.pause_ms > 0.0:
            self._log_pause(session, measured.watchdog.pause_ms, arrival.now_ns)
        begin = self._clock()
        try:
            contacts = slot.contacts(measured)
            command = slot.controller.answer(measured.state, contacts, measured)
        except Exception as error:  # the client must be told in this tick
            log.exception("session %d: the controller failed; latched", session.id)
            return self._fail(session, accepted.message, printable(f"the controller failed ({error})"), arrival.now_ns)
        if not finite(command.tau):
            return self._fail(session, accepted.message, "the torque is not finite", arrival.now_ns)
        passed = slot.gate(measured, command, session.agreement.limits)
        stopped = "" if self._recorder is None else self._recorder.problem
        notes = command.message, measured.note, f"not logged: {stopped}" if stopped else ""
        note = "; ".join(filter(None, notes)) if any(notes) else ""
        t_send = self._clock()
        times, in_time = (arrival.now_ns, t_send, t_send - begin), t_send - arrival.now_ns <= self._deadline_ns
        reply = self._make_reply(accepted, command, passed, note, times, in_time=in_time, warm=slot.last_tau is not None)
        decision = Decision(
            accepted=accepted, contacts=contacts, command=command, tau=passed.tau, reply=reply, step_ns=t_send - begin
        )
        return Answer(encode(reply), about_state=True, answered=True, decision=decision)

    def _after_reply(self, arrival: Arrival, reply: bytes, decision: Decision) -> Fault | None:
        """Update statistics, session and controller after a torque has been sent. Return a fault, None without one."""
        accepted, sent = decision.accepted, decision.reply
        session = accepted.session
        slot = self._slots[session.agreement.dry_run]
        slot.last, slot.last_tau = decision, decision.tau
        self.timings.note(decision.step_ns, sent.deadline_met)
        if decision.command.prediction is not None:
            session.measured(accepted.measured.tasks, decision.step_ns)
        session.answered(sent.seq, arrival.data, reply, sent.t_send)
        slot.controller.settle()
        if decision.command.mode is not Mode.FAULT:
            return None
        return session.latch(sent.message, arrival.now_ns)  # this answer still damps; later the robot's failsafe does

    def _fail(self, session: Session | None, state: StateMessage | None, reason: str, now_ns: int) -> Answer:
        """Latch the session, if any, after an internal failure, and return the error reply. state: the message, if a state"""
        fault = None if session is None else session.latch(reason, now_ns)
        error = self.dispatcher.refuse(ProtocolError(Code.INTERNAL, None, reason), session, state)
        return Answer(encode(error), about_state=state is not None, fault=fault)

    def _session(self, arrival: Arrival) -> Session | None:
        return self.dispatcher.sessions.get(arrival.identity)

    # -- new settings -------------------------------------------------------------------------------------------------

    def _build(self, session: Session | None, message: ConfigSet, arrival: Arrival) -> bytes:
        """Start building a controller with other settings. Return the reply, empty if it comes later."""
        try:
            if self._builder is None:
                raise ProtocolError(Code.BAD_SCHEMA, "settings", "the settings of this server are fixed")
            self._check_idle(arrival.now_ns)
            rate = slowest_rate(self.controller.robot.limits)
            snapshot = changed(self.controller.snapshot(), message.settings, self._own, rate)
            self._builder.begin(Build(arrival.identity, arrival.data, message, snapshot))
        except ProtocolError as error:
            return encode(self.dispatcher.refuse(error, session, message))
        build = self._builder.take()
        return b"" if build is None else encode(self._install(build, arrival.now_ns))

    def _install(self, build: Build, now_ns: int) -> FromServer:
        """Replace the controller by the new one, unless a client has taken control of the robot meanwhile. Return the reply."""
        try:
            if build.controller is None:
                raise ProtocolError(Code.BAD_SCHEMA, "settings", build.problem)
            self._check_idle(now_ns)
        except ProtocolError as error:
            return self.dispatcher.refuse(error, self.dispatcher.sessions.get(build.identity), build.message)
        self._slots[False] = ControllerSlot(build.controller)
        self.dispatcher.end_sessions()
        self.dispatcher.host = Host(build.controller, self._settings)
        return Config(settings=self.dispatcher.host.controller_settings)

    def _check_idle(self, now_ns: int) -> None:
        if self.dispatcher.controlling(now_ns):
            raise ProtocolError(Code.NOT_CONTROLLING, None, "settings cannot change while a client controls the robot")


def _failure(error: Exception) -> str:
    return printable(f"the server failed ({type(error).__name__}: {error})")
