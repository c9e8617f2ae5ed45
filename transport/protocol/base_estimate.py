"""States of robots that do not measure their base: the server estimates it from the IMU, the joints and the torques."""

import math

from controllers.estimation.estimator import UNIT, Estimate, Estimator, Measurement
from idyn.errors import InputError
from idyn.types import Array, State
from transport.protocol.agreement import Agreement
from transport.protocol.contact_input import FootSwitches
from transport.protocol.errors import ProtocolError
from transport.protocol.joint_map import BASE_Q, BASE_V
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.requests import Reset
from transport.protocol.messages.state import TorqueMessage
from transport.protocol.state_input import Measured, imu_readings

MISSING_IMU = "imu", "expected with base.measured 'imu'"  # field and text of the refusal


class BaseEstimator:
    """Completes the states of a session by estimates of the base."""

    def __init__(self, estimator: Estimator) -> None:
        self._estimator = estimator
        self._first: int | None = None  # t_robot of the first state

    def reset(self) -> None:
        """Treat the next state as the first one."""
        self._estimator.reset()
        self._first = None

    def sensed(self, measured: Measured) -> State:
        """Fill the IMU's readings into the state, and return it: attitude, rate, and specific force for the velocity.

        They are along the axes of the IMU, as changes have the same size along those of the base.
        Raises ProtocolError if the IMU or the torques are missing or cannot be right.
        """
        imu, state = measured.imu, measured.state
        if imu is None:
            raise ProtocolError(Code.BAD_SCHEMA, *MISSING_IMU)
        if measured.tau_measured is None:
            raise ProtocolError(Code.BAD_SCHEMA, "tau_meas", "expected with base.measured 'imu'")
        _fill_attitude(state.q, imu[:4])
        state.v[:BASE_V] = imu[4:]
        return state

    def at_reset(self, measured: Measured, message: Reset) -> None:
        """Fill attitude and rate of the base by the IMU into the state of a `reset`. Raises ProtocolError."""
        if message.imu is None:
            raise ProtocolError(Code.BAD_SCHEMA, *MISSING_IMU)
        imu, state = imu_readings(message.imu), measured.state
        attitude, rate, _ = self._estimator.in_base(imu[:4], imu[7:], imu[4:7])
        _fill_attitude(state.q, attitude)
        state.v[3:BASE_V] = rate

    def complete(self, measured: Measured, t_robot: int) -> None:
        """Replace the state by the estimated one, after `sensed`. t_robot: time of the measurement [ns]"""
        imu, torque = measured.imu, measured.tau_measured
        assert imu is not None  # by `sensed`
        assert torque is not None
        self._first = t_robot if self._first is None else self._first
        given = Measurement(
            t=(t_robot - self._first) * 1e-9,
            angles=measured.angles,
            speeds=measured.speeds,
            torques=torque,
            attitude=imu[:4],
            gyro=imu[7:],
            accelerometer=imu[4:7],
        )
        try:
            found = self._estimator.update(given)
        except InputError as error:
            code = Code.QUATERNION_NOT_UNIT if error.field == "attitude" else Code.BAD_SCHEMA
            raise ProtocolError(code, "imu", str(error)) from None
        measured.state, measured.estimate = found.state, found


def _fill_attitude(q: Array, attitude: Array) -> None:
    """Fill the attitude of the base in q (nq). Raises ProtocolError unless its length is about 1."""
    x, y, z, w = attitude.tolist()
    length = math.hypot(x, y, z, w)
    if not abs(length - 1.0) < UNIT:
        raise ProtocolError(Code.QUATERNION_NOT_UNIT, "imu.quat", f"expected length 1 (xyzw), got {length:.6g}")
    q[3], q[4], q[5], q[6] = x / length, y / length, z / length, w / length  # faster than in numpy


def touching(estimate: Estimate, agreement: Agreement) -> FootSwitches:
    """Return the feet that touch."""
    keys = tuple(key for key, touches in zip(agreement.robot.spheres.keys, estimate.touching, strict=True) if touches)
    return FootSwitches(keys=keys, mu=None if agreement.mu is None else (agreement.mu,) * len(keys))


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
