"""From the true state of the world to what the robot measures, and to what its feet feel."""

import numpy as np

from idyn.errors import ConfigError, nearest
from idyn.model.robot import Robot
from idyn.types import Array, State
from sim_harness.robot.imperfections.draws import Purpose, stream
from sim_harness.robot.imperfections.settings import Offset, Sensing, Spread


class Sensors:
    """Adds the errors of one run to every state: given ones, some drawn once, some drawn anew each time."""

    def __init__(self, settings: Sensing, robot: Robot, seed: int | None, where: str = "experiment.robot.sensing") -> None:
        """Raises ConfigError, headed by `where`, for joints and for a base that the robot does not have."""
        if not robot.floating:
            _check_no_base(settings, where)
        self._robot = robot
        self._noise = _widths(settings.noise, robot)
        self._noisy = bool(self._noise.any())
        self._rng = stream(seed, Purpose.NOISE)
        drawn = stream(seed, Purpose.BIAS).normal(size=2 * robot.nv)
        self._constant = _given(settings.offset, robot, f"{where}.offset") + _widths(settings.bias, robot) * drawn
        self._exact = not self._noisy and not self._constant.any()

    def measure(self, state: State) -> State:
        """What is measured of a true state."""
        if self._exact:
            return state
        error = self._constant
        if self._noisy:
            error = error + self._noise * self._rng.normal(size=len(error))
        step, dv = error[: self._robot.nv].copy(), error[self._robot.nv :]
        up = np.zeros(3)
        if self._robot.floating:  # its position along world axes, the rest of the tangent in its own
            up, step[:3] = step[:3].copy(), 0.0
        q = self._robot.integrate(state.q, step)
        if up.any():
            q[:3] += up
        return State(q=q, v=state.v + dv)


def _widths(spread: Spread, robot: Robot) -> Array:
    """Standard deviations of the errors of q, as a tangent, and of v (2 nv)."""
    q, v = np.zeros(robot.nv), np.zeros(robot.nv)
    if robot.floating:
        q[:3], q[3:6] = spread.base_position, spread.base_orientation
        v[:3], v[3:6] = spread.base_velocity, spread.base_rate
    q[robot.tree.a], v[robot.tree.a] = spread.joint_position, spread.joint_speed
    return np.concatenate([q, v])


def _given(offset: Offset, robot: Robot, where: str) -> Array:
    """The errors of q and v that are given (2 nv)."""
    q, v = np.zeros(robot.nv), np.zeros(robot.nv)
    if robot.floating:
        q[:3], q[3:6] = offset.base_position, offset.base_orientation
        v[:3], v[3:6] = offset.base_velocity, offset.base_rate
    for name, value in offset.joint_position.items():
        if name not in robot.joint_names:
            raise ConfigError(f"{where}.joint_position.{name}", f"no such actuated joint{nearest(name, robot.joint_names)}")
        q[robot.tree.a[robot.joint_names.index(name)]] = value
    return np.concatenate([q, v])


def _check_no_base(settings: Sensing, where: str) -> None:
    for table in ("noise", "bias", "offset"):
        errors = getattr(settings, table)
        for field in ("base_position", "base_orientation", "base_velocity", "base_rate"):
            if np.any(getattr(errors, field)):
                raise ConfigError(f"{where}.{table}.{field}", "the robot has a fixed base; expected 0")
