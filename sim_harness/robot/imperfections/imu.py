"""The simulated inertial measurement unit, of a robot that does not measure its base."""

import numpy as np

from controllers.robot.attitude import mounting, rotation
from idyn.errors import ConfigError
from idyn.model.robot import Robot
from idyn.types import Array, State
from sim_harness.robot.imperfections.draws import Purpose, stream
from sim_harness.robot.imperfections.settings import ImuSettings
from transport.protocol.messages.state import Imu


class SimulatedImu:
    """Reads attitude, rate and specific force. Attitude and rate have the errors of the measured state."""

    def __init__(self, settings: ImuSettings, robot: Robot, seed: int | None, where: str = "experiment.robot.sensing") -> None:
        """Raises ConfigError at `where` for a robot with a fixed base, and a mounting that is no rotation."""
        if not robot.floating:
            raise ConfigError(f"{where}.imu", "expected a robot with a free base")
        self._place, self._noise = np.array(settings.position), settings.noise
        self._rotation, self._unmount = mounting(settings.quat, f"{where}.imu.quat")
        self._gravity = np.array(robot.bodies.gravity)
        self._rng = stream(seed, Purpose.ACCELERATION)
        self._offset = settings.bias * self._rng.normal(size=3)
        self._last: tuple[float, Array, Array] | None = None  # time [s], velocity in the world, its attitude

    def read(self, t: float, true: State, measured: State) -> Imu:
        """Return the readings at a state of the world. t: its time [s]; measured: the state with the errors of its sensors"""
        R = rotation(true.q[3:7])
        velocity = R @ (true.v[:3] + np.cross(true.v[3:6], self._place))
        acceleration = np.zeros(3)
        if self._last is not None and t > self._last[0]:
            acceleration = (velocity - self._last[1]) / (t - self._last[0])
        mean = R if self._last is None else 0.5 * (R + self._last[2])  # attitude in the middle, but for its second order
        self._last = t, velocity, R
        error = self._offset + self._noise * self._rng.normal(size=3)
        force = self._rotation.T @ (mean.T @ (acceleration - self._gravity)) + error
        attitude, rate = self._unmount.T @ measured.q[3:7], self._rotation.T @ measured.v[3:6]
        return Imu(quat=attitude.tobytes(), gyro=rate.tobytes(), acc=force.tobytes())
