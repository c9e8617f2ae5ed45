"""Gait of two legs: tasks of the swinging foot, the centre of mass, the trunk and the posture  [Englsberger].

Each tick
1. phases and footsteps of the commanded velocity                            `controllers.planners.two_legs.steps`
2. planned centre of pressure p_ref and DCM ξ_ref; landing place from the measured DCM ξ
3. centre of pressure p = p_ref + (1 + k/ω) (ξ − ξ_ref), inside the soles    `controllers.planners.two_legs.feet`
4. tasks: acceleration ω² (c − p) of the centre of mass, its height, pose of the swinging foot, attitude of the base, load of
   the feet, posture; with commanded ones (`.beside`). The contact law decides what forces realise them

Point feet are soles of size zero: p rests on the standing foot, landing places alone correct ξ, and no task asks for the motion
of the centre of mass in the plane.
"""

from typing import ClassVar

import numpy as np

from controllers.command import Reference, Schedule, Steering
from controllers.contact.ground import Known
from controllers.planners.trajectory import MotionSettings, Trajectory
from controllers.planners.two_legs.feet import Pose, feet_of, nearest_inside
from controllers.planners.two_legs.steps import BalanceSettings, Steps, StepSettings
from controllers.planners.two_legs.tasks import Aims, check_beside, legs_of, task_stack
from idyn.errors import ConfigError, InputError
from idyn.model.frames import Centroidal
from idyn.model.robot import Robot
from idyn.tasks import TaskStack
from idyn.types import Array, ContactSet, Kinematics, State

Command = tuple[float, float, float, float]

TICK = 0.01  # step of integration of the commands [s]

ANKLE = 0.8
"""Share of the way to the edge of a sole up to which the centre of pressure corrects the motion alone, without the steps."""

TOUCHES = 5e-4  # largest gap of a foot that touches [m]


