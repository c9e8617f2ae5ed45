"""Tasks of the gait of two legs. They are made once; each tick writes their targets."""

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from controllers.planners.two_legs.feet import Foot, Pose, about_z
from controllers.planners.two_legs.steps import Steps
from idyn.model.robot import Robot
from idyn.tasks import CenterOfPressureTask, ComTask, ForceTask, FrameTask, TaskLimits, TaskStack
from idyn.tasks.forces import ContactTask
from idyn.tasks.motion import MotionTask
from idyn.types import Array

BASE = "root_joint"

SWING, HEIGHT, TRUNK = 900.0, 100.0, 100.0  # stiffness of feet, height and attitude [1/s²], critically damped
Above = tuple[float, float, float] | None  # height [m] with its derivatives
SWIFT = 40.0  # largest acceleration of a joint, in units of g over the height of the centre of mass: none is thrown to keep it
LOWERING = 0.25
"""Speed at which a foot that is to stand but does not touch goes down [m/s]. On the ground it presses by 15 m/s² times its
mass: an estimator feels its load."""


class Aimed(NamedTuple):
    """A task of a frame, and the targets that a tick writes: the frame's axes as columns (3, 3), its origin [m] (3), velocity
    and acceleration, linear, then angular (6)."""

    task: FrameTask
    rotation: Array
    position: Array
    velocity: Array
    acceleration: Array


class GaitTasks:
    """The tasks of a gait. height: of the centre of mass in the world [m]; omega: of the pendulum [1/s]"""

    def __init__(self, robot: Robot, feet: tuple[Foot, Foot], height: float, omega: float) -> None:
        self._limits = TaskLimits(acceleration=SWIFT * omega * omega)
        self._robot, self._feet, self._flat = robot, feet, all(foot.flat for foot in feet)
        self._edges = any(foot.edge for foot in feet)
        upright, turns = (False, False, False, True, True, False), (False, False, False, True, True, True)
        # on soles the trunk is kept upright first: else it, or the arms, are thrown to move the centre of mass
        first, second = (0, 1) if self._flat else (1, 0)
        self._trunks = _trunk(upright, first), _trunk(turns, first)
        self._swings, self._landings = [*map(_swing, feet)], [*map(_landing, feet)]
        self._height, self._place, self._rate, self._push = height, np.zeros(3), np.zeros(3), np.zeros(3)
        stiffness = np.array([0.0, 0.0, HEIGHT])
        fields: dict[str, Any] = {"position": self._place, "velocity": self._rate, "acceleration": self._push}
        fields |= {"stiffness": stiffness, "damping": 2.0 * np.sqrt(stiffness)}
        self._over = {
            (plane, asks): ComTask(mask=(plane, plane, asks), level=second, **fields)
            for plane in (False, True)
            for asks in (False, True)
        }

    def stack(
        self, steps: Steps, touching: Array, push: complex, pressure: complex, above: Above, placed: tuple[Pose, Pose]
    ) -> TaskStack:
        """Return the tasks of a tick, without the posture.

        touching: which contact places touch (n)
        push: acceleration of the centre of mass in the plane [m/s²]; pressure: centre of pressure [m]
        above: how much higher than `height` it shall be [m], with its derivatives; None: no height is asked for
        placed: the feet as measured
        """
        hangs = steps.standing and not touching.any()  # only the arms could turn the trunk
        tasks: list[MotionTask | ContactTask] = [] if hangs else [self._trunk(steps)]
        if touching.any():  # else nothing moves the centre of mass
            higher, self._rate[2], change = above or (0.0, 0.0, 0.0)
            self._place[2], self._push[:] = self._height + higher, (push.real, push.imag, change)
            carry = [side for side, foot in enumerate(self._feet) if side != steps.swinging and touching[foot.rows].any()]
            alone = self._edges and len(carry) < 2
            tasks.append(self._over[self._flat and not alone, above is not None])
            if alone and carry:
                tasks.append(self._pressed(carry[0], touching, pressure, placed[carry[0]]))
        for side, foot in enumerate(self._feet):
            if side == steps.swinging and steps.swing is not None:
                _follow(self._swings[side], foot, steps.swing.x, steps.swing.v, steps.swing.a)
                tasks += [each.task for each in self._swings[side]]
            elif not touching[foot.rows].any():
                self._landings[side].rotation[:] = about_z(steps.planted[side].yaw) @ foot.level
                tasks.append(self._landings[side].task)
        free = steps.swinging is None and not self._edges
        tasks += self._load(steps.planted, touching, pressure) if free else []
        return TaskStack(tasks=tasks, limits=self._limits)

    def _trunk(self, steps: Steps) -> FrameTask:
        """Return the task of the trunk: upright, with the mean heading of the feet."""
        aimed, (left, right) = self._trunks[self._flat or steps.swinging is None], steps.planted
        yaw, rate, change = 0.5 * (left.yaw + right.yaw), 0.0, 0.0
        if steps.swing is not None and steps.swinging is not None:
            swing, stands = steps.swing, steps.planted[1 - steps.swinging]
            yaw, rate, change = 0.5 * (stands.yaw + float(swing.x[3])), 0.5 * float(swing.v[3]), 0.5 * float(swing.a[3])
        aimed.rotation[:] = about_z(yaw)
        aimed.velocity[5], aimed.acceleration[5] = rate, change
        return aimed.task

    def _pressed(self, side: int, touching: Array, pressure: complex, pose: Pose) -> CenterOfPressureTask:
        """Return the task of the centre of pressure of an edge that carries alone.

        It has no moment about its line, so that an acceleration of the centre of mass away from it would throw the arms.
        """
        foot, keys = self._feet[side], self._robot.spheres.keys
        nearest = foot.nearest(pressure, pose)
        point = np.array([nearest.real, nearest.imag, pose.height])
        standing = [keys[row] for row in foot.rows.tolist() if touching[row]]
        return CenterOfPressureTask(contacts=standing, point=point, level=1, name="pressure")

    def _load(self, planted: list[Pose], touching: Array, pressure: complex) -> list[ForceTask]:
        """Return the load of the foot that carries less: its share follows the centre of pressure on the way between their
        centres.

        The acceleration of the centre of mass fixes the sum of both loads, so that a second task would contradict it. On edges,
        which hinder no rolling, it fixes both.
        """
        robot, (one, other) = self._robot, (pose.place for pose in planted)
        share = min(max(((pressure - one) / (other - one)).real, 0.0), 1.0)
        foot, part = (self._feet[1], share) if share < 0.5 else (self._feet[0], 1.0 - share)
        keys = [robot.spheres.keys[row] for row in foot.rows.tolist() if touching[row]]
        return [ForceTask(contacts=keys, normal=part * robot.weight, level=3, name=f"load {foot.frame}")] if keys else []


