"""The tasks of a plan of the model-predictive planner."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from controllers.planners.mpc.steps import Step
from controllers.planners.two_legs.tasks import BASE
from idyn.model.robot import Robot
from idyn.tasks import ComTask, ForceTask, FrameTask
from idyn.tasks.forces import ContactTask
from idyn.tasks.motion import MotionTask
from idyn.types import Array

TRUNK = 0.1
"""Weight of the attitude of the base beside that of the motion of the centre of mass: on two feet no force turns the base about
the line between them, and legs in the air shall not."""

LOWERING, ABOVE = 0.15, 0.005
"""Speed of a foot that is to stand and does not touch [m/s]; height above the lowest foot from which it does not touch [m]."""

Tasks = list[MotionTask | ContactTask]


class BodyMotion(NamedTuple):
    """Motion of the body now, in the world: centre of mass [m], velocity, acceleration; attitude of the base (3, 3), angular
    velocity, angular acceleration (3 each)."""

    position: Array
    velocity: Array
    acceleration: Array
    attitude: Array
    turn: Array
    turning: Array


def body_tasks(body: BodyMotion, stiffness: float) -> Tasks:
    """Return the tasks of the body."""
    pad = np.zeros(3)
    return [
        ComTask(position=body.position, velocity=body.velocity, acceleration=body.acceleration, stiffness=stiffness),
        FrameTask(
            frame=BASE,
            name="trunk",
            rotation=body.attitude,
            velocity=np.concatenate([pad, body.turn]),
            acceleration=np.concatenate([pad, body.turning]),
            stiffness=stiffness,
            weight=TRUNK,
        ),
    ]


def foot_tasks(robot: Robot, q: Array, feet: tuple[Array, Array], steps: Sequence[Step | None], stiffness: float) -> Tasks:
    """Return the tasks of the feet: swings, the way down of feet that do not touch, and forces, below all other tasks.

    feet: their centres (n, 3), and preferred forces on them (n, 3); steps: of each foot, None while it stands
    """
    places, forces = feet
    tasks, lowest, pad = Tasks(), float(places[:, 2].min()), np.zeros(3)
    rows = zip(robot.spheres.keys, robot.description.contact, steps, places, forces, strict=True)
    for key, place, step, at, force in rows:
        if step is not None:
            x, v, a = step.motion
            offset = at - robot.frames.placement(place.frame, q).translation
            task: MotionTask | ContactTask = FrameTask(
                frame=place.frame,
                name=f"swing {key}",
                position=x - offset,
                velocity=np.concatenate([v, pad]),
                acceleration=np.concatenate([a, pad]),
                stiffness=stiffness,
            )
        elif at[2] - lowest > ABOVE:
            task = FrameTask(
                frame=place.frame,
                name=f"landing {key}",
                velocity=[0.0, 0.0, -LOWERING, 0.0, 0.0, 0.0],
                stiffness=0.0,
                damping=2.0 * float(np.sqrt(stiffness)),
                mask=(True, True, True, False, False, False),
            )
        else:
            task = ForceTask(contacts=key, force=force, name=f"force {key}", level=1)
        tasks.append(task)
    return tasks


def angles_of(R: Array) -> Array:
    """Return roll, pitch and yaw of a rotation Rz(yaw) Ry(pitch) Rx(roll) [rad] (3)."""
    return np.array([np.arctan2(R[2, 1], R[2, 2]), -np.arcsin(np.clip(R[2, 0], -1.0, 1.0)), np.arctan2(R[1, 0], R[0, 0])])
