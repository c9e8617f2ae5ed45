"""Reference trajectories of the joints: hold, sway, squat, sinusoid, and the planner's gaits."""

from typing import Literal, Protocol

import numpy as np
from scipy.interpolate import CubicSpline

from controllers.command import Reference
from controllers.config import Settings
from controllers.kinematics import angles_for_base_shift
from controllers.planners.gait import GaitSettings
from controllers.planners.locomotion import Locomotion
from controllers.planners.path import PathSettings
from idyn.errors import ConfigError
from idyn.robot import Robot
from idyn.types import Array, ContactSet, State

KNOTS = 41
"""Inverse-kinematics solutions along a stroke; the spline between them is off by less than 1e-8 rad for centimetres."""


class TrajectorySettings(Settings, frozen=True):
    """What the joints are to do.

    kind: 'hold' the stance; 'sway' the base sideways, or 'squat', by joint motion over feet that stay; 'sinusoid' of all
        joints; 'gait': walk
    start: the stance is held so long first [s]
    amplitude: of the base [m], of a sinusoid from end to end [rad]; frequency [Hz]; ramp: time in which the motion grows from
        nothing [s]
    gait, path: of 'gait', the steps and where to go
    """

    kind: Literal["hold", "sway", "squat", "sinusoid", "gait"] = "hold"
    start: float = 0.0
    amplitude: float = 0.01
    frequency: float = 1.0
    ramp: float = 0.5
    gait: GaitSettings = GaitSettings()
    path: PathSettings = PathSettings()


class Trajectory(Protocol):
    """Where the joints should be over time."""

    def at(self, t: float, state: State, contacts: ContactSet) -> Reference:
        """The reference at time t [s], the robot being in `state` with `contacts`. Times do not go back, save after `reset`."""
        ...

    def reset(self) -> None:
        """The next time is the first one."""
        ...


class Hold:
    """Stay at the given joint angles."""

    def __init__(self, angles: Array) -> None:
        zero = np.zeros(len(angles))
        self._reference = Reference(q=angles, v=zero, a=zero)

    def at(self, t: float, state: State, contacts: ContactSet) -> Reference:
        return self._reference

    def reset(self) -> None: ...


class BaseStroke:
    """The base goes to and fro along a line, s(t) = A r(t) sin 2πft, while the contact places stay.

    The joint angles along the stroke are solved once and joined by a spline θ(s), so that
    θ̇ = θ' ṡ and θ̈ = θ'' ṡ² + θ' s̈ are exact derivatives of what is asked. r(t) is the quintic smooth step over the ramp.
    """

    def __init__(self, robot: Robot, stance: Array, direction: Array, settings: TrajectorySettings) -> None:
        stroke = np.linspace(-settings.amplitude, settings.amplitude, KNOTS)
        angles = [angles_for_base_shift(robot, stance, s * direction, "reference.amplitude") for s in stroke]
        self._angles = CubicSpline(stroke, np.array(angles))
        self._amplitude = settings.amplitude
        self._omega = 2 * np.pi * settings.frequency
        self._start, self._ramp = settings.start, settings.ramp

    def reset(self) -> None: ...

    def at(self, t: float, state: State, contacts: ContactSet) -> Reference:
        """The reference at time t [s], whatever the robot does."""
        s, ds, dds = self._stroke(max(t - self._start, 0.0))
        first = self._angles(s, 1)
        return Reference(q=self._angles(s), v=first * ds, a=self._angles(s, 2) * ds * ds + first * dds)

    def _stroke(self, t: float) -> tuple[float, float, float]:
        r, dr, ddr = smooth_step(t, self._ramp)
        sine, cosine = np.sin(self._omega * t), self._omega * np.cos(self._omega * t)
        return (
            self._amplitude * r * sine,
            self._amplitude * (dr * sine + r * cosine),
            self._amplitude * (ddr * sine + 2 * dr * cosine - r * self._omega**2 * sine),
        )


class Sinusoid:
    """All joints to and fro together, `amplitude` down from the stance: θ(t) = θ₀ − A r(t) (1 − cos 2πft) / 2  [ZD §7.2.2]."""

    def __init__(self, angles: Array, settings: TrajectorySettings) -> None:
        self._angles = angles
        self._along = -0.5 * settings.amplitude * np.ones(len(angles))
        self._omega = 2 * np.pi * settings.frequency
        self._start, self._ramp = settings.start, settings.ramp

    def reset(self) -> None: ...

    def at(self, t: float, state: State, contacts: ContactSet) -> Reference:
        """The reference at time t [s], whatever the robot does."""
        t = max(t - self._start, 0.0)
        r, dr, ddr = smooth_step(t, self._ramp)
        w = self._omega
        c, dc, ddc = 1 - np.cos(w * t), w * np.sin(w * t), w * w * np.cos(w * t)
        return Reference(
            q=self._angles + self._along * r * c,
            v=self._along * (dr * c + r * dc),
            a=self._along * (ddr * c + 2 * dr * dc + r * ddc),
        )


def smooth_step(t: float, duration: float) -> tuple[float, float, float]:
    """The quintic from 0 at t = 0 to 1 at `duration` [s], level at both ends, and its first two derivatives [1/s], [1/s²]."""
    x = min(t / duration, 1.0)
    return (
        x**3 * (10 - 15 * x + 6 * x * x),
        30 * x * x * (1 - x) ** 2 / duration,
        60 * x * (1 - x) * (1 - 2 * x) / duration**2,
    )


def make_trajectory(settings: TrajectorySettings, robot: Robot, stance: Array, period: float) -> Trajectory:
    """The trajectory from a stance (nq), for ticks of `period` [s]. Raises ConfigError for values that make no motion."""
    if not 0 <= settings.start < np.inf:
        raise ConfigError("reference.start", f"expected a finite number ≥ 0, got {settings.start}")
    for field in ("amplitude", "frequency", "ramp"):
        value = getattr(settings, field)
        if not value > 0:
            raise ConfigError(f"reference.{field}", f"expected > 0, got {value}")
    if settings.kind == "hold":
        return Hold(robot.joint_angles(stance))
    if settings.kind == "sinusoid":
        return Sinusoid(robot.joint_angles(stance), settings)
    if not robot.floating:
        raise ConfigError("reference.kind", f"'{settings.kind}' moves a floating base; this robot's base is fixed")
    if settings.kind == "gait":
        return Locomotion(robot, stance, settings.start, settings.gait, settings.path, period)
    direction = np.array([0.0, 1.0, 0.0]) if settings.kind == "sway" else np.array([0.0, 0.0, 1.0])
    return BaseStroke(robot, stance, direction, settings)
