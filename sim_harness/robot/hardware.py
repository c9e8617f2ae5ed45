"""Simulated hardware between the world and the robot's messages, with its errors: sensors, foot sensors and motors."""

from enum import IntEnum
from typing import Literal

import numpy as np

from idyn.errors import ConfigError
from idyn.model.robot import Robot
from idyn.model.so3 import mounting, rotation
from idyn.types import Array, ContactSet, Record, State
from sim_harness.robot.imperfections import (
    DriveSettings,
    ImperfectionSettings,
    ImuSettings,
    Offset,
    Sensing,
    Spread,
    by_joint,
    joint_friction,
    world_robot,
)
from sim_harness.world.world import StepResult
from transport.protocol.messages.state import Contact, Imu


class Purpose(IntEnum):
    """Purpose of a random stream. Changing a number changes the runs of all seeds."""

    BIAS = 1
    NOISE = 2
    LOST_STATES = 3
    LOST_TORQUES = 4
    ACCELERATION = 5


def stream(seed: int | None, purpose: Purpose) -> np.random.Generator:
    """Return the stream of a purpose for the seed of a run; None counts as 0."""
    return np.random.default_rng((seed or 0, purpose))


class Actuators:
    """The motors of one run, with the state of the lag."""

    def __init__(self, settings: DriveSettings, robot: Robot, dt: float) -> None:
        """dt: period of the ticks [s]"""
        self._limit = None if np.isinf(settings.strength) else settings.strength * robot.limits.tau_max
        self._share = 1.0 - float(np.exp(-2.0 * np.pi * settings.bandwidth * dt))
        self._quantum = settings.quantum
        self._lagged: Array | None = None

    def apply(self, command: Array) -> Array:
        """Return the applied torque of the next tick for a command [N·m] (na). The first command is applied without lag."""
        tau = command if self._limit is None else np.clip(command, -self._limit, self._limit)
        if self._lagged is not None and self._share < 1.0:
            tau = self._lagged + self._share * (tau - self._lagged)
        self._lagged = tau
        return self._quantum * np.round(tau / self._quantum) if self._quantum > 0.0 else tau


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
        offsets = by_joint(settings.offset.joint_position, robot, f"{where}.offset.joint_position")
        self._constant = _errors(settings.offset, robot, [*offsets.values()]) + _widths(settings.bias, robot) * drawn
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
    return _errors(spread, robot, spread.joint_position, spread.joint_speed)


def _errors(of: Spread | Offset, robot: Robot, angles: float | list[float], speeds: float = 0.0) -> Array:
    """Return errors of q, as a tangent vector, and of v (2 nv). angles, speeds: of actuated joints"""
    q, v = np.zeros(robot.nv), np.zeros(robot.nv)
    if robot.floating:
        q[:3], q[3:6] = of.base_position, of.base_orientation
        v[:3], v[3:6] = of.base_velocity, of.base_rate
    q[robot.tree.a], v[robot.tree.a] = angles, speeds
    return np.concatenate([q, v])


def _check_no_base(settings: Sensing, where: str) -> None:
    for table in ("noise", "bias", "offset"):
        errors = getattr(settings, table)
        for field in ("base_position", "base_orientation", "base_velocity", "base_rate"):
            if np.any(getattr(errors, field)):
                raise ConfigError(f"{where}.{table}.{field}", "expected 0 for a robot with a fixed base")


Report = Literal["geometry", "message", "binary"]
"""'geometry': no report, the server computes the contacts; 'message': points, normals, gaps and forces, as from ideal force
sensors and a terrain map; 'binary': which feet touch, as from foot switches."""

FIRST_GAP = 1e-4  # largest gap of a touching foot before the first step, when no forces are known [m]


