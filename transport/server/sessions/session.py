"""One client's session: order, age and period of its states, watchdog, faults. No socket, no clock, no controller.

A state is checked completely before anything of it is noted, so a refused message leaves no trace but a counter,
the time it took, and its emergency stop.
"""

from enum import StrEnum

import msgspec
import numpy as np

from controllers.command import Inputs, Reference
from controllers.robot.attitude import tilt
from idyn.types import Array, ContactSet
from transport.protocol.agreement import Agreement
from transport.protocol.contact_input import read_contacts
from transport.protocol.errors import ProtocolError
from transport.protocol.foot_switches import FootSwitches
from transport.protocol.messages.error import Code
from transport.protocol.messages.requests import Reset
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import Watchdog, WatchdogLevel
from transport.protocol.state_input import Measured, StateReader, check_recorded, read_reference
from transport.server.sessions.actuation_delay import ActuationDelay
from transport.server.sessions.clock_offset import ClockOffset
from transport.server.sessions.comm_stats import ON_TIME, CommStats, late_ns, watchdog
from transport.server.sessions.emergency_stop import EmergencyStop
from transport.server.sessions.outage import OutageTimer
from transport.server.sessions.plausibility import Plausibility
from transport.server.settings import ServerSettings

DT_FACTORS = (0.5, 5.0)
"""The measured period is clamped to these multiples of the nominal one."""

RING = 50
"""So many of the last exchanges are kept: to answer duplicates, and to explain a fault."""

MAX_LOST = 1_000_000
"""Nobody loses so many states in a row: a `seq` further on is a wrong one, and must not make all later ones old."""

RESET_TILT = 1.0
"""`reset` is refused while the base tilts more than this [rad]."""

RESET_BASE_SPEED = 1.0
"""… or moves [m/s] or turns [rad/s] faster than this: reset is for robots at rest, as measured, with noise."""

RESET_JOINT_SPEED = 1.0
"""… or a motor turns faster than this [rad/s]."""


class Phase(StrEnum):
    """Where a client stands."""

    ABSENT = "absent"  # no hello yet
    RUNNING = "running"
    LATCHED = "latched"  # a fault; states are refused until `reset`
    ENDED = "ended"  # said stop


class Accepted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A state ready for the controller, in the robot's own order. contacts None: to be found from geometry"""

    session: "Session"
    message: StateMessage
    measured: Measured
    contacts: ContactSet | FootSwitches | None
    inputs: Inputs
    watchdog: Watchdog


