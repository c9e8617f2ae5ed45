"""Reference trajectories of the joints: hold, sway, squat, sinusoid, and gaits."""

import math
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np

from controllers.command import Reference, Steering
from controllers.config.loading import Kind, Positive
from controllers.config.tables import kind_of
from controllers.contact.ground import Known
from controllers.planners.gait import GaitSettings
from controllers.planners.legs import Legs, has_legs
from controllers.planners.locomotion import Locomotion
from controllers.planners.path import PathSettings
from controllers.planners.pose import BasePose, PoseSettings, Reach, check_pose, stand
from controllers.robot.kinematics import KNOTS, angles_along
from idyn.contact.terrain import Terrain
from idyn.errors import ConfigError, InputError
from idyn.library.kernels import compiled
from idyn.model.robot import Robot
from idyn.tasks import TaskStack
from idyn.types import Array, ContactSet, Kinematics, State

UNREACHED = "reference out of reach: a leg does not reach its foot at the commanded height and attitude"


class Trajectory(Protocol):
    """Reference of the joints over time. Base class of those that follow no commands."""

    @property
    def limits(self) -> Array | None:
        """Limits of a commanded height [m], roll and pitch [rad] (3, 2); None: the trajectory does not follow them."""
        return None

    def at(self, t: float, state: State | Kinematics, contacts: ContactSet) -> Reference:
        """Return the reference at time t [s] for the measured state and contacts. t must not decrease, except after `reset`."""

    def check(self, steering: Steering, tasks: TaskStack | None = None) -> None:
        """Raise InputError for a steering, or tasks beside it, that cannot be followed, with the field of a command."""
        if steering.velocity is not None:
            raise InputError("velocity", "the controller's reference has no gait that could follow it")
        if steering.gait is not None:
            raise InputError("gait", "the controller's reference is no gait")
        if steering.posed and self.limits is None:
            field = "height" if steering.height is not None else "attitude"
            raise InputError(field, "expected a reference `hold` or `gait` of a robot on legs of hinges")
        if steering.posed and self.limits is not None:
            check_pose(steering.pose, self.limits)

    def steer(self, steering: Steering) -> None:
        """Follow this steering from now on until `reset`."""
        return

    def on(self, terrain: Terrain, known: Known) -> None:
        """Move on this terrain. known: what the controller knows of it"""
        return

    def prepare(self) -> None:
        """Compute what the first steering needs, a millisecond or two, for which no tick must wait."""
        return

    def expect(self, contacts: ContactSet, force: Array, asked: TaskStack | None) -> None:
        """Receive the contact forces that are predicted until the next tick.

        force: on the robot, in the world [N] (n, 3); asked: commanded tasks, None without any
        """
        return

    def reset(self) -> None:
        """Forget earlier times."""
        return


class Stand(Trajectory):
    """Holds the stance of a robot on legs as `Legs` describes. The feet stay in place while the base moves."""

    def __init__(self, robot: Robot, stance: Array, pose: PoseSettings) -> None:
        """stance: level configuration (nq). Raises ConfigError for legs of another structure."""
        self._legs, self._na = Legs(robot, stance), robot.na
        self._angles, zero = self._legs.angles(stance), np.zeros(robot.na)
        self._feet = self._legs.feet(self._angles)
        self._base = BasePose(pose)
        self._still, self._bent = Reference(q=self._angles[: robot.na], v=zero, a=zero), self._angles
        self._steering, self._t, self._last, self._moves = Steering(), math.nan, self._still, False
        self._reach = Reach(self._legs, self._angles, self._feet, (robot.limits.q_min, robot.limits.q_max))

    @cached_property
    def limits(self) -> Array:
        """Limits of height [m], roll and pitch [rad] (3, 2)."""
        return self._reach.limits(self._base.bounds)

    def steer(self, steering: Steering) -> None:
        if steering is not self._steering:
            self._steering = steering
            self._base.target[:] = steering.pose
            self._moves = True

    def prepare(self) -> None:
        _ = self.limits

    def reset(self) -> None:
        """Return to the stance at once."""
        self._base.reset()
        self._steering, self._t, self._last, self._moves = Steering(), math.nan, self._still, False
        self._bent = self._angles

    def at(self, t: float, state: State | Kinematics, contacts: ContactSet) -> Reference:
        """Return the reference at time t [s], independent of the state. t must not decrease."""
        base, dt = self._base, 0.0 if math.isnan(self._t) else t - self._t
        self._t = t
        if not self._moves:
            return self._last
        m, na = len(self._angles), self._na
        motion = self._bent.copy(), np.empty(m), np.empty(m)
        reached = stand(base, self._legs, dt, (self._feet,), motion)
        self._bent, q, v, a = motion[0], *(part[:na] for part in motion)
        self._moves = bool(base.dx.any() or base.ddx.any() or (base.x != base.target).any())
        self._last = Reference(q=q, v=v, a=a, pose=base.x.copy(), problem="" if reached else UNREACHED)
        if not base.x.any() and not base.dx.any():
            self._last, self._bent = self._still, self._angles
        return self._last


