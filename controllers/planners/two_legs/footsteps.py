"""Footsteps from a commanded velocity."""

import numpy as np

from controllers.planners.two_legs.feet import Pose, turned
from controllers.planners.two_legs.settings import StepSettings
from idyn.types import Array

SIDES = (1.0, -1.0)
"""Direction to the side of the left and of the right foot."""


def next_step(stands: Pose, foot: int, velocity: Array, width: float, period: float) -> Pose:
    """Return where a foot lands beside the standing one so that the robot moves at a velocity.

    stands: the standing foot; foot: that swings, 0: left, 1: right; velocity: forward, left [m/s], turn [rad/s] (3)
    width: distance of the feet to the side [m]; period: of a step [s]
    """
    turn = velocity[2] * period
    # the feet are beside the middle of the robot, which turns by half between the two steps
    ahead = velocity[:2] * period + np.array([0.0, 0.5 * SIDES[foot] * width])
    step = turned(stands.yaw) @ np.array([0.0, 0.5 * SIDES[foot] * width]) + turned(stands.yaw + turn) @ ahead
    return Pose(np.array([*(stands.position[:2] + step), stands.position[2]]), stands.yaw + turn)


def within_reach(place: Pose, stands: Pose, foot: int, width: float, limits: StepSettings) -> Pose:
    """Return a landing place, moved to where the foot reaches it and the legs do not cross."""
    R = turned(stands.yaw)
    ahead, left = R.T @ (place.position - stands.position)[:2]
    aside = min(max(SIDES[foot] * left, limits.narrowest * width), limits.widest * width)
    ahead = min(max(ahead, -limits.longest), limits.longest)
    moved = stands.position[:2] + R @ np.array([ahead, SIDES[foot] * aside])
    return Pose(np.array([*moved, place.position[2]]), place.yaw)


def abreast(feet: tuple[Pose, Pose], width: float) -> float:
    """Return how far the feet are from standing beside each other at a distance `width`: the larger of the distance [m] and
    the angle [rad]."""
    left, right = feet
    place = next_step(right, 0, np.zeros(3), width, 0.0)
    return max(float(np.linalg.norm((left.position - place.position)[:2])), abs(left.yaw - right.yaw))
