"""The ground as a plane whose slope a gait estimates from its standing feet."""

import numpy as np

from idyn.contact.terrain import FrictionMap, empty_distances
from idyn.types import Array


class StandingPlane:
    """A plane through a fixed point, level until a gait gives it its gradient. Only its normals are meaningful: where it is,
    the feet tell.

    gradient: of its height, world frame (2); the gait that owns the array changes it
    """

    def __init__(self, height: float = 0.0, friction: FrictionMap | None = None) -> None:
        self.friction, self.gradient = friction, np.zeros(2)
        self._origin = np.array([0.0, 0.0, height])

    def query(self, points: Array) -> tuple[Array, Array]:
        """Return signed distance [m] (n) and normal (n, 3) of the plane for points (n, 3)."""
        distances, normals = empty_distances(points)
        normal = np.array([-self.gradient[0], -self.gradient[1], 1.0])
        normal /= np.linalg.norm(normal)
        distances[:] = (points - self._origin) @ normal
        normals[:] = normal
        return distances, normals
