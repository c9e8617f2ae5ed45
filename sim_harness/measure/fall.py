"""The criterion for a fallen robot, used to end a run and for its figures."""

import numpy as np

from controllers.robot.attitude import tilt
from idyn.contact.terrain import Terrain
from idyn.model.robot import Robot
from idyn.types import Array

FALLEN_TILT = 0.5
"""A robot has fallen when its base is tilted by more than this [rad]."""

FALLEN_HEIGHT = 0.5
"""A robot has fallen when the height of its base above the ground is below this share of the initial height. Where the base's
frame starts far below the centre of mass, when it sank by this share of the initial height of the centre of mass."""

LOW_FRAME = 0.5
"""Height of such a frame, as a share of that of the centre of mass."""

DROPS, LANDED = 20, 1e-4
"""Search for the ground below a point: largest number of iterations, tolerance [m]."""


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
