"""What the robot's own side applies, tick by tick, while answers come and while they do not. No I/O; knows of the motors only.

With t since the state that was answered last, q_ref, v_ref, τ, kp and kd of that answer, and d the robot's own damping
(when what: `transport.protocol.outage_stages`):

    answered    τ
    follow      τ + kp (q_ref + v_ref t − q) + kd (v_ref − v)                   until `valid_until` of the answer
    rest        s τ + kp (q_rest − q) − max(kd, d) v                            from then on; s falls from 1 to 0
    stopped     the same, whatever answers come, until `reset`                  from the stopping age on
    damping     −d v, with the speeds of now                                    without anything better

q_rest is where q_ref has got to at `valid_until`. Following on is good for as long as nothing is decided anew, which in a trot
is some 20 ms; after 80 ms the feet that were to carry are others, and the same torque throws the robot. Standing still in the
posture of that moment then keeps it upright, where damping alone lets it sink to the ground within 0.4 s.

It damps at once, and until `reset`, when the server reports a fault, and when a posture cannot be kept: a joint that was
pushed far out of it would only be wrung back. An answer that is itself damping is never held: its speeds are old ones.
Everything goes through the last gate. The first answer after a gap is applied as it comes.
"""

from enum import StrEnum

import numpy as np

from controllers.config.loading import Positive, Settings
from idyn.errors import InputError
from idyn.types import Array, Record
from transport.protocol.codec import vector, vectors
from transport.protocol.messages.torque import TorqueMessage
from transport.protocol.outage_stages import Stage, stage
from transport.protocol.torque_gate import Gate, TorqueLimits


class FailsafeMode(StrEnum):
    """What the torque is; see the module."""

    OK = "ok"
    FOLLOW = "follow"
    REST = "rest"
    STOPPED = "stopped"
    DAMPING = "damping"


class FailsafeSettings(Settings, frozen=True):
    """When the robot's own side does what.

    fade: the answered torque fades away over so long while the robot comes to rest [s]
    stop: so long without an answer, and the robot stays stopped until `reset` [s]; the server's `latch_ms`
    give_way: a joint further than this from the posture in which it rests gets damping instead [rad]
    """

    fade: Positive = 0.05
    stop: Positive = 0.1
    give_way: Positive = 0.6


class DriveCommand(Record, frozen=True):
    """An answer as the drives need it, in the client's order, each (na).

    tau: [N·m]
    posture: q_ref [rad], v_ref [rad/s], kp [N·m/rad], kd [N·m·s/rad] as rows (4, na); None: nothing to follow
    t_ns, until_ns: robot's clock: of the state it answers; until then it may be followed
    damps: the torque is damping
    """

    tau: Array
    posture: Array | None
    t_ns: int
    until_ns: int
    damps: bool


def drive_command(reply: TorqueMessage, na: int) -> DriveCommand:
    """Read a reply. Raises ProtocolError for vectors of another length or with numbers that are not finite."""
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
    """Decides every torque of a robot's drives.

    damping: of each motor [N·m·s/rad] (na)
    limits: of every torque that goes to the motors, (na) each
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
        """Forget everything; damp until the first answer comes."""
        self._last: DriveCommand | None = None
        self._latched: FailsafeMode | None = None
        self._sent: tuple[int, Array] | None = None  # when, and what went to the motors

    @property
    def stopped(self) -> bool:
        """Whether no answer counts any more until `reset`."""
        return self._latched is not None

    def torque(
        self, now_ns: int, q: Array, v: Array, command: DriveCommand | None, *, fault: bool = False
    ) -> tuple[Array, FailsafeMode]:
        """The torque to apply now (na) and what it is.

        now_ns: the robot's clock
        q, v: angles [rad] and speeds [rad/s] of the motors (na)
        command: what came in this tick, None when nothing did
        fault: the server says so: error `latched_fault`, or status `fault` of a reply
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
        angles, speeds = (np.ascontiguousarray(each, dtype=np.float64) for each in (q, v))
        tau, _ = self._gate.apply(tau, angles, speeds, before, (now_ns - since) * 1e-9)
        self._sent = now_ns, tau
        return tau, mode

    def _stage(self, now_ns: int) -> Stage:
        """Where this side stands; without any answer yet there is nothing to follow."""
        last = self._last
        if last is None:
            return Stage.REST
        return stage(now_ns - last.t_ns, last.until_ns - last.t_ns, self._stop_ns)

    def _latch(self, now_ns: int, fault: bool) -> None:
        """Latch STOPPED or DAMPING. STOPPED has priority: the server reports an outage as a fault, and damping would drop a
        robot that holds its posture."""
        if self._stage(now_ns) is Stage.STOPPED:
            self._latched = FailsafeMode.STOPPED
        elif fault:
            self._latched = FailsafeMode.DAMPING

    def _choose(self, now_ns: int, q: Array, v: Array, fresh: DriveCommand | None) -> tuple[Array, FailsafeMode]:
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
        if np.abs(error[kp > 0.0]).max(initial=0.0) > self._settings.give_way:
            self._latched = FailsafeMode.DAMPING
            return -self._damping * v, FailsafeMode.DAMPING
        share = max(0.0, 1.0 - (now_ns - last.until_ns) * 1e-9 / self._settings.fade)
        tau = share * last.tau + kp * error - np.maximum(kd, self._damping) * v
        return tau, self._latched or FailsafeMode.REST
