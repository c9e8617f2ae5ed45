"""Cubic paths that can be retargeted at any time: position and velocity are continuous, the acceleration steps  [ZD §7.2.1]."""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.jit.records import ArrayRecord, Cube, Matrix
from idyn.types import Array


class Cubics(ArrayRecord):
    """Paths of n points in d coordinates, one cubic per coordinate. A coordinate rests at the end of its cubic.

    c: coefficients of 1, s, s², s³, with s the time since `since` (n, d, 4)
    since, until: start and end of each cubic [s] (n, d)
    """

    c: Cube
    since: Matrix
    until: Matrix

    def __init__(self, points: Array) -> None:
        """Start at rest at `points` (n, d)."""
        c = np.zeros((*points.shape, 4))
        c[..., 0] = points
        self.put(c=c, since=np.zeros(points.shape), until=np.zeros(points.shape))

    def rest(self, points: Array) -> None:
        """Set all points to rest at the positions `points` (n, d)."""
        self.c[...], self.since[:], self.until[:] = 0.0, 0.0, 0.0
        self.c[..., 0] = points


@compiled
def at(cubics: Cubics, i: int, k: int, t: float) -> tuple[float, float, float]:
    """Return position, velocity and acceleration (from the right) of coordinate k of point i at time t [s]."""
    c, until = cubics.c[i, k], cubics.until[i, k]
    s = min(t, until) - cubics.since[i, k]
    p = c[0] + s * (c[1] + s * (c[2] + s * c[3]))
    if t >= until:
        return p, 0.0, 0.0
    return p, c[1] + s * (2 * c[2] + s * 3 * c[3]), 2 * c[2] + s * 6 * c[3]


@compiled
def stop(cubics: Cubics, i: int, k: int, t: float) -> None:
    """Stop the coordinate at its position at time t [s]."""
    p, _, _ = at(cubics, i, k, t)
    cubics.c[i, k] = 0.0
    cubics.c[i, k, 0] = p
    cubics.since[i, k] = cubics.until[i, k] = t


@compiled
def aim(cubics: Cubics, i: int, k: int, t: float, until: float, goal: float, velocity: float) -> None:
    """Start a cubic at time t from the current position and velocity to `goal` with `velocity` at time `until` [s].

    Does nothing if `until` ≤ t.
    """
    if until <= t:
        return
    c, T = cubics.c[i, k], until - t
    p, v, _ = at(cubics, i, k, t)
    distance = goal - p
    # x(T) = goal, ẋ(T) = velocity
    c[0], c[1] = p, v
    c[2] = (3 * distance / T - 2 * v - velocity) / T
    c[3] = (-2 * distance / T + v + velocity) / (T * T)
    cubics.since[i, k], cubics.until[i, k] = t, until
