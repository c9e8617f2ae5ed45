"""The floor under a motion, found from the motion: its height, and the velocity of a treadmill's belt."""

from typing import NamedTuple

import numpy as np

from idyn.explain.frames import Frames
from idyn.types import Array

SHARE = 0.25
"""Quantile of the heights of each frame's lowest point at which the floor is found."""


RESTS = 0.1
"""A floor that seems slower than this rests [m/s]."""


class Floor(NamedTuple):
    """The floor. height [m] in the robot's world; velocity: horizontal, of a belt [m/s] (3), 0 for a floor that rests

    pace: mean speed of the centre of mass against the floor [m/s]
    """

    height: float
    velocity: Array
    pace: float


def find_floor(frames: Frames, time: Array, height: float | None = None) -> Floor:
    """Return the floor. time: of the frames [s] (T); height: [m], None: from the lowest points of the soles

    Velocity: the median of the lowest points of each frame, which stick more often than not; below `RESTS` it counts as 0.
    """
    points, speeds = (each.reshape(len(each), -1, 3) for each in (frames.points, frames.speeds))
    lowest = points[:, :, 2].argmin(axis=1)
    every = np.arange(len(points))
    if height is None:
        height = float(np.quantile(points[every, lowest, 2], SHARE))
    velocity = np.append(np.median(speeds[every, lowest, :2], axis=0), 0.0)
    if np.linalg.norm(velocity) < RESTS:
        velocity = np.zeros(3)
    progress = (frames.centre[-1] - frames.centre[0]) / (time[-1] - time[0]) - velocity
    return Floor(height, velocity, float(np.linalg.norm(progress[:2])))
