"""Limits of a session: the stricter of the robot's own and those of the client's hardware."""

import numpy as np

from idyn.model.robot import Robot
from idyn.types import Array
from transport.protocol.codec import limits as read_limits
from transport.protocol.codec import vector
from transport.protocol.errors import ProtocolError
from transport.protocol.joint_map import JointMap
from transport.protocol.messages.base import Vector
from transport.protocol.messages.error import Code
from transport.protocol.messages.hello import ClientLimits, EffectiveLimits
from transport.protocol.torque_gate import TorqueLimits, limits_of


def limits_in_force(robot: Robot, theirs: ClientLimits | None, joints: JointMap) -> TorqueLimits:
    """Return the stricter of the robot's and the client's limits, in the robot's order.

    Raises ProtocolError for malformed limits of the client.
    """
    limits = limits_of(robot.limits)
    if theirs is None:
        return limits

    def read(value: Vector | None, field: str, absent: Array) -> Array:
        if value is None:
            return absent
        return joints.torques_to_robot(read_limits(value, robot.na, f"limits.{field}"))

    unlimited = limits.dtau_max  # inf
    tau_max = read(theirs.tau_max, "tau_max", unlimited)
    dtau_max = read(theirs.dtau_max, "dtau_max", unlimited)
    v_max = read(theirs.v_max, "v_max", unlimited)
    q_min, q_max = read(theirs.q_min, "q_min", -unlimited), read(theirs.q_max, "q_max", unlimited)
    for field, value in (("tau_max", tau_max), ("dtau_max", dtau_max), ("v_max", v_max), ("q_max", q_max - q_min)):
        if not (value > 0).all():
            raise ProtocolError(Code.BAD_SCHEMA, f"limits.{field}", "expected numbers > 0 (q_max: > q_min) for every joint")
    tau0, v0 = unlimited, unlimited
    if theirs.speed_torque is not None:
        tau0, v0 = (
            joints.torques_to_robot(vector(getattr(theirs.speed_torque, name), robot.na, f"limits.speed_torque.{name}"))
            for name in ("tau0", "v0")
        )
        if not (tau0 > 0).all() or not (v0 > 0).all():
            raise ProtocolError(Code.BAD_SCHEMA, "limits.speed_torque", "expected tau0 > 0 and v0 > 0 for every joint")
    return TorqueLimits(
        tau_max=np.minimum(limits.tau_max, tau_max),
        dtau_max=dtau_max,
        q_min=np.maximum(limits.q_min, q_min),
        q_max=np.minimum(limits.q_max, q_max),
        v_max=np.minimum(limits.v_max, v_max),
        tau0=tau0,
        v0=v0,
    )


def effective_limits(limits: TorqueLimits, joints: JointMap) -> EffectiveLimits:
    """Return the limits of a session in the client's order, as in `welcome`."""
    return EffectiveLimits(**{name: joints.torques_on_wire(getattr(limits, name)) for name in limits.__struct_fields__})
