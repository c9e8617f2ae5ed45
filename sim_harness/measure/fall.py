"""The criterion for a fallen robot, used to end a run and for its figures."""

import math
from typing import NamedTuple

import numpy as np

from controllers.planners.path import DONE, NEXT, Path, command
from controllers.planners.trajectory import WalkSettings
from idyn.contact.terrain import Terrain
from idyn.model.robot import Robot
from idyn.model.so3 import tilt, yaw
from idyn.types import Array
from sim_harness.measure.trace import Trace

FALLEN_TILT = 0.5  # a robot has fallen when its base is tilted by more than this [rad]

FALLEN_HEIGHT = 0.5
"""A robot has fallen when the height of its base above the ground is below this share of the initial height. Where the base's
frame starts far below the centre of mass, when it sank by this share of the initial height of the centre of mass."""

LOW_FRAME = 0.5  # height of such a frame, as a share of that of the centre of mass
DROPS, LANDED = 20, 1e-4  # search for the ground below a point: largest number of iterations, tolerance [m]


class Posture:
    """Checks from the pose of the base whether a robot on a terrain has fallen. Robots with a fixed base never fall."""

    def __init__(self, robot: Robot, terrain: Terrain, q: Array) -> None:
        """q: initial configuration (nq)"""
        self._terrain = terrain
        self._floats = robot.floating
        self._lowest = self._lowest_height(robot, q) if self._floats else 0.0

    def upright(self, q: Array) -> bool:
        """Return whether the robot is upright in all configurations (n, nq)."""
        return not self.fallen(q).any()

    def fallen(self, q: Array) -> Array:
        """Return in which of the configurations (n, nq) the robot has fallen (n); it has in those with non-finite values."""
        if not self._floats:
            return np.zeros(len(q), dtype=bool)
        return ~((base_tilt(q) < FALLEN_TILT) & (above_ground(q[:, :3], self._terrain) >= self._lowest))

    def _lowest_height(self, robot: Robot, q: Array) -> float:
        """Return the least height of the base above the ground of a robot that has not fallen [m]; it may be negative."""
        base, mass = above_ground(np.stack([q[:3], robot.center_of_mass(q)]), self._terrain).tolist()
        lowest: float = FALLEN_HEIGHT * base if base >= LOW_FRAME * mass else base - FALLEN_HEIGHT * mass
        return lowest


def base_tilt(q: Array) -> Array:
    """Return the tilt of a floating base from upright [rad] (n), for configurations (n, nq)."""
    return np.array([tilt(each) for each in q[:, 3:7]])


def above_ground(points: Array, terrain: Terrain) -> Array:
    """Return the vertical height of points (n, 3) above the terrain [m] (n).

    Each iteration lowers a point by its distance to the terrain, so that it never passes the ground. Convergence is slow only
    on steep ground.
    """
    below = points.copy()
    for _ in range(DROPS):
        distances, _ = terrain.query(below)
        below[:, 2] -= distances
        if np.abs(distances).max(initial=0.0) < LANDED:
            break
    return points[:, 2] - below[:, 2]


STANDS_FOR = 1.0  # time for which a robot must stand at the end to have got up [s]


def risen(trace: Trace, robot: Robot, terrain: Terrain, stance: Array) -> float:
    """Return the time after which the robot stood to the end, upright and with a reference at rest [s]; NaN without an end that
    lasts `STANDS_FOR`.

    stance: configuration in which it stands (nq)
    """
    moves = Posture(robot, terrain, stance).fallen(trace.q) | (trace.v_ref != 0.0).any(axis=1)
    first = int(np.flatnonzero(moves)[-1]) + 1 if moves.any() else 0
    since = trace.t[min(first, len(trace) - 1)] - trace.t[0]
    return float(since) if trace.t[-1] - trace.t[0] - since >= STANDS_FOR else float("nan")


PERIOD = 0.01  # time between the poses that are compared [s]
LAG = 0.5  # time that a gait may take until the base moves with the velocity of the path [s]


class Progress(NamedTuple):
    """Progress of a walk."""

    # made, expected: along the path [m], or turned about the vertical [rad] when the path is a turn in place
    made: float
    expected: float
    unit: str  # 'm' or 'rad'
    off: float  # from the place of the ideal point at the end [m]


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
        u = command(path, k * PERIOD, (pose[0], pose[1], pose[2]))
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
        command(path, 0.0, (pose[0], pose[1], pose[2]))
        if path.progress[NEXT] != goal or path.progress[DONE]:
            made += float(np.linalg.norm(path.waypoints[goal] - begin))
            begin = path.waypoints[goal]
        if path.progress[DONE]:
            return made
    goal = path.waypoints[path.progress[NEXT]]
    return made + float(np.linalg.norm(goal - begin) - np.linalg.norm(goal - poses[-1, :2]))
