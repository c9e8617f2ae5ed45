"""Terrains: signed distance and friction of the environment."""

from math import cos, sin
from typing import Protocol

import numpy as np

from idyn.library.kernels import compiled, entry
from idyn.library.records import Cube, Matrix, Vector, written
from idyn.solvers.linalg import scale
from idyn.types import Array

PATCHES = 256  # number of patches in x and in y after which a friction map repeats
AT_SURFACE = 1e-12  # at smaller distances to a step [m] the direction to the nearest point is too inaccurate to define a normal


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


Plane = tuple[float, float, float, float]
"""Unit normal n of a plane and its distance n · x from the origin [m]."""


class Planar:
    """Terrains that are one plane, which kernels read."""

    friction: FrictionMap | None
    plane: Plane

    def query(self, points: Array) -> tuple[Array, Array]:
        """Return signed distance [m] (n) and normal (n, 3) of the plane for points (n, 3)."""
        distances, normals = empty_distances(points)
        _query_plane(np.ascontiguousarray(points, np.float64), self.plane, (distances, normals))
        return distances, normals


class Flat(Planar):
    """The horizontal plane z = height [m]."""

    def __init__(self, height: float = 0.0, friction: FrictionMap | None = None) -> None:
        self.height, self.friction, self.plane = height, friction, (0.0, 0.0, 1.0, float(height))


class Slope(Planar):
    """The plane z = height + (x cos(direction) + y sin(direction)) tan(angle). height: at the origin [m]; angle: inclination
    [rad]; direction: from the x axis to the one in which it rises [rad]"""

    def __init__(self, angle: float, height: float = 0.0, friction: FrictionMap | None = None, direction: float = 0.0) -> None:
        c, s = (cos(direction), sin(direction)) if direction else (1.0, 0.0)
        self.friction, self.plane = friction, (-sin(angle) * c, -sin(angle) * s, cos(angle), cos(angle) * height)


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


class Boxes:
    """Level ground with boxes along the axes of the world, such as walls and tables.

    boxes: least and largest x, y, z of each [m] (k, 2, 3); height: of the ground [m]. What stands on it has no lower side
    A sphere that touches several of these surfaces at the same time has one contact only, with the nearest.
    """

    def __init__(self, boxes: Array, height: float = 0.0, friction: FrictionMap | None = None) -> None:
        self.friction, self._boxes, self._ground = friction, np.array(boxes, np.float64).reshape(-1, 2, 3), height
        self._boxes[self._boxes[:, 0, 2] <= height, 0, 2] = -np.inf

    def query(self, points: Array) -> tuple[Array, Array]:
        distances, normals = empty_distances(points)
        _query_boxes(points, self._boxes, self._ground, (distances, normals))
        return distances, normals

    def height(self, points: Array) -> Array:
        """Return the height of the surface at the x and y of `points` (n, 3) [m] (n)."""
        least, largest = self._boxes[:, None, 0], self._boxes[:, None, 1]
        inside = ((least[..., :2] <= points[:, :2]) & (points[:, :2] <= largest[..., :2])).all(axis=2)
        heights: Array = np.where(inside, largest[..., 2], self._ground).max(axis=0, initial=self._ground)
        return heights


DROPS, LANDED = 20, 1e-6  # search for the ground below a point: largest number of iterations, tolerance [m]


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


@entry(Matrix, Cube, float, written((Vector, Matrix)))
def _query_boxes(points: Array, boxes: Array, height: float, out: tuple[Array, Array]) -> None:
    """Fill distances (n) and normals (n, 3) of level ground with boxes for points (n, 3): outside a box to its nearest point,
    inside to its nearest side."""
    distances, normals = out
    for i in range(len(points)):
        distances[i], normals[i, 0], normals[i, 1], normals[i, 2] = points[i, 2] - height, 0.0, 0.0, 1.0
        for k in range(len(boxes)):
            square, inner, side = 0.0, -np.inf, 0
            for a in range(3):
                beyond = max(boxes[k, 0, a] - points[i, a], points[i, a] - boxes[k, 1, a])
                square += max(beyond, 0.0) ** 2
                if beyond > inner:
                    inner, side = beyond, a
            outside = square > AT_SURFACE * AT_SURFACE
            distance = np.sqrt(square) if outside else inner
            if distance < distances[i]:
                distances[i] = distance
                for a in range(3):
                    beyond = max(boxes[k, 0, a] - points[i, a], points[i, a] - boxes[k, 1, a])
                    length = max(beyond, 0.0) / distance if outside else 1.0 if a == side else 0.0
                    normals[i, a] = length if 2.0 * points[i, a] > boxes[k, 0, a] + boxes[k, 1, a] else -length


