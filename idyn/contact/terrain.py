"""The environment as a signed distance, and its friction: what a foot sphere can touch. Hills are in
`idyn.contact.heightmap`."""

from collections.abc import Callable
from functools import cache
from typing import Protocol

import numpy as np

from idyn.jit.compiled import MATRIX, REAL, VECTOR, compiled
from idyn.jit.entry import Borrowed, Output, entry_point
from idyn.types import Array

PATCHES = 256
"""A friction map repeats after so many patches in x and in y."""

AT_SURFACE = 1e-12
"""Nearer than this to a step the direction to its nearest point is no normal [m]."""


class FrictionMap:
    """Friction that changes from foothold to foothold: square patches of the plane, each with a μ drawn from U(low, high).

    patch: side of a patch [m]; the same seed gives the same patches.
    """

    def __init__(self, low: float, high: float, patch: float, seed: int) -> None:
        self._mu = np.random.default_rng(seed).uniform(low, high, (PATCHES, PATCHES))
        self._patch = patch

    def at(self, points: Array) -> Array:
        """μ at the x and y of `points` (n, 3), (n)."""
        i, j = np.floor(points[:, :2] / self._patch).astype(np.int64).T % PATCHES
        return self._mu[i, j]


class Terrain(Protocol):
    """Anything that can say how far points are from it.

    friction: the ground's friction coefficients; None where the robot's own hold
    """

    @property
    def friction(self) -> FrictionMap | None: ...

    def query(self, points: Array) -> tuple[Array, Array]:
        """Signed distance [m] (n) and outward unit normal (n, 3) of the surface nearest to `points` (n, 3)."""
        ...


class Flat:
    """The horizontal plane z = height [m]."""

    def __init__(self, height: float = 0.0, friction: FrictionMap | None = None) -> None:
        self.height = height
        self.friction = friction

    def query(self, points: Array) -> tuple[Array, Array]:
        distances, normals = room(points)
        _fill_plane()((np.ascontiguousarray(points, np.float64),), self.height, (distances, normals))
        return distances, normals


class Slope:
    """The plane z = height + x tan(angle): uphill along x, height [m] at the origin, angle [rad]."""

    def __init__(self, angle: float, height: float = 0.0, friction: FrictionMap | None = None) -> None:
        self.friction = friction
        self._normal = np.array([-np.sin(angle), 0.0, np.cos(angle)])
        self._origin = np.array([0.0, 0.0, height])

    def query(self, points: Array) -> tuple[Array, Array]:
        distances, normals = room(points)
        distances[:] = (points - self._origin) @ self._normal
        normals[:] = self._normal
        return distances, normals


class Stairs:
    """Steps up along x, the first riser at x = start [m], flat before it and after the last.

    depth, rise: of a step [m], > 0. In the corner where tread and riser meet, a sphere that touches both has one contact,
    with the nearer of them.
    """

    def __init__(
        self, start: float, depth: float, rise: float, steps: int, height: float = 0.0, friction: FrictionMap | None = None
    ) -> None:
        self.friction = friction
        self._shape = start, depth, rise, steps, height

    def query(self, points: Array) -> tuple[Array, Array]:
        distances, normals = room(points)
        _stairs(points, *self._shape, distances, normals)
        return distances, normals


def room(points: Array) -> tuple[Array, Array]:
    """For the distances and normals of points (n, 3), to be filled: an array that compiled code returns costs as much as ten
    that it fills."""
    return np.empty(len(points)), np.empty((len(points), 3))


@cache
def _fill_plane() -> Callable[..., None]:
    return entry_point(_plane, Borrowed(MATRIX), REAL, Output(VECTOR, MATRIX))


@compiled
def _plane(places: tuple[Array], height: float, out: tuple[Array, Array]) -> None:
    """Fill distances (n) and normals (n, 3) of points (n, 3) from z = height."""
    (points,), (distances, normals) = places, out
    for i in range(len(points)):
        distances[i] = points[i, 2] - height
        normals[i, 0], normals[i, 1], normals[i, 2] = 0.0, 0.0, 1.0


@compiled
def _stairs(
    points: Array, start: float, depth: float, rise: float, steps: int, height: float, distances: Array, normals: Array
) -> None:
    """Fill distances (n) and normals (n, 3) of points (n, 3) from the chain tread 0, riser 0, tread 1, … tread `steps`; the
    outer treads are endless."""
    for i in range(len(points)):
        normals[i, 1] = 0.0
        x, z = points[i, 0], points[i, 2]
        nearest, level = np.inf, height
        for k in range(steps + 1):
            edge, top = start + k * depth, height + k * rise
            tread_x = min(max(x, edge - depth if k > 0 else -np.inf), edge if k < steps else np.inf)
            if x >= edge and k < steps:
                level = top + rise
            # the nearest point of tread k and riser k
            for riser in range(2 if k < steps else 1):
                dx = x - (edge if riser else tread_x)
                dz = z - (min(max(z, top), top + rise) if riser else top)
                d = np.sqrt(dx * dx + dz * dz)
                if d < nearest:
                    nearest = d
                    away = d > AT_SURFACE
                    normals[i, 0] = dx / d if away else -float(riser)
                    normals[i, 2] = dz / d if away else 1.0 - riser
        # below the tread there: inside
        distances[i] = nearest
        if z < level and nearest > AT_SURFACE:
            distances[i] = -nearest
            normals[i] *= -1.0
