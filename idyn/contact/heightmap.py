"""Hilly terrain: a C² spline through heights on a grid, with exact distances and normals  [ZD §7.5].

The map of the paper: 3 m square, resolution 2 cm, 1000 Gaussian hills of variance 0.005 m² ± 50 %, bumps up to 3 cm.
"""

import numpy as np
from scipy.ndimage import spline_filter

from idyn.contact.terrain import FrictionMap, empty_distances
from idyn.jit.compiled import compiled
from idyn.types import Array

MAX_STEPS = 50
"""Maximum number of Newton steps for a nearest point. Usual: 3 to 5 within a centimetre of the ground."""

CONVERGED = 1e-14
"""Newton's method ends when a step is shorter than this [m]."""


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


@compiled
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


@compiled
def _heights(points: Array, coefficients: Array, resolution: float) -> Array:
    """Return the heights at the x and y of points (n, 3) [m] (n)."""
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