@entry(Matrix, (float,) * 4, written((Vector, Matrix)))
def _query_plane(points: Array, plane: Plane, out: tuple[Array, Array]) -> None:
    """Fill distances (n) and normals (n, 3) of a plane for points (n, 3)."""
    (x, y, z, offset), (distances, normals) = plane, out
    for i in range(len(points)):
        distances[i] = points[i, 0] * x + points[i, 1] * y + points[i, 2] * z - offset
        normals[i, 0], normals[i, 1], normals[i, 2] = x, y, z


@entry(Matrix, float, float, float, int, float, written(Vector), written(Matrix))
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
            scale(-1.0, normals[i])


MAX_STEPS = 50  # maximum number of Newton steps for a nearest point. Usual: 3 to 5 within a centimetre of the ground
CONVERGED = 1e-14  # the method of Newton ends when a step is shorter than this [m]


class Heightmap:
    """The surface z = height(x, y), from heights on a square grid about the origin.

    Bicubic spline with mirror ends, twice differentiable also across the border; outside the border the surface continues with
    constant height along the border's normal. Newton's method for the nearest point starts vertically below or above the query
    point. Its result is the global nearest point if the distance is less than the smallest radius of curvature (hills of the
    paper: 15 cm).
    """

    def __init__(self, heights: Array, resolution: float, friction: FrictionMap | None = None) -> None:
        """heights: first index along x [m] (k, k); resolution: distance of the grid lines [m]"""
        self.friction = friction
        from scipy.ndimage import spline_filter  # noqa: PLC0415 - loads SciPy's images, 0.1 s

        self._coefficients = spline_filter(heights, mode="mirror")
        self._resolution = resolution

    def query(self, points: Array) -> tuple[Array, Array]:
        distances, normals = empty_distances(points)
        _query(points, self._coefficients, self._resolution, distances, normals)
        return distances, normals

    def height(self, points: Array) -> Array:
        """Return the height of the surface at the x and y of `points` (n, 3) [m] (n)."""
        return _heights(points, self._coefficients, self._resolution)


def hills(*, side: float, resolution: float, count: int, height: float, variance: float, spread: float, seed: int) -> Array:
    """Return heights on a grid [m] (k, k): `count` random Gaussian hills, scaled to the range 0 to `height` [m].

    side: side of the square [m]; resolution: distance of the grid lines [m]
    variance: mean variance of a hill [m²]; spread: its relative deviation ±; seed: equal seeds give equal hills
    """
    rng = np.random.default_rng(seed)
    lines = np.linspace(-side / 2, side / 2, round(side / resolution) + 1)
    x, y = rng.uniform(-side / 2, side / 2, (2, count))
    tops = rng.uniform(0.0, 1.0, count)
    variances = variance * rng.uniform(1 - spread, 1 + spread, count)
    along_x = np.exp(-((lines[:, None] - x) ** 2) / (2 * variances))
    along_y = np.exp(-((lines[:, None] - y) ** 2) / (2 * variances))
    total = (along_x * tops) @ along_y.T
    return height * (total - total.min()) / (total.max() - total.min())