class FootSensors:
    """Reports the contacts and forces of a simulation step in the next state message."""

    def __init__(self, report: Report, threshold: float) -> None:
        """threshold: a foot switch closes above this mean normal force [N]"""
        self._report = report
        self._threshold = threshold
        self._last: tuple[StepResult, float] | None = None  # the last step and its length [s]

    def record(self, result: StepResult, dt: float) -> None:
        """Record the forces of a step of length dt [s]."""
        self._last = result, dt

    def contacts(self, contacts: ContactSet) -> list[Contact] | None:
        """Return the contacts for a state message, None for the report 'geometry'. contacts: those of the world"""
        if self._report == "geometry":
            return None
        if self._report == "message":
            return self._measured(contacts)
        if self._last is None:
            closed = {key for key, gap in zip(contacts.keys, contacts.gaps.tolist(), strict=True) if gap <= FIRST_GAP}
        else:
            keys, forces = self._last[0].contacts.keys, self._last[0].normal_force.tolist()
            closed = {key for key, force in zip(keys, forces, strict=True) if force > self._threshold}
        return [Contact(frame=key) for key in contacts.keys if key in closed]

    def _measured(self, c: ContactSet) -> list[Contact]:
        result, dt = self._last or (None, 1.0)
        felt = () if result is None else zip(result.contacts.keys, result.impulse / dt, strict=True)
        forces = {key: force.tobytes() for key, force in felt}  # of the last step, world axes [N] (3)
        mu, gaps = c.mu.tolist(), c.gaps.tolist()
        return [
            Contact(
                frame=key,
                p=c.points[i].tobytes(),
                n=c.normals[i].tobytes(),
                t1=c.tangents[i].tobytes(),
                mu=mu[i],
                dist=gaps[i],
                f_sensed=forces.get(key),
                sensed_valid=key in forces,
            )
            for i, key in enumerate(c.keys)
        ]


class Hardware(Record, frozen=True):
    """The hardware of one run. Its parts have internal state."""

    sensors: Sensors
    feet: FootSensors
    actuators: Actuators
    imu: SimulatedImu | None = None

    @staticmethod
    def build(robot: Robot, dt: float, settings: ImperfectionSettings, report: Report, seed: int | None) -> "Hardware":
        """Return hardware with imperfections. Raises ConfigError for settings that do not fit the robot.

        dt: period of the ticks [s]
        report: contact report of the feet
        seed: seed of the run
        """
        return Hardware(
            sensors=Sensors(settings.sensing, robot, seed),
            feet=FootSensors(report, settings.sensing.touch_threshold),
            actuators=Actuators(settings.drive, robot, dt),
            imu=None if settings.sensing.imu is None else SimulatedImu(settings.sensing.imu, robot, seed),
        )

    @staticmethod
    def ideal(robot: Robot, dt: float) -> "Hardware":
        """Return hardware with exact sensors, contact reports with forces, and motors that follow every command."""
        return Hardware.build(robot, dt, ImperfectionSettings(), "message", None)


def check_imperfections(settings: ImperfectionSettings, robot: Robot, dt: float, where: str = "experiment.robot") -> None:
    """Raise ConfigError at `where` for the first invalid setting; dt: period of the ticks [s]."""
    Sensors(settings.sensing, robot, None, f"{where}.sensing")
    if settings.sensing.imu is not None:
        SimulatedImu(settings.sensing.imu, robot, None, f"{where}.sensing")
    world_robot(robot, settings, where)
    joint_friction(robot, settings, where)
    for field in ("lost_states", "lost_torques"):
        loss = getattr(settings.link, field)
        if (loss.rate > 0.0 or loss.every > 0.0) and round(loss.length / dt) < 1:
            raise ConfigError(f"{where}.link.{field}.length", f"expected at least one tick of {dt:g} s, got {loss.length:g} s")
        if loss.every > 0.0 and loss.rate > 0.0:
            raise ConfigError(f"{where}.link.{field}.every", f"expected either every or rate, got both, rate = {loss.rate:g}")
        if loss.every > 0.0 and loss.length > 0.5 * loss.every:
            raise ConfigError(
                f"{where}.link.{field}.every", f"expected at least twice the length of {loss.length:g} s, got {loss.every:g} s"
            )
    if settings.ground.terrain is not None:
        settings.ground.terrain.build(where=f"{where}.ground.terrain")