class TwoLegs(Trajectory):
    """Walks on two legs. Stores the phase of the gait."""

    def __init__(self, robot: Robot, stance: Array, settings: "TwoLegsSettings") -> None:
        """stance: level configuration (nq). Raises ConfigError for other robots."""
        self._robot, self._settings, self._stance = robot, settings, stance
        self._feet = feet_of(robot, stance)
        poses = self._poses(stance)
        aside = float(poses[0].position[1] - poses[1].position[1])
        width = settings.step.width or aside
        self._ground = float(np.mean([pose.position[2] for pose in poses]))
        self._height = float(robot.center_of_mass(stance)[2]) - self._ground - settings.balance.lower
        if not self._height > 0.0:
            raise ConfigError("reference.balance.lower", "expected less than the height of the centre of mass")
        self._omega = float(np.sqrt(robot.weight / (robot.total_mass * self._height)))
        self._flat = all(foot.flat for foot in self._feet)
        balance = settings.balance
        inner = np.maximum(np.min([foot.half for foot in self._feet], axis=0) - balance.margin, 0.0)
        stands = self._flat and not settings.march
        self._steps = Steps(settings.step, width, self._omega, stands, ANKLE * inner)
        self._angles = robot.joint_angles(stance)
        self._legs = np.flatnonzero(legs_of(robot))
        self.reset()

    def reset(self) -> None:
        self._velocity, self._t = np.zeros(3), 0.0
        self._commanded: Array | None = None
        self._steps.reset(self._poses(self._stance))

    def check(self, steering: Steering, tasks: TaskStack | None = None) -> None:
        if steering.gait is not None:
            raise InputError("gait", "the gait of two legs has no other patterns")
        if steering.posed:
            raise InputError("height" if steering.height is not None else "attitude", "the gait of two legs keeps its own")
        check_beside(self._robot, tasks or TaskStack())

    def steer(self, steering: Steering) -> None:
        if steering.velocity is not None:
            self._commanded = np.array(steering.velocity, np.float64)

    def _poses(self, q: Array) -> tuple[Pose, Pose]:
        left, right = (foot.pose(self._robot, q) for foot in self._feet)
        return left, right

    def _wanted(self, t: float) -> Array:
        """Return the commanded velocity at time t [s] (3)."""
        if t < self._settings.start:
            return np.zeros(3)
        if self._commanded is not None:
            return self._commanded
        ends = self._settings.start
        for lasts, *velocity in self._settings.commands:
            ends += lasts
            if t < ends:
                return np.array(velocity)
        return np.zeros(3)

    def at(self, t: float, state: State | Kinematics, contacts: ContactSet) -> Reference:
        """Return the reference and its tasks at time t [s], which must not decrease, for the measured state and contacts."""
        robot, settings, steps = self._robot, self._settings, self._steps
        dt, self._t = t - self._t, t
        change = settings.step.acceleration * dt
        self._velocity = self._velocity + np.clip(self._wanted(t) - self._velocity, -change, change)
        touching = np.zeros(len(robot.spheres.keys), np.bool_)
        touching[robot.spheres.rows(contacts.keys)[contacts.gaps <= TOUCHES]] = True
        near = [bool(touching[foot.rows].any()) for foot in self._feet]
        measured = self._poses(state.q)
        com = robot.frames.centroidal(state.q, state.v)
        dcm = com.position[:2] + self._speed(com) / self._omega
        steps.advance(t, self._velocity, measured, steps.swinging is not None and near[steps.swinging])
        p, planned = steps.reference(t, self._velocity + steps.correction, dcm)
        p = p + (1.0 + settings.balance.gain / self._omega) * (dcm - planned)
        p = nearest_inside(p, self._support(near))
        aims = Aims(
            feet=self._feet,
            swing=steps.swing,
            swinging=steps.swinging,
            planted=(steps.planted[0], steps.planted[1]),
            touching=touching,
            push=self._omega**2 * (com.position[:2] - p),
            height=self._ground + self._height,
            heading=self._heading(),
            pressure=p,
        )
        stands = np.ones(len(robot.spheres.keys), np.bool_)
        if steps.swinging is not None:
            stands[self._feet[steps.swinging].rows] = False
        posture = self._angles.copy()
        posture[self._legs] = robot.joint_angles(state.q)[self._legs]
        zero = np.zeros(robot.na)
        return Reference(
            q=posture,
            v=zero,
            a=zero,
            schedule=Schedule(stance=stands, time_to_switch=np.full(len(stands), np.inf)),
            base=self._velocity.copy(),
            tasks=task_stack(robot, aims),
        )

    def _speed(self, com: Centroidal) -> Array:
        """Return the velocity of the pendulum [m/s] (2).

        On soles, where a task asks for its motion, it is that of the centre of mass; on point feet that of a pendulum with the
        robot's angular momentum about the ground, which swinging legs do not change.
        """
        if self._flat:
            return com.velocity[:2]
        return com.velocity[:2] + com.angular[1::-1] * [1.0, -1.0] / (com.mass * self._height)

    def _support(self, near: list[bool]) -> Array:
        """Return the corners of the soles that carry the robot (n, 2)."""
        steps, margin = self._steps, self._settings.balance.margin
        carry = [side != steps.swinging and near[side] for side in (0, 1)]
        if not any(carry):
            carry = [side != steps.swinging for side in (0, 1)]
        soles = zip(self._feet, steps.planted, carry, strict=True)
        return np.concatenate([foot.corners(pose, margin) for foot, pose, carries in soles if carries])

    def _heading(self) -> tuple[float, float, float]:
        """Return the heading of the trunk, the mean of those of the feet, with its derivatives."""
        steps = self._steps
        if steps.swing is None or steps.swinging is None:
            return 0.5 * (steps.planted[0].yaw + steps.planted[1].yaw), 0.0, 0.0
        swing, stands = steps.swing, steps.planted[1 - steps.swinging]
        return 0.5 * (stands.yaw + float(swing.x[3])), 0.5 * float(swing.v[3]), 0.5 * float(swing.a[3])


class TwoLegsSettings(MotionSettings, frozen=True, tag="two-legs"):
    """Steps of a robot on two legs, with soles or point feet. A commanded velocity replaces `commands`.

    commands: velocities one after another, then the robot stops: duration [s], forward, left [m/s], turn [rad/s] (n, 4)
    march: whether the robot steps in place where it could stand. Point feet always step
    step: timing and size of the steps
    balance: feedback of the divergent component of motion
    """

    commands: tuple[Command, ...] = ()
    march: bool = False
    step: StepSettings = StepSettings()
    balance: BalanceSettings = BalanceSettings()
    walks: ClassVar[bool] = True
    grounds: ClassVar[tuple[Known, ...]] = ("flat", "standing")

    def goal(self, seconds: float) -> Array:
        """Return where a robot that starts at the origin is after a time [s] without any lag: x, y [m], turn [rad] (3)."""
        pose, ends = np.zeros(3), self.start
        for lasts, *velocity in self.commands:
            left, ends = min(lasts, seconds - ends), ends + lasts
            for _ in range(max(round(left / TICK), 0)):
                c, s, u = np.cos(pose[2]), np.sin(pose[2]), velocity
                pose += TICK * np.array([c * u[0] - s * u[1], s * u[0] + c * u[1], u[2]])
        return pose

    def build(self, robot: Robot, stance: Array, period: float) -> Trajectory:
        self._check(robot, floating=True)
        return TwoLegs(robot, stance, self)
