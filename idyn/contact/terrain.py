"""Terrains: signed distance and friction of the environment. Hilly terrain: `idyn.contact.heightmap`."""

from collections.abc import Callable
from functools import cache
from typing import Protocol

import numpy as np

from idyn.jit.compiled import MATRIX, REAL, VECTOR, compiled
from idyn.jit.entry import Borrowed, Output, entry_point
from idyn.types import Array

PATCHES = 256
"""Number of patches in x and in y after which a friction map repeats."""

AT_SURFACE = 1e-12
"""At smaller distances to a step [m] the direction to the nearest point is too inaccurate to define a normal."""


class FrictionMap:
    """Friction that varies over the plane: square patches, each with a μ drawn from U(low, high).

    patch: side of a patch [m]; seed: equal seeds give equal patches
    """

    def __init__(self, low: float, high: float, patch: float, seed: int) -> None:
        self._mu = np.random.default_rng(seed).uniform(low, high, (PATCHES, PATCHES))
        self._patch = patch

    def at(self, points: Array) -> Array:
        """Return μ at the x and y of `points` (n, 3), (n)."""
        i, j = np.floor(points[:, :2] / self._patch).astype(np.int64).T % PATCHES
        return self._mu[i, j]


class Terrain(Protocol):
    """Interface of terrains.

    friction: friction coefficients of the ground; None: those of the robot's contact places apply
    """

    @property
    def friction(self) -> FrictionMap | None: ...

    def query(self, points: Array) -> tuple[Array, Array]:
        """Return signed distance [m] (n) and outward unit normal (n, 3) of the surface for `points` (n, 3)."""
        ...


class Flat:
    """The horizontal plane z = height [m]."""

    def __init__(self, height: float = 0.0, friction: FrictionMap | None = None) -> None:
        self.height = height
        self.friction = friction

    def query(self, points: Array) -> tuple[Array, Array]:
        distances, normals = empty_distances(points)
        _fill_plane()((np.ascontiguousarray(points, np.float64),), self.height, (distances, normals))
        return distances, normals


class Slope:
    """The plane z = height + (x cos(direction) + y sin(direction)) tan(angle). height: at the origin [m]; angle: inclination
    [rad]; direction: from the x axis to the one in which it rises [rad]"""

    def __init__(self, angle: float, height: float = 0.0, friction: FrictionMap | None = None, direction: float = 0.0) -> None:
        self.friction = friction
        c, s = (np.cos(direction), np.sin(direction)) if direction else (1.0, 0.0)
        self._normal = np.array([-np.sin(angle) * c, -np.sin(angle) * s, np.cos(angle)])
        self._origin = np.array([0.0, 0.0, height])

    def query(self, points: Array) -> tuple[Array, Array]:
        distances, normals = empty_distances(points)
        distances[:] = (points - self._origin) @ self._normal
        normals[:] = self._normal
        return distances, normals


class Stairs:
    """Stairs up along x: the first riser at x = start [m], flat before it and after the last one.

    depth, rise: of a step [m], > 0; steps: number of steps; height: before the first step [m]
    A sphere that touches a tread and a riser at the same time has one contact only, with the nearer of the two.
    """

    def __init__(
        self, start: float, depth: float, rise: float, steps: int, height: float = 0.0, friction: FrictionMap | None = None
    ) -> None:
        self.friction = friction
        self._shape = start, depth, rise, steps, height

    def query(self, points: Array) -> tuple[Array, Array]:
        distances, normals = empty_distances(points)
        _stairs(points, *self._shape, distances, normals)
        return distances, normals

    def height(self, points: Array) -> Array:
        """Return the height of the surface at the x and y of `points` (n, 3) [m] (n)."""
        start, depth, rise, steps, height = self._shape
        heights: Array = height + rise * np.clip(np.floor((points[:, 0] - start) / depth) + 1.0, 0.0, steps)
        return heights


DROPS, LANDED = 20, 1e-6
"""Search for the ground below a point: largest number of iterations, tolerance [m]."""


def heights_below(terrain: Terrain, points: Array) -> Array:
    """Return the height of the ground vertically below points (n, 3) above it [m] (n).

    A terrain with a method `height` (n, 3) → (n) knows it. Otherwise points move vertically by their distance to the ground
    over the vertical part of its normal: exact for a plane in one step.
    """
    known = getattr(terrain, "height", None)
    if callable(known):
        heights: Array = known(points)
        return heights
    below = points.copy()
    for _ in range(DROPS):
        distances, normals = terrain.query(below)
        below[:, 2] -= distances / np.maximum(normals[:, 2], 0.1)
        if np.abs(distances).max(initial=0.0) < LANDED:
            break
    return below[:, 2]


def empty_distances(points: Array) -> tuple[Array, Array]:
    """Return uninitialised arrays for distances (n) and normals (n, 3), to be filled by compiled code: filling an array costs a
    tenth of returning one."""
    return np.empty(len(points)), np.empty((len(points), 3))


@cache
def _fill_plane() -> Callable[..., None]:
    return entry_point(_plane, Borrowed(MATRIX), REAL, Output(VECTOR, MATRIX))


@compiled
def _plane(places: tuple[Array], height: float, out: tuple[Array, Array]) -> None:
    """Fill distances (n) and normals (n, 3) of the plane z = height for points (n, 3)."""
    (points,), (distances, normals) = places, out
    for i in range(len(points)):
        distances[i] = points[i, 2] - height
        normals[i, 0], normals[i, 1], normals[i, 2] = 0.0, 0.0, 1.0


@compiled
def _stairs(
    points: Array, start: float, depth: float, rise: float, steps: int, height: float, distances: Array, normals: Array
) -> None:
    """Fill distances (n) and normals (n, 3) of stairs for points (n, 3). The surface consists of tread 0, riser 0, tread 1, …,
    tread `steps`; the first and the last tread are infinite."""
    for i in range(len(points)):
        normals[i, 1] = 0.0
        x, z = points[i, 0], points[i, 2]
        nearest, level = np.inf, height
        for k in range(steps + 1):
            edge, top = start + k * depth, height + k * rise
            tread_x = min(max(x, edge - depth if k > 0 else -np.inf), edge if k < steps else np.inf)
            if x >= edge and k < steps:
                level = top + rise
            # nearest point of tread k and riser k
            for riser in range(2 if k < steps else 1):
                dx = x - (edge if riser else tread_x)
                dz = z - (min(max(z, top), top + rise) if riser else top)
                d = np.sqrt(dx * dx + dz * dz)
                if d < nearest:
                    nearest = d
                    away = d > AT_SURFACE
                    normals[i, 0] = dx / d if away else -float(riser)
                    normals[i, 2] = dz / d if away else 1.0 - riser
        # below the tread at x: inside
        distances[i] = nearest
        if z < level and nearest > AT_SURFACE:
            distances[i] = -nearest
            normals[i] *= -1.0
