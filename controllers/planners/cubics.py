"""Cubics that are aimed anew on the way: position and velocity go on, the acceleration steps  [ZD §7.2.1]."""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.jit.records import ArrayRecord, Cube, Matrix
from idyn.types import Array


class Cubics(ArrayRecord):
    """The ways of n points, one cubic for each coordinate; at rest where it ends once its time is over.

    c: coefficients of 1, s, s², s³, with s the time since `since` (n, d, 4); since, until: [s] (n, d)
    """

    c: Cube
    since: Matrix
    until: Matrix

    def __init__(self, points: Array) -> None:
        """At rest at `points` (n, d)."""
        c = np.zeros((*points.shape, 4))
        c[..., 0] = points
        self.put(c=c, since=np.zeros(points.shape), until=np.zeros(points.shape))

    def rest(self, points: Array) -> None:
        """At rest at `points` (n, d), whatever was before."""
        self.c[...], self.since[:], self.until[:] = 0.0, 0.0, 0.0
        self.c[..., 0] = points


@compiled
def at(cubics: Cubics, i: int, k: int, t: float) -> tuple[float, float, float]:
    """Position, velocity and acceleration of coordinate k of point i at time t [s], the latter of the time just after."""
    c, until = cubics.c[i, k], cubics.until[i, k]
    s = min(t, until) - cubics.since[i, k]
    p = c[0] + s * (c[1] + s * (c[2] + s * c[3]))
    if t >= until:
        return p, 0.0, 0.0
    return p, c[1] + s * (2 * c[2] + s * 3 * c[3]), 2 * c[2] + s * 6 * c[3]


@compiled
def stop(cubics: Cubics, i: int, k: int, t: float) -> None:
    """It stays where it is at t [s]."""
    p, _, _ = at(cubics, i, k, t)
    cubics.c[i, k] = 0.0
    cubics.c[i, k, 0] = p
    cubics.since[i, k] = cubics.until[i, k] = t


@compiled
def aim(cubics: Cubics, i: int, k: int, t: float, until: float, goal: float, velocity: float) -> None:
    """From where it is at t, it is to be at `goal` with `velocity` at `until` [s]; too late, nothing changes."""
    if until <= t:
        return
    c, T = cubics.c[i, k], until - t
    p, v, _ = at(cubics, i, k, t)
    way = goal - p
    c[0], c[1] = p, v
    c[2] = (3 * way / T - 2 * v - velocity) / T
    c[3] = (-2 * way / T + v + velocity) / (T * T)
    cubics.since[i, k], cubics.until[i, k] = t, until
