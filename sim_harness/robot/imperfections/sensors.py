"""Sensor errors: from the true state of the world to the measured state."""

import numpy as np

from idyn.errors import ConfigError, nearest
from idyn.model.robot import Robot
from idyn.types import Array, State
from sim_harness.robot.imperfections.draws import Purpose, stream
from sim_harness.robot.imperfections.settings import Offset, Sensing, Spread


class Sensors:
    """Adds the errors of one run to every state: constant offset, bias drawn once per run, noise drawn in every tick."""

    def __init__(self, settings: Sensing, robot: Robot, seed: int | None, where: str = "experiment.robot.sensing") -> None:
        """Raises ConfigError at `where` for unknown joints and for base errors of a robot with a fixed base."""
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
        """Return the measured state for a true state."""
        if self._exact:
            return state
        error = self._constant
        if self._noisy:
            error = error + self._noise * self._rng.normal(size=len(error))
        step, dv = error[: self._robot.nv].copy(), error[self._robot.nv :]
        shift = np.zeros(3)
        if self._robot.floating:  # the error of the base position is in world axes, the other errors in the tangent space
            shift, step[:3] = step[:3].copy(), 0.0
        q = self._robot.integrate(state.q, step)
        if shift.any():
            q[:3] += shift
        return State(q=q, v=state.v + dv)


def _widths(spread: Spread, robot: Robot) -> Array:
    """Return the standard deviations of the errors of q, as a tangent vector, and of v (2 nv)."""
    q, v = np.zeros(robot.nv), np.zeros(robot.nv)
    if robot.floating:
        q[:3], q[3:6] = spread.base_position, spread.base_orientation
        v[:3], v[3:6] = spread.base_velocity, spread.base_rate
    q[robot.tree.a], v[robot.tree.a] = spread.joint_position, spread.joint_speed
    return np.concatenate([q, v])


def _given(offset: Offset, robot: Robot, where: str) -> Array:
    """Return the constant errors of q, as a tangent vector, and of v (2 nv)."""
    q, v = np.zeros(robot.nv), np.zeros(robot.nv)
    if robot.floating:
        q[:3], q[3:6] = offset.base_position, offset.base_orientation
        v[:3], v[3:6] = offset.base_velocity, offset.base_rate
    for name, value in offset.joint_position.items():
        if name not in robot.joint_names:
            raise ConfigError(f"{where}.joint_position.{name}", f"unknown actuated joint{nearest(name, robot.joint_names)}")
        q[robot.tree.a[robot.joint_names.index(name)]] = value
    return np.concatenate([q, v])


def _check_no_base(settings: Sensing, where: str) -> None:
    """Raise ConfigError at `where` for a base error, which a robot with a fixed base cannot have."""
    for table in ("noise", "bias", "offset"):
        errors = getattr(settings, table)
        for field in ("base_position", "base_orientation", "base_velocity", "base_rate"):
            if np.any(getattr(errors, field)):
                raise ConfigError(f"{where}.{table}.{field}", "expected 0 for a robot with a fixed base")
