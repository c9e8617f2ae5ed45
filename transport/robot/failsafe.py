"""The failsafe: the torques that the robot's side applies in every tick, with and without answers. No I/O.

With t the time since the last answered state, q_ref, v_ref, τ, kp and kd of its answer, and d the robot's own damping (times
of the stages: `transport.protocol.torque_gate`):

    ok          τ                                                               in a tick with an answer
    follow      τ + kp (q_ref + v_ref t − q) + kd (v_ref − v)                   until `valid_until` of the answer
    rest        s τ + kp (q_rest − q) − max(kd, d) v                            from then on; s falls from 1 to 0
    stopped     as rest, until `reset`; answers are ignored                     from the stopping time on
    damping     −d v, with the measured speeds                                  in all other cases

q_rest is q_ref + v_ref t at `valid_until`. In a trot the torque can be followed for about 20 ms; after 80 ms other feet are in
stance, and the same torque throws the robot. Joint feedback to q_rest keeps the robot upright; with damping alone it sinks to
the ground within 0.4 s.

The failsafe damps until `reset` when the server reports a fault, and when a joint is too far from the posture: feedback would
only force it back. An answer that damps is applied in its own tick only, because its speeds are old afterwards. Every torque
passes the torque gate (`transport.protocol.torque_gate`). The first answer after an outage is applied without a transition.
"""

from enum import StrEnum

import numpy as np

from controllers.config.loading import Positive, Settings
from idyn.errors import InputError
from idyn.types import Array, Record
from transport.protocol.codec import vector, vectors
from transport.protocol.messages.state import TorqueMessage
from transport.protocol.torque_gate import Gate, Stage, TorqueLimits, stage


class FailsafeMode(StrEnum):
    """Modes of the failsafe, see the module."""

    OK = "ok"
    FOLLOW = "follow"
    REST = "rest"
    STOPPED = "stopped"
    DAMPING = "damping"


FADE = 0.05  # time over which the last torque fades to 0 at rest [s]
GIVE_WAY = 0.6  # largest error of a joint from the rest posture; with a larger one the robot damps until `reset` [rad]


class FailsafeSettings(Settings, frozen=True):
    """Settings of the failsafe."""

    # time without an answer after which the robot is stopped until `reset` [s]; equals the server's `latch_ms`
    stop: Positive = 0.1


class DriveCommand(Record, frozen=True):
    """An answer as the drives need it, in the client's order."""

    tau: Array  # torques [N·m] (na)
    # rows q_ref [rad], v_ref [rad/s], kp [N·m/rad], kd [N·m·s/rad] (4, na); None: no reference or no gains
    posture: Array | None
    t_ns: int  # time of the answered state
    until_ns: int  # end of its validity; robot's clock [ns]
    damps: bool  # the torque is pure damping


def drive_command(reply: TorqueMessage, na: int) -> DriveCommand:
    """Return the command of a reply. Raises ProtocolError for vectors of wrong length or with non-finite numbers."""
    posture = None
    if reply.ref is not None and reply.kp is not None and reply.kd is not None:
        rows = ((reply.ref.q, "ref.q"), (reply.ref.v, "ref.v"), (reply.kp, "kp"), (reply.kd, "kd"))
        posture = vectors(*((value, na, field) for value, field in rows)).reshape(4, na)
    return DriveCommand(
        tau=vector(reply.tau, na, "tau"),
        posture=posture,
        t_ns=reply.t_robot,
        until_ns=reply.valid_until,
        damps=reply.status in ("damping", "fault"),
    )