class Hold(Trajectory):
    """Hold the given joint angles."""

    def __init__(self, angles: Array) -> None:
        zero = np.zeros(len(angles))
        self._reference = Reference(q=angles, v=zero, a=zero)

    def at(self, t: float, state: State | Kinematics, contacts: ContactSet) -> Reference:
        return self._reference


class BaseStroke(Trajectory):
    """The base oscillates along a line, s(t) = A r(t) sin 2πft, while the contact spheres stay in place.

    The joint angles along the stroke are solved once and joined by a spline θ(s), so that θ̇ = θ' ṡ and θ̈ = θ'' ṡ² + θ' s̈ are
    the exact derivatives of the reference. r(t) is the quintic smooth step over the ramp.
    """

    def __init__(self, robot: Robot, stance: Array, direction: Array, settings: "StrokeSettings") -> None:
        stroke = np.linspace(-settings.amplitude, settings.amplitude, KNOTS)
        self._angles = angles_along(robot, stance, stroke, stroke[:, None] * direction, "reference.amplitude")
        self._amplitude = settings.amplitude
        self._omega = 2 * np.pi * settings.frequency
        self._start, self._ramp = settings.start, settings.ramp

    def at(self, t: float, state: State | Kinematics, contacts: ContactSet) -> Reference:
        """Return the reference at time t [s], independent of the state."""
        s, ds, dds = self._stroke(max(t - self._start, 0.0))
        first = self._angles(s, 1)
        return Reference(q=self._angles(s, 0), v=first * ds, a=self._angles(s, 2) * ds * ds + first * dds)

    def _stroke(self, t: float) -> tuple[float, float, float]:
        r, dr, ddr = smooth_step(t, self._ramp)
        sine, cosine = np.sin(self._omega * t), self._omega * np.cos(self._omega * t)
        return (
            self._amplitude * r * sine,
            self._amplitude * (dr * sine + r * cosine),
            self._amplitude * (ddr * sine + 2 * dr * cosine - r * self._omega**2 * sine),
        )


class Sinusoid(Trajectory):
    """All joints oscillate in phase between stance and stance − A: θ(t) = θ₀ − A r(t) (1 − cos 2πft) / 2  [ZD §7.2.2]."""

    def __init__(self, angles: Array, settings: "OscillationSettings") -> None:
        self._angles = angles
        self._along = -0.5 * settings.amplitude * np.ones(len(angles))
        self._omega = 2 * np.pi * settings.frequency
        self._start, self._ramp = settings.start, settings.ramp

    def at(self, t: float, state: State | Kinematics, contacts: ContactSet) -> Reference:
        """Return the reference at time t [s], independent of the state."""
        t = max(t - self._start, 0.0)
        r, dr, ddr = smooth_step(t, self._ramp)
        w = self._omega
        c, dc, ddc = 1 - np.cos(w * t), w * np.sin(w * t), w * w * np.cos(w * t)
        return Reference(
            q=self._angles + self._along * r * c,
            v=self._along * (dr * c + r * dc),
            a=self._along * (ddr * c + 2 * dr * dc + r * ddc),
        )


@compiled
def smooth_step(t: float, duration: float) -> tuple[float, float, float]:
    """Return the quintic from 0 at t = 0 to 1 at `duration` [s], flat at both ends, and its derivatives [1/s], [1/s²]."""
    x = min(t / duration, 1.0)
    return (
        x * x * x * (10 - 15 * x + 6 * x * x),
        30 * x * x * (1 - x) * (1 - x) / duration,
        60 * x * (1 - x) * (1 - 2 * x) / (duration * duration),
    )


