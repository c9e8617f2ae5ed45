"""Limits that a client's hardware sets below the server's own, applied to the torque behind the controller."""

import numpy as np

from controllers.command import LimitedBy
from idyn.robot import Limits, Robot
from idyn.types import Array, Record
from transport.codec import limits as read_limits
from transport.codec import vector
from transport.errors import ProtocolError
from transport.joint_map import JointMap
from transport.messages import ClientLimits, Code, EffectiveLimits, Vector


class StricterLimits(Record, frozen=True):
    """Where the client is stricter than the server; actuated joints in the robot's order, all (na).

    Besides the torque limits, a joint at a position or velocity limit gets no torque that drives it further.
    tau_max [N·m], dtau_max [N·m/s], v_max [rad/s], q_min and q_max [rad], inf where the client is not stricter
    tau0, v0: |τ| ≤ tau0·(1 − |v|/v0) [N·m], [rad/s]
    q_index: where q has the joint's angle, −1: it has none
    """

    tau_max: Array
    dtau_max: Array
    q_min: Array
    q_max: Array
    v_max: Array
    tau0: Array
    v0: Array
    q_index: Array

    def apply(self, tau: Array, q: Array, v: Array, before: Array | None, dt: float) -> tuple[Array, Array]:
        """Torques within the limits (na) and why they changed, as `LimitedBy` bits (na).

        tau: (na), q: configuration (nq), v: actuated velocities (na), before: torques now in the motors (na)
        """
        reasons = np.zeros(len(tau), dtype=np.int64)

        def bound(low: Array, high: Array, reason: LimitedBy) -> None:
            nonlocal tau, reasons
            bounded = np.clip(tau, low, high)
            reasons |= np.where(bounded != tau, int(reason), 0)
            tau = bounded

        angle = np.where(self.q_index < 0, 0.0, q[self.q_index])
        zero, inf = np.zeros(len(tau)), np.full(len(tau), np.inf)
        bound(np.where(angle <= self.q_min, zero, -inf), np.where(angle >= self.q_max, zero, inf), LimitedBy.POSITION)
        bound(np.where(v <= -self.v_max, zero, -inf), np.where(v >= self.v_max, zero, inf), LimitedBy.VELOCITY)
        derated = self.tau0 * np.maximum(0.0, 1.0 - np.abs(v) / self.v0)
        bound(-derated, derated, LimitedBy.SPEED_TORQUE)
        bound(-self.tau_max, self.tau_max, LimitedBy.TORQUE)
        if before is not None and dt > 0:
            bound(before - self.dtau_max * dt, before + self.dtau_max * dt, LimitedBy.RATE)
        return tau, reasons


def build_stricter_limits(robot: Robot, own: Limits, theirs: ClientLimits | None, joints: JointMap) -> StricterLimits | None:
    """What the client asks beyond the server's own limits, or None. Raises ProtocolError for malformed limits."""
    if theirs is None:
        return None
    none = np.full(robot.na, np.inf)

    def read(value: Vector | None, field: str, absent: Array) -> Array:
        if value is None:
            return absent
        return joints.torques_to_robot(read_limits(value, robot.na, f"limits.{field}"))

    tau_max = read(theirs.tau_max, "tau_max", none)
    dtau_max = read(theirs.dtau_max, "dtau_max", none)
    v_max = read(theirs.v_max, "v_max", none)
    q_min, q_max = read(theirs.q_min, "q_min", -none), read(theirs.q_max, "q_max", none)
    for field, value in (("tau_max", tau_max), ("dtau_max", dtau_max), ("v_max", v_max), ("q_max", q_max - q_min)):
        if not (value > 0).all():
            raise ProtocolError(Code.BAD_SCHEMA, f"limits.{field}", "expected > 0 (q_max: > q_min) for every joint")
    tau0, v0 = none, none
    if theirs.speed_torque is not None:
        tau0, v0 = (
            joints.torques_to_robot(vector(getattr(theirs.speed_torque, name), robot.na, f"limits.speed_torque.{name}"))
            for name in ("tau0", "v0")
        )
        if not (tau0 > 0).all() or not (v0 > 0).all():
            raise ProtocolError(Code.BAD_SCHEMA, "limits.speed_torque", "expected > 0 for every joint")
    stricter = StricterLimits(
        tau_max=np.where(tau_max < own.tau_max, tau_max, np.inf),
        dtau_max=dtau_max,
        q_min=np.where(q_min > own.q_min, q_min, -np.inf),
        q_max=np.where(q_max < own.q_max, q_max, np.inf),
        v_max=np.where(v_max < own.v_max, v_max, np.inf),
        tau0=tau0,
        v0=v0,
        q_index=robot.q_index,
    )
    fields = (stricter.tau_max, stricter.dtau_max, stricter.q_min, stricter.q_max, stricter.v_max, stricter.tau0)
    return stricter if any(np.isfinite(field).any() for field in fields) else None


def effective_limits(own: Limits, stricter: StricterLimits | None, joints: JointMap) -> EffectiveLimits:
    """The limits in force, in the client's order."""
    out = joints.torques_to_client
    if stricter is None:
        dtau_max = np.full(len(own.tau_max), np.inf)
        values = (own.tau_max, dtau_max, own.q_min, own.q_max, own.v_max)
    else:
        values = (
            np.minimum(own.tau_max, stricter.tau_max),
            stricter.dtau_max,
            np.maximum(own.q_min, stricter.q_min),
            np.minimum(own.q_max, stricter.q_max),
            np.minimum(own.v_max, stricter.v_max),
        )
    names = ("tau_max", "dtau_max", "q_min", "q_max", "v_max")
    return EffectiveLimits(**{name: out(value).tobytes() for name, value in zip(names, values, strict=True)})
