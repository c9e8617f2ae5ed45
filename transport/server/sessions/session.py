"""The session of one client: order, age and period of its states, watchdog, faults. No socket, no clock, no controller.

A state is checked completely before it changes the session. A refused state changes only counters, the clocks' statistics
and the emergency stop.
"""

from enum import StrEnum

import msgspec

from idyn.tasks import TaskStack
from transport.protocol.agreement import Agreement
from transport.protocol.base_estimate import BaseEstimator, touching
from transport.protocol.errors import ProtocolError
from transport.protocol.messages import FromServer
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.command import SeenState
from transport.protocol.messages.requests import ConfigSet, Reset, ResetAck, StatsGet, TickGet, Welcome
from transport.protocol.messages.state import ON_TIME, StateMessage, Watchdog, WatchdogLevel
from transport.protocol.state_input import Measured, StateReader, external_force
from transport.server.sessions.clocks import ActuationDelay, ClockOffset, ClockRate, CommStats, OutageTimer, late_ns, watchdog
from transport.server.sessions.latches import CommandLatch, CommandOrder, Exchange, Fault, Latched, Latches, check_start
from transport.server.sessions.plausibility import Plausibility, SwitchDebounce
from transport.server.settings import ServerSettings

DT_FACTORS = (0.5, 5.0)  # bounds of the measured period, as multiples of the nominal one
RING = 50  # number of exchanges that are stored, for answers to duplicates and for the log of a fault
MOST_UNANSWERED = 20  # states since the one whose torque the motors apply, beyond which they apply one of the robot's own side

MAX_LOST = 1_000_000
"""Largest plausible number of lost states in a row. A larger `seq` is refused; accepting it would make all later ones old."""


class Phase(StrEnum):
    """Phase of a session."""

    ABSENT = "absent"  # no hello yet
    RUNNING = "running"
    LATCHED = "latched"  # a fault; states are refused until `reset`
    ENDED = "ended"  # the client sent stop


