"""The ground as a plane whose slope a gait estimates from its standing feet."""

import numpy as np

from idyn.contact.terrain import FrictionMap, Slope
from idyn.types import Array


class StandingPlane(Slope):
    """A plane through a fixed point whose slope changes. Only its normals are meaningful: where it is, the feet tell."""

    def __init__(self, height: float = 0.0, friction: FrictionMap | None = None) -> None:
        super().__init__(0.0, height, friction)

    def tilt(self, gradient: Array) -> None:
        """Set the gradient of the plane, world frame (2)."""
        self._normal[:] = -gradient[0], -gradient[1], 1.0
        self._normal /= np.linalg.norm(self._normal)
