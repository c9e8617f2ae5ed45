"""The tasks of a tick of the gait of two legs."""

from typing import NamedTuple

import numpy as np

from controllers.planners.two_legs.feet import Foot, Pose, about_z
from controllers.planners.two_legs.settings import GainSettings
from controllers.planners.two_legs.swing import Swing
from idyn.model.robot import Robot
from idyn.tasks import ComTask, ForceTask, FrameTask, TaskStack
from idyn.tasks.forces import ContactTask
from idyn.tasks.motion import MotionTask
from idyn.types import Array

BASE = "root_joint"


class Aims(NamedTuple):
    """What is asked for in a tick.

    feet, swing, swinging, planted: see `controllers.planners.two_legs.steps`
    touching: which contact places touch (n)
    push: acceleration of the centre of mass in the plane [m/s²] (2); height: of the centre of mass [m]
    heading: of the trunk [rad], with its derivatives; pressure: centre of pressure [m] (2)
    """

    feet: tuple[Foot, Foot]
    swing: Swing | None
    swinging: int | None
    planted: tuple[Pose, Pose]
    touching: Array
    push: Array
    height: float
    heading: tuple[float, float, float]
    pressure: Array


def task_stack(robot: Robot, aims: Aims, gains: GainSettings) -> TaskStack:
    """Return the tasks, without the posture."""
    flat = all(foot.flat for foot in aims.feet)
    yaw, rate, change = aims.heading
    tasks: list[MotionTask | ContactTask] = [
        FrameTask(
            frame=BASE,
            name="trunk",
            rotation=about_z(yaw),
            velocity=[0.0, 0.0, 0.0, 0.0, 0.0, rate],
            acceleration=[0.0, 0.0, 0.0, 0.0, 0.0, change],
            stiffness=gains.trunk,
            mask=(False, False, False, True, True, flat or aims.swinging is None),
            level=1,
        )
    ]
    if aims.touching.any():  # else nothing moves the centre of mass
        tasks.append(
            ComTask(
                position=[0.0, 0.0, aims.height],
                acceleration=[*aims.push, 0.0],
                stiffness=[0.0, 0.0, gains.height],
                mask=(flat, flat, True),
            )
        )
    for side, foot in enumerate(aims.feet):
        if side == aims.swinging and aims.swing is not None:
            tasks.append(_swing(foot, aims.swing, gains.swing))
        elif not aims.touching[foot.rows].any():
            tasks.append(_landing(foot, aims.planted[side], gains.swing))
    if aims.swinging is None:
        tasks += _load(robot, aims)
    return TaskStack(tasks=tasks)


def _swing(foot: Foot, swing: Swing, stiffness: float) -> FrameTask:
    x, v, a = swing.x, swing.v, swing.a
    R = about_z(float(x[3])) @ foot.level
    lever = R @ foot.centre - [0.0, 0.0, foot.radius]  # from the frame to the ground below the foot
    up, w, dw = np.array([0.0, 0.0, 1.0]), float(v[3]), float(a[3])
    turning = w * np.cross(up, lever)
    return FrameTask(
        frame=foot.frame,
        name="swing",
        position=x[:3] - lever,
        rotation=R if foot.flat else None,
        velocity=[*(v[:3] - turning), 0.0, 0.0, w],
        acceleration=[*(a[:3] - dw * np.cross(up, lever) - w * np.cross(up, turning)), 0.0, 0.0, dw],
        stiffness=stiffness,
    )


LOWERING = 0.05
"""Speed at which a foot that is to stand but does not touch goes down [m/s]."""


def _landing(foot: Foot, planted: Pose, stiffness: float) -> FrameTask:
    """Return the task of a foot that is to stand but does not touch: the sole parallel to the ground, going down."""
    return FrameTask(
        frame=foot.frame,
        name=f"landing {foot.frame}",
        rotation=about_z(planted.yaw) @ foot.level if foot.flat else None,
        velocity=[0.0, 0.0, -LOWERING, 0.0, 0.0, 0.0],
        stiffness=stiffness,
        damping=2.0 * float(np.sqrt(stiffness)),
        mask=(True, True, True, foot.flat, foot.flat, foot.flat),
        level=2,
    )


def _load(robot: Robot, aims: Aims) -> list[MotionTask | ContactTask]:
    """Return the load of the foot that carries less: its share follows the centre of pressure on the way between their centres.

    The acceleration of the centre of mass fixes the sum of both loads, so that a second task would contradict it.
    """
    one, other = (pose.position[:2] for pose in aims.planted)
    way = other - one
    share = min(max(float(way @ (aims.pressure - one)) / float(way @ way), 0.0), 1.0)
    foot, part = (aims.feet[1], share) if share < 0.5 else (aims.feet[0], 1.0 - share)
    keys = [robot.spheres.keys[row] for row in foot.rows if aims.touching[row]]
    return [ForceTask(contacts=keys, normal=part * robot.weight, level=3, name=f"load {foot.frame}")] if keys else []