class Failsafe:
    """Computes every torque of a robot's drives.

    damping: damping of each motor [N·m·s/rad] (na)
    limits: limits of the torque gate, each (na)
    """

    def __init__(self, *, damping: Array, limits: TorqueLimits, settings: FailsafeSettings | None = None) -> None:
        if damping.shape != limits.tau_max.shape:
            raise InputError("damping", f"expected shape {limits.tau_max.shape}, got {damping.shape}")
        self._damping = damping
        self._gate = Gate(limits)
        self._settings = settings or FailsafeSettings()
        self._stop_ns = round(self._settings.stop * 1e9)
        self.reset()

    def reset(self) -> None:
        """Forget all answers and faults; damp until the next answer."""
        self._last: DriveCommand | None = None
        self._latched: FailsafeMode | None = None
        self._sent: tuple[int, Array] | None = None  # time [ns] and torques [N·m] (na) of the last tick

    @property
    def stopped(self) -> bool:
        """Whether answers are ignored until `reset`."""
        return self._latched is not None

    def torque(
        self, now_ns: int, q: Array, v: Array, command: DriveCommand | None, *, fault: bool = False
    ) -> tuple[Array, FailsafeMode]:
        """Return the torque to apply now [N·m] (na) and its mode.

        now_ns: robot's clock [ns]
        q, v: angles [rad] and speeds [rad/s] of the motors (na)
        command: the answer of this tick; None without one
        fault: the server reports a fault: error `latched_fault`, or status `fault` of a reply
        Raises InputError for arrays of wrong shape.
        """
        for field, given in (("q", q), ("v", v)):
            if np.shape(given) != self._damping.shape:
                raise InputError(field, f"expected shape {self._damping.shape}, got {np.shape(given)}")
        if self._latched is None:
            self._latch(now_ns, fault)
        fresh = command if self._latched is None else None
        if fresh is not None:
            if fresh.tau.shape != self._damping.shape:
                raise InputError("command.tau", f"expected shape {self._damping.shape}, got {fresh.tau.shape}")
            self._last = fresh
        tau, mode = self._choose(now_ns, q, v, fresh)
        since, before = (now_ns, None) if self._sent is None else self._sent
        angles, speeds = np.ascontiguousarray(q, np.float64), np.ascontiguousarray(v, np.float64)
        tau, _, _ = self._gate.apply(tau, angles, speeds, before, (now_ns - since) * 1e-9)
        self._sent = now_ns, tau
        return tau, mode

    def _stage(self, now_ns: int) -> Stage:
        """Return the stage of the outage; REST before the first answer."""
        last = self._last
        if last is None:
            return Stage.REST
        return stage(now_ns - last.t_ns, last.until_ns - last.t_ns, self._stop_ns)

    def _latch(self, now_ns: int, fault: bool) -> None:
        """Latch a mode, STOPPED or DAMPING: it applies until `reset`.

        STOPPED has priority: the server reports an outage as a fault, too, and damping would let a robot sink that stands in
        its rest posture.
        """
        if self._stage(now_ns) is Stage.STOPPED:
            self._latched = FailsafeMode.STOPPED
        elif fault:
            self._latched = FailsafeMode.DAMPING

    def _choose(self, now_ns: int, q: Array, v: Array, fresh: DriveCommand | None) -> tuple[Array, FailsafeMode]:
        """Return (torque before the torque gate, mode). Latches DAMPING when a joint is too far from the rest posture."""
        last = self._last
        if last is None or last.damps or self._latched is FailsafeMode.DAMPING:
            return -self._damping * v, FailsafeMode.DAMPING
        if fresh is not None:
            return fresh.tau, FailsafeMode.OK
        follows = self._stage(now_ns) is Stage.FOLLOW and self._latched is None
        if last.posture is None:
            return (last.tau, FailsafeMode.FOLLOW) if follows else (-self._damping * v, self._latched or FailsafeMode.DAMPING)
        q_ref, v_ref, kp, kd = last.posture
        error = q_ref + v_ref * (min(now_ns, last.until_ns) - last.t_ns) * 1e-9 - q
        if follows:
            return last.tau + kp * error + kd * (v_ref - v), FailsafeMode.FOLLOW
        if np.abs(error[kp > 0.0]).max(initial=0.0) > GIVE_WAY:
            self._latched = FailsafeMode.DAMPING
            return -self._damping * v, FailsafeMode.DAMPING
        share = max(0.0, 1.0 - (now_ns - last.until_ns) * 1e-9 / FADE)
        tau = share * last.tau + kp * error - np.maximum(kd, self._damping) * v
        return tau, self._latched or FailsafeMode.REST
