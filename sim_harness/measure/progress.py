"""Progress of a walking robot along its path, beside that of an ideal point that follows the same path."""

import math
from typing import NamedTuple

import numpy as np

from controllers.planners.path import DONE, NEXT, Path, command
from controllers.planners.trajectory import WalkSettings
from controllers.robot.attitude import yaw
from idyn.types import Array

PERIOD = 0.01
"""Time between the poses that are compared [s]."""

LAG = 0.5
"""Time that a gait may take until the base moves with the velocity of the path [s]."""


class Progress(NamedTuple):
    """Progress of a walk.

    made, expected: along the path [m], or turned about the vertical [rad] when the path is a turn in place
    unit: 'm' or 'rad'; off: from the place of the ideal point at the end [m]
    """

    made: float
    expected: float
    unit: str
    off: float


def progress_of(walk: WalkSettings, t: Array, q: Array) -> Progress:
    """Return the progress of a floating base. t: times since the start [s] (n), increasing; q: configurations (n, nq)"""
    due = np.arange(0.0, t[-1] + 1e-9, PERIOD)
    rows = np.minimum(np.searchsorted(t, due - 1e-9), len(t) - 1)
    poses = np.array([[*q[row, :2], yaw(q[row, 3:7])] for row in rows])
    poses[:, 2] = np.unwrap(poses[:, 2])
    ideal = _ideal(walk, poses[0], t[-1] - LAG)
    unit = "m" if walk.path.waypoints or any(walk.path.velocity[:2]) else "rad"
    off = float(np.linalg.norm(poses[-1, :2] - ideal[-1, :2]))
    return Progress(_advance(walk, poses), _advance(walk, ideal), unit, off)


def _ideal(walk: WalkSettings, first: Array, seconds: float) -> Array:
    """Return the poses x, y [m], yaw [rad] (n, 3) of a point that follows the path at once."""
    path, pose, poses = Path(walk.path), first.copy(), [first]
    for k in range(max(0, round((seconds - walk.start) / PERIOD))):
        u = command(path.fields, k * PERIOD, (pose[0], pose[1], pose[2]))
        c, s = math.cos(pose[2]), math.sin(pose[2])
        pose = pose + PERIOD * np.array([c * u[0] - s * u[1], s * u[0] + c * u[1], u[2]])
        poses.append(pose)
    return np.array(poses)


def _advance(walk: WalkSettings, poses: Array) -> float:
    """Return how far the poses (n, 3) advance along the path [m, rad]."""
    if walk.path.waypoints:
        return _between_waypoints(Path(walk.path), poses)
    steps, headings, direction = np.diff(poses, axis=0), poses[:-1, 2], np.array(walk.path.velocity)
    speed = np.linalg.norm(direction[:2])
    if speed == 0.0:
        return float(np.sign(direction[2]) * steps[:, 2].sum())
    forward = np.cos(headings) * steps[:, 0] + np.sin(headings) * steps[:, 1]
    left = np.cos(headings) * steps[:, 1] - np.sin(headings) * steps[:, 0]
    return float((direction[0] * forward + direction[1] * left).sum() / speed)


def _between_waypoints(path: Path, poses: Array) -> float:
    """Return the length of the legs behind the last pose, with the covered part of the present leg [m]. Waypoints are reached
    as in the planner."""
    begin, made = poses[0, :2], 0.0
    for pose in poses:
        goal = int(path.progress[NEXT])
        command(path.fields, 0.0, (pose[0], pose[1], pose[2]))
        if path.progress[NEXT] != goal or path.progress[DONE]:
            made += float(np.linalg.norm(path.waypoints[goal] - begin))
            begin = path.waypoints[goal]
        if path.progress[DONE]:
            return made
    goal = path.waypoints[path.progress[NEXT]]
    return made + float(np.linalg.norm(goal - begin) - np.linalg.norm(goal - poses[-1, :2]))