def _trunk(mask: tuple[bool, ...], level: int) -> Aimed:
    R, velocity, acceleration = np.eye(3), np.zeros(6), np.zeros(6)
    fields: dict[str, Any] = {"rotation": R, "velocity": velocity, "acceleration": acceleration, "stiffness": TRUNK}
    task = FrameTask(frame=BASE, name="trunk", mask=mask, level=level, **fields)
    return Aimed(task, R, np.zeros(3), velocity, acceleration)


def _turns(foot: Foot) -> tuple[bool, ...]:
    """Return about which of its axes a foot in the air is turned: an edge not about its line, which its leg may not do."""
    along = int(np.abs(foot.level[foot.along]).argmax())
    return tuple(foot.flat and not (foot.edge and axis == along) for axis in range(3))


def _swing(foot: Foot) -> list[Aimed]:
    """Return the tasks of the place and, below those of the trunk, of the attitude of a foot: where the ankle is at the end of
    its range, the sole tilts, not the robot."""
    R, x, (v, a, w, dw) = np.eye(3), np.zeros(3), np.zeros((4, 6))
    tasks = [
        Aimed(FrameTask(frame=foot.frame, name="swing", position=x, velocity=v, acceleration=a, stiffness=SWING), R, x, v, a)
    ]
    if foot.flat:
        fields: dict[str, Any] = {"axes": "local", "mask": (False, False, False, *_turns(foot)), "level": 2, "stiffness": SWING}
        task = FrameTask(frame=foot.frame, name="swing attitude", rotation=R, velocity=w, acceleration=dw, **fields)
        tasks.append(Aimed(task, R, x, w, dw))
    return tasks


def _landing(foot: Foot) -> Aimed:
    """Return the task of a foot that is to stand but does not touch: the sole parallel to the ground, going down."""
    R, velocity = np.eye(3), np.zeros(6)
    velocity[:3] = -LOWERING * (foot.level[2] if foot.flat else np.eye(3)[2])
    task = FrameTask(
        frame=foot.frame,
        name=f"landing {foot.frame}",
        rotation=R if foot.flat else None,
        velocity=velocity,
        axes="local" if foot.flat else "world",
        stiffness=SWING,
        damping=2.0 * sqrt(SWING),
        mask=(True, True, True, *_turns(foot)),
        level=2,
    )
    return Aimed(task, R, np.zeros(3), velocity, np.zeros(6))


def _follow(swing: list[Aimed], foot: Foot, x: Array, v: Array, a: Array) -> None:
    """Write the targets of a swinging foot's frame for position and heading of its sole, with their derivatives (4 each).

    The frame is at x − l, l: the way from it to the ground below the foot, which turns with the sole.
    """
    R, aimed = about_z(float(x[3])) @ foot.level, swing[0]
    ahead, left, up = (R @ foot.centre).tolist()
    l, w, dw = complex(ahead, left), float(v[3]), float(a[3])
    place = complex(x[0], x[1]) - l
    speed, change = complex(v[0], v[1]) - 1j * w * l, complex(a[0], a[1]) - (1j * dw - w * w) * l
    aimed.rotation[:] = R
    aimed.position[:] = place.real, place.imag, x[2] - (up - foot.radius)
    aimed.velocity[:] = speed.real, speed.imag, v[2], 0.0, 0.0, w
    aimed.acceleration[:] = change.real, change.imag, a[2], 0.0, 0.0, dw
    for each in swing[1:]:  # in the foot's own axes
        each.velocity[3:], each.acceleration[3:] = w * foot.level[2], dw * foot.level[2]
