"""The environment as a signed distance: what a foot sphere can touch."""

from typing import Protocol

import numpy as np

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
        normals = np.zeros((len(points), 3))
        normals[:, 2] = 1.0
        return points[:, 2] - self.height, normals
