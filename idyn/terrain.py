"""The environment as a signed distance: what a foot sphere can touch."""

from typing import Protocol

import numpy as np

from idyn.compiled import compiled
from idyn.types import Array


class Terrain(Protocol):
    """Anything that can say how far points are from it."""

    def query(self, points: Array) -> tuple[Array, Array]:
        """Signed distance [m] (n) and outward unit normal (n, 3) of the surface nearest to `points` (n, 3)."""
        ...


class Flat:
    """The horizontal plane z = height [m]."""

    def __init__(self, height: float = 0.0) -> None:
        self.height = height

    def query(self, points: Array) -> tuple[Array, Array]:
        return _plane(points, self.height)


@compiled
def _plane(points: Array, height: float) -> tuple[Array, Array]:
    distances, normals = np.empty(len(points)), np.zeros((len(points), 3))
    for i in range(len(points)):
        distances[i] = points[i, 2] - height
        normals[i, 2] = 1.0
    return distances, normals