class Exchange(msgspec.Struct, frozen=True):
    """A state and its answer, as bytes."""

    seq: int
    state: bytes
    torque: bytes


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Why a session was latched, when, and the exchanges just before."""

    session: int
    reason: str
    t_ns: int
    exchanges: list[Exchange]

    @property
    def refusal(self) -> str:
        """What states are told from then on."""
        return f"latched ({self.reason}); send reset when the robot is at rest"


class Latched(ProtocolError):
    """The refusal of the state that latches a session. fault: for what"""

    def __init__(self, fault: Fault) -> None:
        super().__init__(Code.LATCHED_FAULT, None, fault.refusal)
        self.fault = fault


class Session:
    """One client after its hello."""

    def __init__(self, agreement: Agreement, settings: ServerSettings, now_ns: int, stop: EmergencyStop, seq: int = 0) -> None:
        """stop: the robot's, which outlives this session; seq: of the last state before its first one"""
        self.agreement = agreement
        self.id = agreement.id
        self.comm = CommStats()
        self.phase = Phase.RUNNING
        self.fault: Fault | None = None
        self.heard_ns = now_ns
        self.hold_ns = round(settings.watchdog.hold_ms * 1e6)
        self._latch_ns = round(settings.watchdog.latch_ms * 1e6)
        self._late_ns = min(late_ns(agreement.dt_ns), self.hold_ns, self._latch_ns)
        self._max_age_ns = round(settings.max_state_age_ms * 1e6)
        self._dt_min, self._dt_max = (factor * (agreement.dt_ns * 1e-9) for factor in DT_FACTORS)
        self._ring: list[Exchange | None] = [None] * RING
        self.stop = stop
        self._reader = StateReader(agreement)
        self._plausibility = Plausibility(settings.plausibility, agreement.robot)
        self._clocks = ClockOffset(self._max_age_ns)
        self._delay = ActuationDelay(agreement.dt_ns)
        self._restart_timing()
        self._seq = seq

    def _restart_timing(self) -> None:
        """The next state is a first one: dt = 0, no silence before it."""
        self._t_robot: int | None = None
        self._plausibility.reset()
        self._substituted = False
        self._outage = OutageTimer(robot_clock=self.agreement.robot_clock)

    def keep_alive(self, number: int, now_ns: int) -> None:
        """A message that holds control has come. Raises ProtocolError for another session's number."""
        self.check_number(number)
        self.heard_ns = now_ns

    def check_number(self, number: int) -> None:
        if number != self.id:
            raise ProtocolError(Code.NOT_CONTROLLING, "session", f"expected {self.id}, got {number}; send hello first")

    # -- states -------------------------------------------------------------------------------------------------------

    def recorded_reply(self, message: StateMessage, data: bytes) -> bytes | None:
        """The answer to a state that was answered before. Raises ProtocolError for another state of the same seq."""
        kept = self._ring[message.seq % RING]
        if kept is None or kept.seq != message.seq:
            return None
        self.comm.report.dup += 1
        if kept.state != data:
            raise ProtocolError(Code.DUPLICATE, "seq", f"{message.seq} was another state before", message.seq)
        return kept.torque

    def accept(self, message: StateMessage, now_ns: int) -> Accepted:
        """Check a state and note it. Raises ProtocolError; then nothing is noted but what the clocks tell, a doubt, and a
        latch: after a long silence, or a second state that cannot be (`Latched`)."""
        t_robot, gap = message.t_robot, message.seq - self._seq
        if not 0 < gap <= MAX_LOST or (self._t_robot is not None and t_robot <= self._t_robot):
            raise self._out_of_order(message)
        silence = self._outage.until(t_robot, now_ns)
        level = ON_TIME if silence < self._late_ns else self._watchdog_level(silence, now_ns)
        age = 0 if self.agreement.robot_clock else self._age(message, now_ns)
        measured, contacts, sensed, reference = self.read(message)
        if jump := self._plausibility.judge(measured, t_robot):
            measured = self._substitute(measured, jump, now_ns)
        # everything is in order: from here on more is noted than clocks and doubts
        dt = 0.0
        if self._t_robot is not None:
            dt = min(max((t_robot - self._t_robot) * 1e-9, self._dt_min), self._dt_max)
        self._seq, self._t_robot, self._substituted = message.seq, t_robot, bool(jump)
        self.comm.accepted(gap, age, self._clocks.steps, message.rtt_us)
        pause = self._outage.accepted(t_robot, now_ns, silence)
        if pause >= self.hold_ns:
            level = msgspec.structs.replace(level, pause_ms=pause * 1e-6)
        inputs = Inputs(
            dt=dt,
            tau_applied=measured.tau_applied,
            reference=reference,
            sensed_force=sensed,
            estop=self.stop.engaged,
            delay=self._delay.accepted(t_robot, message.t_applied),
        )
        return Accepted(session=self, message=message, measured=measured, contacts=contacts, inputs=inputs, watchdog=level)

    def _substitute(self, measured: Measured, jump: str, now_ns: int) -> Measured:
        """The state before one that cannot be. Raises Latched for the second such state in a row. jump: why it cannot"""
        last = self._plausibility.last
        if self._substituted or last is None:
            raise Latched(self.latch(f"states that cannot follow one another: {jump}", now_ns))
        note = "; ".join(filter(None, (f"state passed over: {jump}", measured.note)))
        return msgspec.structs.replace(last, tau_applied=measured.tau_applied, note=note)

    def read(self, message: StateMessage) -> tuple[Measured, ContactSet | FootSwitches | None, Array | None, Reference | None]:
        """A state, its contacts, forces sensed there, its reference, in the robot's order. Raises ProtocolError; notes none."""
        check_recorded(message, self.agreement)
        measured = self._reader.read(message.q, message.vel, message.tau_applied)
        contacts, sensed = None, None
        if message.contacts is not None:
            contacts, sensed = read_contacts(message.contacts, self.agreement)
        reference = None if message.ref is None else read_reference(message.ref, self.agreement)
        return measured, contacts, sensed, reference

    def answered(self, seq: int, state: bytes, torque: bytes, now_ns: int) -> None:
        """Keep an exchange in the ring. now_ns: when it was answered; a client may have waited until then."""
        self._ring[seq % RING] = Exchange(seq, state, torque)
        self._outage.answered(now_ns)

    def overtaken(self, t_robot: int, now_ns: int) -> None:
        """A state arrived together with a newer one, and is not answered."""
        self.comm.dropped(1)
        self._outage.heard(t_robot, now_ns)

    def _out_of_order(self, message: StateMessage) -> ProtocolError:
        """What is wrong with the order of a state."""
        self.comm.report.out_of_order += 1
        if not self._seq < message.seq <= self._seq + MAX_LOST:
            expected = f"> {self._seq}" if message.seq <= self._seq else f"at most {MAX_LOST} more than {self._seq}"
            return ProtocolError(Code.OUT_OF_ORDER, "seq", f"expected {expected}, got {message.seq}")
        return ProtocolError(Code.OUT_OF_ORDER, "t_robot", f"expected > {self._t_robot} ns, got {message.t_robot}")

    def _watchdog_level(self, outage_ns: int, now_ns: int) -> Watchdog:
        """The watchdog's level after a silence. Raises Latched."""
        level = watchdog(outage_ns, self.agreement.dt_ns, self.hold_ns, self._latch_ns)
        if level.state is WatchdogLevel.LATCHED:
            raise Latched(self.latch(f"no state for {outage_ns * 1e-6:.0f} ms", now_ns))
        return level

    def _age(self, message: StateMessage, now_ns: int) -> int:
        """Of a state [ns]. Raises `stale_state`."""
        age = self._clocks.age_ns(message.t_send, now_ns)
        if age > self._max_age_ns:
            self._outage.heard(message.t_robot, now_ns)  # old, but no silence
            raise ProtocolError(
                Code.STALE_STATE,
                "t_send",
                f"expected at most {self._max_age_ns * 1e-6:g} ms old, got {age * 1e-6:.1f} ms",
            )
        return age

    # -- faults -------------------------------------------------------------------------------------------------------

    def latch(self, reason: str, now_ns: int) -> Fault:
        """Refuse states until `reset`; remember why, and what went before, and tell it once."""
        exchanges = sorted((kept for kept in self._ring if kept is not None), key=lambda kept: kept.seq)
        self.phase = Phase.LATCHED
        self.fault = Fault(session=self.id, reason=reason, t_ns=now_ns, exchanges=exchanges)
        return self.fault

    def reset(self, message: Reset) -> None:
        """Clear a fault and an emergency stop. Raises ProtocolError while the robot tilts or moves too much."""
        measured = self._reader.read(message.q, message.vel)
        if self.agreement.robot.floating:
            tilted = tilt(measured.state.q[3:7])
            if tilted > RESET_TILT:
                raise ProtocolError(Code.LATCHED_FAULT, "q", f"expected a tilt of at most {RESET_TILT} rad, got {tilted:.2f}")
            _check_speed(measured.state.v[:6], RESET_BASE_SPEED, "base")
        _check_speed(measured.speeds, RESET_JOINT_SPEED, "joint")
        self.phase = Phase.RUNNING
        self.fault = None
        self.stop.engaged = False
        self._restart_timing()


def _check_speed(v: Array, allowed: float, what: str) -> None:
    fastest = float(np.abs(v).max(initial=0.0))
    if fastest > allowed:
        raise ProtocolError(Code.LATCHED_FAULT, "vel", f"expected {what} speeds of at most {allowed:g}, got {fastest:.2f}")
