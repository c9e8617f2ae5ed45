"""The vectors of a state message, checked and brought into the robot's own order."""

import math
from collections.abc import Sequence

import numpy as np

from controllers.command import Reference
from idyn.compiled import compiled
from idyn.robot import Robot
from idyn.types import Array
from transport.protocol.agreement import Agreement, check_contact_frame
from transport.protocol.codec import vector, vectors
from transport.protocol.errors import ProtocolError
from transport.protocol.messages import state as wire
from transport.protocol.messages.base import Vector
from transport.protocol.messages.error import Code
from transport.protocol.messages.state import StateMessage

BEYOND, LARGEST = 2.0, 1e4
"""An applied torque beyond this multiple of a joint's limit, or beyond this where it has none [N·m], was never there."""

QUATERNION_TOLERANCE = 1e-3
"""A base quaternion whose length is within this of 1 is renormalised, another one refused."""


def read_state(message: StateMessage, agreement: Agreement) -> tuple[Array, Array, Array | None]:
    """q (nq), v (nv) and tau_applied (na) in the robot's order; base velocity in body axes."""
    robot = agreement.robot
    nq, nv = robot.nq, robot.nv
    _check_recorded(message, agreement)
    if message.tau_applied is None:
        return *read_configuration(message.q, message.vel, agreement), None
    joined = vectors((message.q, nq, "q"), (message.vel, nv, "vel"), (message.tau_applied, robot.na, "tau_applied"))
    q, v = _in_robot_order(joined[:nq], joined[nq : nq + nv], agreement)
    return q, v, agreement.joints.torques_to_robot(joined[nq + nv :])


def read_configuration(q: Vector, vel: Vector, agreement: Agreement) -> tuple[Array, Array]:
    """q (nq) and v (nv) in the robot's order; base velocity in body axes."""
    nq = agreement.robot.nq
    joined = vectors((q, nq, "q"), (vel, agreement.robot.nv, "vel"))
    return _in_robot_order(joined[:nq], joined[nq:], agreement)


def read_reference(ref: wire.Reference, agreement: Agreement) -> Reference:
    """Where the motors should be, in the robot's order, each (na)."""
    na = agreement.robot.na
    rows = vectors((ref.q, na, "ref.q"), (ref.v, na, "ref.v"), (ref.a, na, "ref.a")).reshape(3, na)
    q, v, a = (agreement.joints.torques_to_robot(row) for row in rows)
    return Reference(q=q, v=v, a=a)


def largest_applied(robot: Robot) -> Array:
    """The largest torques that motors are believed to have had [N·m] (na)."""
    return np.where(np.isfinite(robot.limits.tau_max), BEYOND * robot.limits.tau_max, LARGEST)


def implausible(tau_applied: Array | None, largest: Array, names: Sequence[str]) -> str:
    """Why the motors of these names cannot have had these torques [N·m] (na), '' when they can."""
    if tau_applied is None or _within(tau_applied, largest):
        return ""
    k = int((np.abs(tau_applied) > largest).argmax())
    return f"tau_applied ignored: {tau_applied[k]:g} N·m at {names[k]}, expected at most {largest[k]:g}"


def _in_robot_order(q: Array, v: Array, agreement: Agreement) -> tuple[Array, Array]:
    joints, spans = agreement.joints, agreement.robot.tree.unit_spans
    q = joints.positions_to_robot(q)
    if (k := _normalise(q, spans)) < len(spans):
        start, end = spans[k].tolist()
        order, length = "xyzw" if end - start == 4 else "cos, sin", math.sqrt(sum(x * x for x in q[start:end].tolist()))
        raise ProtocolError(Code.QUATERNION_NOT_UNIT, f"q[{start}:{end}]", f"expected length 1 ({order}), got {length:.6g}")
    return q, joints.velocities_to_robot(v, q)


@compiled
def _normalise(q: Array, spans: Array) -> int:
    """Make the quaternions, and (cos, sin), that begin and end at these places (·, 2) unit ones, in place, up to the first one
    that is too far from it; which that is."""
    for k in range(len(spans)):
        start, end = spans[k]
        square = 0.0
        for i in range(start, end):
            square += q[i] * q[i]
        length = math.sqrt(square)
        if not abs(length - 1.0) <= QUATERNION_TOLERANCE:
            return k
        for i in range(start, end):
            q[i] /= length
    return len(spans)


@compiled
def _within(values: Array, largest: Array) -> bool:
    """Whether none is larger, either way, than its bound."""
    within = True
    for k in range(len(values)):
        within = within and bool(abs(values[k]) <= largest[k])
    return within


def _check_recorded(message: StateMessage, agreement: Agreement) -> None:
    """What is only recorded or counted must be well-formed, too."""
    nv, na = agreement.robot.nv, agreement.robot.na
    if message.rtt_us is not None and not math.isfinite(message.rtt_us):
        raise ProtocolError(Code.NON_FINITE, "rtt_us", f"expected a finite number, got {message.rtt_us}")
    if message.tau_meas is not None:
        vector(message.tau_meas, na, "tau_meas")
    if message.a_meas is not None:
        vector(message.a_meas, nv, "a_meas")
    if message.temp is not None:
        vector(message.temp, na, "temp")
    if message.volt is not None and not math.isfinite(message.volt):
        raise ProtocolError(Code.NON_FINITE, "volt", f"expected a finite number, got {message.volt}")
    for i, stance in enumerate(message.schedule or ()):
        check_contact_frame(agreement.robot, stance.frame, f"schedule[{i}].frame")
        if not math.isfinite(stance.time_to_switch):
            field = f"schedule[{i}].time_to_switch"
            raise ProtocolError(Code.NON_FINITE, field, f"expected a finite number, got {stance.time_to_switch}")
    if message.imu is not None:
        imu = message.imu
        vectors((imu.quat, 4, "imu.quat"), (imu.gyro, 3, "imu.gyro"), (imu.acc, 3, "imu.acc"))
    if message.f_ext is not None:
        vector(message.f_ext.wrench, 6, "f_ext.wrench")