class TrajectorySettings(Kind, frozen=True):
    """Base class of trajectory settings."""

    walks: ClassVar[bool] = False  # whether feet leave the ground
    grounds: ClassVar[tuple[Known, ...]] = "flat", "standing", "level", "told"  # what it can know of the ground

    @property
    def corners(self) -> tuple[tuple[float, float], ...]:
        """Planned path of the base in the plane, from corner to corner [m] (n, 2); empty: the base stays."""
        return ()

    def build(self, robot: Robot, stance: Array, period: float) -> Trajectory:
        """Build the trajectory from a stance (nq) for the control period [s]. Raises ConfigError for invalid settings."""
        raise NotImplementedError


class HoldSettings(TrajectorySettings, frozen=True, tag="hold"):
    """Hold the stance."""

    pose: PoseSettings = PoseSettings()  # limits of the commanded height and attitude, for robots on legs of hinges

    def build(self, robot: Robot, stance: Array, period: float) -> Trajectory:
        return Stand(robot, stance, self.pose) if has_legs(robot) else Hold(robot.joint_angles(stance))


class MotionSettings(TrajectorySettings, frozen=True):
    """Base class of motion settings."""

    start: float = 0.0  # time for which the robot stands still at first [s]

    def _check(self, robot: Robot, floating: bool) -> None:
        """Raise ConfigError for an invalid start, or a robot that cannot perform this motion."""
        if not 0 <= self.start < np.inf:
            raise ConfigError("reference.start", f"expected a finite number ≥ 0, got {self.start}")
        if floating and not robot.floating:
            raise ConfigError("reference.kind", f"'{kind_of(self)}' needs a floating base; this robot's base is fixed")
        for name in np.array(robot.joint_names)[robot.tree.q_index < 0]:
            only = "expected only joints with one degree of freedom"
            raise ConfigError("reference.kind", f"'{kind_of(self)}': {only}, got '{name}'")


class OscillationSettings(MotionSettings, frozen=True):
    """Settings of an oscillation."""

    amplitude: Positive = 0.01  # of the base, from the centre to one end [m]; of a sinusoid of the joints, peak to peak [rad]
    frequency: Positive = 1.0  # [Hz]
    ramp: Positive = 0.5  # time in which the amplitude grows from 0 [s]


class StrokeSettings(OscillationSettings, frozen=True):
    """Oscillation of the base along a line, by joint motion over standing feet."""

    direction: ClassVar[tuple[float, float, float]]

    def build(self, robot: Robot, stance: Array, period: float) -> Trajectory:
        self._check(robot, floating=True)
        return BaseStroke(robot, stance, np.array(self.direction), self)


class SwaySettings(StrokeSettings, frozen=True, tag="sway"):
    """Sideways oscillation of the base."""

    direction: ClassVar[tuple[float, float, float]] = (0.0, 1.0, 0.0)


class SquatSettings(StrokeSettings, frozen=True, tag="squat"):
    """Vertical oscillation of the base."""

    direction: ClassVar[tuple[float, float, float]] = (0.0, 0.0, 1.0)


class SinusoidSettings(OscillationSettings, frozen=True, tag="sinusoid"):
    """Oscillation of all joints in phase."""

    def build(self, robot: Robot, stance: Array, period: float) -> Trajectory:
        self._check(robot, floating=False)
        return Sinusoid(robot.joint_angles(stance), self)


class WalkSettings(MotionSettings, frozen=True, tag="gait"):
    """Gait along a path."""

    gait: GaitSettings = GaitSettings()  # timing and shape of the steps
    path: PathSettings = PathSettings()  # motion of the base
    pose: PoseSettings = PoseSettings()  # limits of the commanded height and attitude
    walks: ClassVar[bool] = True

    @property
    def corners(self) -> tuple[tuple[float, float], ...]:
        waypoints = self.path.waypoints
        return waypoints + waypoints[:1] if self.path.repeat else waypoints

    def build(self, robot: Robot, stance: Array, period: float) -> Trajectory:
        self._check(robot, floating=True)
        return Locomotion(robot, stance, self.start, self.gait, self.path, period, self.pose)


AnyTrajectory = HoldSettings | SwaySettings | SquatSettings | SinusoidSettings | WalkSettings
"""Type of `[reference]` in a controller's file, besides that of two legs."""