@entry(Matrix, Matrix, float, written(Vector), written(Matrix))
def _query(points: Array, coefficients: Array, resolution: float, distances: Array, normals: Array) -> None:
    """Fill distances (n) and normals (n, 3) of the surface from points (n, 3).

    Minimise ½ (x − cx)² + ½ (y − cy)² + ½ (z(x, y) − cz)² by Newton steps, or Gauss–Newton steps where this is not convex.
    """
    for i in range(len(points)):
        cx, cy, cz = points[i, 0], points[i, 1], points[i, 2]
        x, y = cx, cy
        z, zx, zy, zxx, zxy, zyy = _surface(x, y, coefficients, resolution)
        for _ in range(MAX_STEPS):
            # gradient and Hessian [a, b; b, d]; step = −Hessian⁻¹ gradient
            up = z - cz
            gx, gy = x - cx + up * zx, y - cy + up * zy
            a, b, d = 1.0 + zx * zx, zx * zy, 1.0 + zy * zy
            if (a + up * zxx) > 0.0 and (a + up * zxx) * (d + up * zyy) - (b + up * zxy) ** 2 > 0.0:
                a, b, d = a + up * zxx, b + up * zxy, d + up * zyy
            det = a * d - b * b
            step_x, step_y = (b * gy - d * gx) / det, (b * gx - a * gy) / det
            x, y = x + step_x, y + step_y
            z, zx, zy, zxx, zxy, zyy = _surface(x, y, coefficients, resolution)
            if step_x * step_x + step_y * step_y < CONVERGED * CONVERGED:
                break
        # n = (−z_x, −z_y, 1)/‖…‖, distance = n · (c − nearest point)
        length = np.sqrt(1.0 + zx * zx + zy * zy)
        normals[i, 0], normals[i, 1], normals[i, 2] = -zx / length, -zy / length, 1.0 / length
        distances[i] = ((cx - x) * -zx + (cy - y) * -zy + (cz - z)) / length


@entry(Matrix, Matrix, float)
def _heights(points: Array, coefficients: Array, resolution: float) -> Array:
    z = np.empty(len(points))
    for i in range(len(points)):
        z[i] = _surface(points[i, 0], points[i, 1], coefficients, resolution)[0]
    return z


@compiled
def _surface(x: float, y: float, coefficients: Array, resolution: float) -> tuple[float, float, float, float, float, float]:
    """Return z and its derivatives z_x, z_y, z_xx, z_xy, z_yy: sums over 4 × 4 cubic B-splines."""
    k = coefficients.shape[0]
    wx, ix, inside_x = _weights(x / resolution + 0.5 * (k - 1), k)
    wy, iy, inside_y = _weights(y / resolution + 0.5 * (k - 1), k)
    # Σ c_ab B_a^(d)(x) B_b^(e)(y), derivatives d and e
    sums = np.zeros((3, 3))
    for a in range(4):
        for b in range(4):
            c = coefficients[_mirror(ix + a, k), _mirror(iy + b, k)]
            for d in range(3):
                for e in range(3 - d):
                    sums[d, e] += wx[d, a] * wy[e, b] * c
    # chain rule; zero derivative along the border's normal outside
    sx, sy = inside_x / resolution, inside_y / resolution
    return sums[0, 0], sums[1, 0] * sx, sums[0, 1] * sy, sums[2, 0] * sx * sx, sums[1, 1] * sx * sy, sums[0, 2] * sy * sy


@compiled
def _weights(s: float, k: int) -> tuple[Array, int, float]:
    """Return the four non-zero cubic B-splines and their first two derivatives at grid coordinate s (3, 4), the index of the
    first spline, and a factor for derivatives: 0 outside the border, else 1."""
    inside = 1.0 if 0.0 <= s <= k - 1.0 else 0.0
    s = min(max(s, 0.0), k - 1.0)
    first = min(int(s), k - 2)
    t = s - first
    w = np.empty((3, 4))
    w[0, 0], w[0, 3] = (1 - t) ** 3 / 6, t**3 / 6
    w[0, 1], w[0, 2] = (3 * t**3 - 6 * t * t + 4) / 6, (3 * (1 - t) ** 3 - 6 * (1 - t) ** 2 + 4) / 6
    w[1, 0], w[1, 1], w[1, 2], w[1, 3] = -0.5 * (1 - t) ** 2, 1.5 * t * t - 2 * t, -1.5 * t * t + t + 0.5, 0.5 * t * t
    w[2, 0], w[2, 1], w[2, 2], w[2, 3] = 1 - t, 3 * t - 2, 1 - 3 * t, t
    return w, first - 1, inside


@compiled
def _mirror(i: int, k: int) -> int:
    """Return the index of a coefficient, mirrored at the ends 0 and k − 1."""
    return -i if i < 0 else 2 * (k - 1) - i if i >= k else i
