"""When a robot has fallen: one rule for the end of a run and for its figures."""

import numpy as np

from controllers.robot.attitude import tilt
from idyn.contact.terrain import Terrain
from idyn.model.robot import Robot
from idyn.types import Array

FALLEN_TILT = 0.5
"""A base tilted further than this has fallen [rad]."""

FALLEN_HEIGHT = 0.5
"""A base lower above the ground than this share of its first height has fallen."""

DROPS, LANDED = 20, 1e-4
"""Most steps down from the base to the ground below it, and the distance that is none [m]."""


class Posture:
    """How a robot holds itself on a terrain, judged by its base; one with a fixed base never falls."""

    def __init__(self, robot: Robot, terrain: Terrain, q: Array) -> None:
        """q: the first configuration (nq)"""
        self._terrain = terrain
        self._floats = robot.floating
        self._first = above_ground(q[None, :3], terrain)[0] if self._floats else 0.0

    def upright(self, q: Array) -> bool:
        """Whether it is not down in any of the configurations (n, nq); numbers that are none are no posture."""
        if not self._floats:
            return True
        low = FALLEN_HEIGHT * self._first
        return bool((base_tilt(q) < FALLEN_TILT).all() and (above_ground(q[:, :3], self._terrain) >= low).all())


def base_tilt(q: Array) -> Array:
    """Angle of a floating base from upright [rad], for configurations (n, nq)."""
    return np.array([tilt(each) for each in q[:, 3:7]])


def above_ground(points: Array, terrain: Terrain) -> Array:
    """Height of points (n, 3) above the terrain straight below them [m] (n).

    Each goes down by its distance to the terrain, again and again: no further than to the ground, and slowly only where that
    is steep.
    """
    below = points.copy()
    for _ in range(DROPS):
        distances, _ = terrain.query(below)
        below[:, 2] -= distances
        if np.abs(distances).max(initial=0.0) < LANDED:
            break
    return points[:, 2] - below[:, 2]
