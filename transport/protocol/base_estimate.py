"""States of robots that do not measure their base: the server estimates it from the IMU, the joints and the torques."""

import math

import msgspec

from controllers.estimation.estimator import UNIT, Estimate, Estimator, Measurement
from idyn.errors import InputError
from idyn.types import Array, State
from transport.protocol.agreement import Agreement
from transport.protocol.codec import vectors
from transport.protocol.contact_input import FootSwitches
from transport.protocol.errors import ProtocolError
from transport.protocol.joint_map import BASE_Q, BASE_V
from transport.protocol.messages.error import Code, ErrorMessage
from transport.protocol.messages.requests import Reset
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.protocol.state_input import Measured


class BaseEstimator:
    """Completes the states of a session by estimates of the base."""

    def __init__(self, estimator: Estimator) -> None:
        self._estimator = estimator
        self._first: int | None = None  # t_robot of the first state

    def reset(self) -> None:
        """Treat the next state as the first one."""
        self._estimator.reset()
        self._first = None

    def sensed(self, measured: Measured, message: StateMessage, torque: Array | None) -> Measured:
        """Return the state with the IMU's readings in the base's axes: attitude, rate, and the specific force for its velocity.

        measured: the joints; torque: measured, in the robot's order [N·m] (na)
        Raises ProtocolError if the IMU or the torques are missing or cannot be right.
        """
        imu = _imu(message)
        if torque is None:
            raise ProtocolError(Code.BAD_SCHEMA, "tau_meas", "expected with base.measured 'imu'")
        self._readings = imu, torque
        return self._put(measured, imu)

    def at_reset(self, measured: Measured, message: Reset) -> Measured:
        """Return the state of a `reset` with attitude and rate of the base by the IMU. Raises ProtocolError."""
        put = self._put(measured, _imu(message))
        put.state.v[:3] = 0.0
        return put

    def _put(self, measured: Measured, imu: tuple[Array, Array, Array]) -> Measured:
        """Fill the readings into the state, and return it. Raises ProtocolError."""
        attitude, rate, force = self._estimator.in_base(*imu)
        length = math.hypot(*attitude.tolist())
        if not abs(length - 1.0) < UNIT:
            raise ProtocolError(Code.QUATERNION_NOT_UNIT, "imu.quat", f"expected length 1 (xyzw), got {length:.6g}")
        q, v = measured.state.q, measured.state.v
        q[3:BASE_Q], v[:3], v[3:BASE_V] = attitude / length, force, rate
        return measured

    def complete(self, measured: Measured, message: StateMessage) -> Measured:
        """Return the state with the estimated base, after `sensed` with the same arguments."""
        (attitude, gyro, acceleration), torque = self._readings
        self._first = message.t_robot if self._first is None else self._first
        given = Measurement(
            t=(message.t_robot - self._first) * 1e-9,
            angles=measured.angles,
            speeds=measured.speeds,
            torques=torque,
            attitude=attitude,
            gyro=gyro,
            accelerometer=acceleration,
        )
        try:
            found = self._estimator.update(given)
        except InputError as error:
            code = Code.QUATERNION_NOT_UNIT if error.field == "attitude" else Code.BAD_SCHEMA
            raise ProtocolError(code, "imu", str(error)) from None
        return msgspec.structs.replace(measured, state=found.state, estimate=found)


def touching(estimate: Estimate, agreement: Agreement) -> FootSwitches:
    """Return the feet that touch."""
    keys = tuple(key for key, touches in zip(agreement.robot.spheres.keys, estimate.touching, strict=True) if touches)
    return FootSwitches(keys=keys, mu=None if agreement.mu is None else (agreement.mu,) * len(keys))


def _imu(message: StateMessage | Reset) -> tuple[Array, Array, Array]:
    """Return attitude (4), rate (3) and specific force (3). Raises ProtocolError."""
    imu = message.imu
    if imu is None:
        raise ProtocolError(Code.BAD_SCHEMA, "imu", "expected with base.measured 'imu'")
    numbers = vectors((imu.quat, 4, "imu.quat"), (imu.gyro, 3, "imu.gyro"), (imu.acc, 3, "imu.acc"))
    return numbers[:4], numbers[4:7], numbers[7:]


def estimated(state: State, reply: TorqueMessage | ErrorMessage) -> State:
    """Return a recorded state with the base of its reply; the state itself if its base was measured.

    Raises ProtocolError for a refused state: its base is not known.
    """
    if isinstance(reply, ErrorMessage):
        raise ProtocolError(Code.BAD_SCHEMA, "estimate", "a refused state has none")
    if reply.estimate is None:
        return state
    q, v, found = state.q.copy(), state.v.copy(), reply.estimate
    q[:BASE_Q], v[:BASE_V] = (*found.position, *found.quat), found.vel
    return State(q=q, v=v)
