"""The latches of a robot: fault, emergency stop and silence. They belong to the robot and outlast sessions, connections and
clients; only a `reset` of a robot at rest releases them. No clock: times are arguments.
"""

import math

import msgspec
import numpy as np

from idyn.model.robot import Robot
from idyn.model.so3 import tilt
from idyn.types import Array
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.error import Code
from transport.protocol.state_input import Measured
from transport.server.settings import Start


class StartLimits(msgspec.Struct, frozen=True):
    """Limits of a robot that is put under control.

    tilt: of the base from upright [rad]; base: its velocity [m/s] and rate [rad/s]; joint: speed of every joint [rad/s]
    """

    tilt: float
    base: float
    joint: float


LIMITS: dict[Start, StartLimits] = {
    "rest": StartLimits(tilt=1.0, base=1.0, joint=1.0),
    "lying": StartLimits(tilt=math.pi, base=0.2, joint=0.2),
    "motion": StartLimits(tilt=1.0, base=1.0, joint=1.0),
}
"""Limits of `reset` and, unless a robot may start in motion, of the first state of a session. A robot at rest may shake; one
that lies in any attitude must not move, apart from noise."""


class Exchange(msgspec.Struct, frozen=True):
    """A state and its answer, as bytes."""

    seq: int
    state: bytes
    torque: bytes


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Reason and time of a latched fault, and the last exchanges before it. t_ns: server's clock [ns]"""

    session: int
    reason: str
    t_ns: int
    exchanges: list[Exchange]

    @property
    def refusal(self) -> str:
        """Text with which later states are refused, until a reset."""
        return f"latched ({self.reason}); send reset when the robot is at rest"


class Latched(ProtocolError):
    """The refusal of a state that causes a fault. The fault is latched: later states are refused until `reset`."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(Code.LATCHED_FAULT, None, fault.refusal)
        self.fault = fault


class Latches:
    """The latches of one robot. A shadow has its own.

    fault: the latched fault; None without one
    estop: why the emergency stop is engaged; '': it is not
    heard_ns: time of the last answered state that no `stop` followed, server's clock [ns]; None: no robot waits for answers.
        Simulated clients leave it at None, because their world may stand still
    """

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self.estop = ""
        self.heard_ns: int | None = None

    @property
    def reason(self) -> str:
        """What stops the robot until `reset`; '' for a robot that may be controlled."""
        return self.fault.reason if self.fault is not None else self.estop

    def engage(self, reason: str) -> None:
        """Engage the emergency stop. The first reason stays."""
        self.estop = self.estop or reason

    def release(self) -> None:
        """Release all latches."""
        self.fault, self.estop, self.heard_ns = None, "", None

    def begin(self, session: int, latch_ns: int, now_ns: int) -> Fault | None:
        """Latch the silence before a new session, if it was long. Return the new fault, None without one.

        latch_ns: time without states that is a fault [ns]
        """
        since, self.heard_ns = self.heard_ns, None
        if self.fault is not None or since is None or now_ns - since < latch_ns:
            return None
        reason = f"no state for {(now_ns - since) * 1e-6:.0f} ms before hello"
        self.fault = Fault(session=session, reason=reason, t_ns=now_ns, exchanges=[])
        return self.fault


def check_start(measured: Measured, robot: Robot, start: Start) -> None:
    """Raise ProtocolError for a robot that tilts or moves too much to be put under control."""
    limits = LIMITS[start]
    if robot.floating:
        tilted = tilt(measured.state.q[3:7])
        if tilted > limits.tilt:
            raise ProtocolError(Code.LATCHED_FAULT, "q", f"expected a tilt of at most {limits.tilt:g} rad, got {tilted:.2f}")
        _check_speed(measured.state.v[:6], limits.base, "base")
    _check_speed(measured.speeds, limits.joint, "joint")


def _check_speed(v: Array, allowed: float, what: str) -> None:
    """Raise ProtocolError for a speed above the allowed one. what: 'base' or 'joint'"""
    fastest = float(np.abs(v).max(initial=0.0))
    if fastest > allowed:
        raise ProtocolError(Code.LATCHED_FAULT, "vel", f"expected {what} speeds of at most {allowed:g}, got {fastest:.2f}")