class Session:
    """The session of one client, from its hello on.

    comm: communication statistics
    latches: fault and emergency stop of the robot, which outlast this session
    commands: those of this client
    heard_ns: time of the last message that prolongs the client's control of the robot, server's clock [ns]
    used: a message of this session has come, so that a further hello starts another one
    """

    def __init__(
        self, agreement: Agreement, settings: ServerSettings, now_ns: int, latches: Latches, command: CommandLatch
    ) -> None:
        """latches, command: of the robot; they outlast this session"""
        self.agreement, self.id = agreement, agreement.id
        self.comm = CommStats()
        self.ended = self.used = False
        self.heard_ns = now_ns
        self.hold_ns = round(settings.watchdog.hold_ms * 1e6)
        self._latch_ns = round(settings.watchdog.latch_ms * 1e6)
        self._silence_ns = round(settings.watchdog.silence_ms * 1e6)
        self._late_ns = min(late_ns(agreement.dt_ns), self.hold_ns, self._latch_ns)
        self._max_age_ns = round(settings.max_state_age_ms * 1e6)
        self._dt_min, self._dt_max = (factor * (agreement.dt_ns * 1e-9) for factor in DT_FACTORS)
        self._ring: list[Exchange | None] = [None] * RING
        self.latches, self._command, self.commands = latches, command, CommandOrder()
        self._start = settings.start
        self._judges_start = agreement.judges_start and settings.start != "motion"
        self._reader = StateReader(agreement)
        self._base = None if agreement.estimator is None else BaseEstimator(agreement.estimator)
        self._plausibility = Plausibility(settings.plausibility, agreement.robot, imu=self._base is not None)
        self._debounce = SwitchDebounce(agreement.soles)
        self._clocks = ClockOffset(self._max_age_ns)
        self._delay = ActuationDelay(agreement.dt_ns)
        self._restart_timing()
        self._seq = 0

    def _restart_timing(self) -> None:
        """Treat the next state as the first one: dt = 0, no outage before it."""
        self._t_robot: int | None = None
        self._plausibility.reset()
        self._debounce.reset()
        if self._base is not None:
            self._base.reset()
        self._delay.stopped = False
        self._substituted = False
        self._outage = OutageTimer(self._silence_ns, robot_clock=self.agreement.robot_clock)
        self._rate = ClockRate(self.agreement.dt_ns, robot_clock=self.agreement.robot_clock)

    @property
    def phase(self) -> Phase:
        """Phase of the session."""
        if self.ended:
            return Phase.ENDED
        return Phase.RUNNING if self.latches.fault is None else Phase.LATCHED

    def seen(self) -> SeenState | None:
        """Return the last accepted state; None before the first one."""
        return self._plausibility.seen()

    def check_number(self, number: int) -> None:
        """Raise ProtocolError for the number of another session. From then on the session is `used`."""
        if number != self.id:
            raise ProtocolError(Code.NOT_CONTROLLING, "session", f"expected {self.id}, got {number}; send hello first")
        self.used = True

    # -- states -------------------------------------------------------------------------------------------------------

    def recorded_reply(self, message: StateMessage, data: bytes) -> bytes | None:
        """Return the reply to a state that was answered before. Raises ProtocolError for another state of the same seq."""
        kept = self._ring[message.seq % RING]
        if kept is None or kept.seq != message.seq:
            return None
        self.comm.report.dup += 1
        if kept.state != data:
            problem = f"expected the same bytes as before for seq {message.seq}, got another state"
            raise ProtocolError(Code.DUPLICATE, "seq", problem, message.seq)
        return kept.torque

    def accept(self, message: StateMessage, now_ns: int) -> Measured:
        """Check a state, update the session and return the inputs of the tick. Raises ProtocolError for an invalid state.

        Raises `Latched` after a long outage, or for the second implausible state in a row. An invalid state changes only the
        clocks' statistics and the plausibility check.
        """
        t_robot, gap = message.t_robot, message.seq - self._seq
        if not 0 < gap <= MAX_LOST or (self._t_robot is not None and t_robot <= self._t_robot):
            raise self._out_of_order(message)
        outage = self._outage.until(t_robot, now_ns)
        level = ON_TIME if outage < self._late_ns else self._watchdog_level(outage, now_ns)
        age = 0 if self.agreement.robot_clock else self._age(message, now_ns)
        measured = self._reader.read(message)
        substituted = self._judge(measured, message, now_ns)
        if self._t_robot is None and self._judges_start:
            try:
                check_start(measured, self.agreement.robot, self._start)
            except ProtocolError as error:  # a `reset` would refuse this state, too
                raise Latched(self.latch(f"first state: {error}", now_ns)) from None
        if not self._rate.judged and (problem := self._rate.problem(message.seq, t_robot, now_ns)):
            raise Latched(self.latch(problem, now_ns))
        if self._t_robot is not None:
            measured.dt = min(max((t_robot - self._t_robot) * 1e-9, self._dt_min), self._dt_max)
        self._seq, self._t_robot, self._substituted = message.seq, t_robot, substituted
        self.comm.accepted(gap, age, self._clocks.steps, message.rtt_us)
        pause = self._outage.accepted(t_robot, now_ns, outage)
        measured.watchdog = level if pause < self.hold_ns else msgspec.structs.replace(level, pause_ms=pause * 1e-6)
        flickers = ""
        if measured.contacts is not None:
            measured.contacts, flickers = self._debounce.debounced(measured.contacts, measured.dt)
        command = self._command.at(now_ns)
        measured.steering, measured.tasks = command.steering, command.tasks
        if command.note:
            measured.note = "; ".join(filter(None, (measured.note, command.note)))
        measured.doubt, measured.estop = self._plausibility.doubt or flickers, self.latches.estop
        measured.delay = self._delay.accepted(t_robot, message.t_applied)
        own = self.agreement.dry_run or (message.flags is not None and message.flags.dry_run)  # torques of the robot's own side
        own = own or 0 < message.last_applied_seq < message.seq - MOST_UNANSWERED
        measured.follows = False if own else self._delay.follows
        return measured

    def _judge(self, measured: Measured, message: StateMessage, now_ns: int) -> bool:
        """Replace an implausible state by the last accepted one, and complete one without a base by its estimate.

        Return whether it was implausible. Raises Latched for the second implausible state in a row, and ProtocolError for a
        frozen sensor, which is no outage.
        """
        base, plausibility = self._base, self._plausibility
        sensed = measured.state if base is None else base.sensed(measured)
        try:
            jump = plausibility.judge(measured, message.t_robot)
        except ProtocolError:
            self._outage.heard(message.t_robot, now_ns)
            raise
        if jump:
            self._substitute(measured, jump, now_ns)
        else:
            if base is not None:
                base.complete(measured, message.t_robot)
            plausibility.accept(measured, message.t_robot, sensed)
        if measured.estimate is not None:
            if measured.contacts is None:
                measured.contacts = touching(measured.estimate, self.agreement)
            if message.f_ext is not None:
                measured.applied = external_force(message.f_ext, self.agreement.robot, measured.state.q)
        return bool(jump)

    def _substitute(self, measured: Measured, jump: str, now_ns: int) -> None:
        """Replace an implausible state by the last accepted one. Raises Latched for the second implausible one in a row.

        jump: why the state is implausible
        """
        last = self._plausibility.last
        if self._substituted or last is None or self._plausibility.exhausted:
            count = "two implausible states in a row" if self._substituted else "too many implausible states"
            raise Latched(self.latch(f"{count}: {jump}", now_ns))
        measured.state, measured.angles, measured.speeds = last.state, last.angles, last.speeds
        measured.estimate = last.estimate
        measured.note = "; ".join(filter(None, (f"implausible state ignored: {jump}", measured.note)))

    def answered(self, seq: int, state: bytes, torque: bytes, now_ns: int) -> None:
        """Store an exchange. now_ns: time of the answer, from which the server's clock counts the next outage"""
        self._ring[seq % RING] = Exchange(seq, state, torque)
        self._outage.answered(now_ns)
        if not self.agreement.robot_clock:
            self.latches.heard_ns = now_ns

    def measured(self, tasks: TaskStack | None, step_ns: int) -> None:
        """Note the duration of a tick with these commanded tasks. A robot with its own clock waits, however long it takes."""
        if tasks is not None and not (self.agreement.robot_clock or self.agreement.dry_run):
            self._command.measured(len(tasks.tasks), step_ns, self.agreement.dt_ns)

    def overtaken(self, t_robot: int, now_ns: int) -> None:
        """Note a state that arrived together with a newer one and is not answered."""
        self.comm.dropped(1)
        self._outage.heard(t_robot, now_ns)

    def _out_of_order(self, message: StateMessage) -> ProtocolError:
        """Count a state whose seq or t_robot is out of order; return the error."""
        self.comm.report.out_of_order += 1
        if not self._seq < message.seq <= self._seq + MAX_LOST:
            expected = f"> {self._seq}" if message.seq <= self._seq else f"at most {MAX_LOST} more than {self._seq}"
            return ProtocolError(Code.OUT_OF_ORDER, "seq", f"expected {expected}, got {message.seq}")
        return ProtocolError(Code.OUT_OF_ORDER, "t_robot", f"expected > {self._t_robot} ns, got {message.t_robot}")

    def _watchdog_level(self, outage_ns: int, now_ns: int) -> Watchdog:
        """Return the watchdog level after an outage. Raises Latched for a long one."""
        level = watchdog(outage_ns, self.agreement.dt_ns, self.hold_ns, self._latch_ns)
        if level.state is WatchdogLevel.LATCHED:
            raise Latched(self.latch(f"no state for {outage_ns * 1e-6:.0f} ms", now_ns))
        return level

    def _age(self, message: StateMessage, now_ns: int) -> int:
        """Return the age of a state [ns]. Raises ProtocolError `stale_state` for an old one."""
        age = self._clocks.age_ns(message.t_send, now_ns)
        if age > self._max_age_ns:
            self._outage.heard(message.t_robot, now_ns)  # it is old, but not an outage
            problem = f"expected an age of at most {self._max_age_ns * 1e-6:g} ms, got {age * 1e-6:.1f} ms"
            raise ProtocolError(Code.STALE_STATE, "t_send", problem)
        return age

    # -- faults -------------------------------------------------------------------------------------------------------

    def latch(self, reason: str, now_ns: int) -> Fault:
        """Latch a fault: states are refused until `reset`. Return the fault with the last exchanges."""
        exchanges = sorted((kept for kept in self._ring if kept is not None), key=lambda kept: kept.seq)
        self.latches.fault = Fault(session=self.id, reason=reason, t_ns=now_ns, exchanges=exchanges)
        return self.latches.fault

    def reset(self, message: Reset) -> None:
        """Release the latches. Raises ProtocolError while the robot tilts or moves too much."""
        measured = self._reader.motion(message.q, message.vel)
        if self._base is not None:
            self._base.at_reset(measured, message)
        check_start(measured, self.agreement.robot, self._start)
        self.latches.release()
        if not self.agreement.dry_run:
            self._command.clear()
        self._restart_timing()


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """A received message. identity: its client; data: its bytes; now_ns: arrival on the server's clock [ns]"""

    identity: bytes
    data: bytes
    now_ns: int


class Accepted(msgspec.Struct, frozen=True):
    """Answer a valid state with a torque."""

    session: Session
    message: StateMessage
    measured: Measured


class Resend(msgspec.Struct, frozen=True):
    """Send a recorded reply again: the same state has been answered before."""

    reply: bytes


class Restart(msgspec.Struct, frozen=True):
    """Reset the session's controller and send the message: a session has started or was reset."""

    session: Session
    message: Welcome | ResetAck
    fault: Fault | None = None  # the silence before the session, if that is latched


class Reply(msgspec.Struct, frozen=True):
    """Send the message, without effect on controllers."""

    message: FromServer


class Refusal(msgspec.Struct, frozen=True):
    """Send a refusal."""

    message: ErrorMessage
    about_state: bool  # it answers a state
    # the fault that the refused message caused, which stops its session until a reset (latched); None without one
    fault: Fault | None


Requested = StatsGet | TickGet | ConfigSet


class Request(msgspec.Struct, frozen=True):
    """Send the statistics or the last tick, or build a controller with other settings."""

    session: Session | None
    message: Requested


Outcome = Accepted | Resend | Restart | Reply | Refusal | Request  # the outcome of a message, for the service to carry out
