"""Cubics that are aimed anew on the way: position and velocity go on, the acceleration steps  [ZD §7.2.1]."""

import numpy as np

from idyn.compiled import compiled
from idyn.types import Array


class Cubics:
    """n curves in d dimensions, one cubic each; at rest where it ends once its time is over."""

    def __init__(self, points: Array) -> None:
        """At rest at `points` (n, d)."""
        n, d = points.shape
        self._c = np.zeros((n, 4, d))
        self._c[:, 0] = points
        self._since, self._until = np.zeros(n), np.zeros(n)

    def at(self, t: float) -> tuple[Array, Array, Array]:
        """Points, velocities and accelerations at time t [s], the latter of the time just after (n, d)."""
        return _at(self._c, self._since, self._until, t)

    def stop(self, i: int, t: float) -> None:
        """Curve i stays where it is at t [s]."""
        point = _at(self._c[i : i + 1], self._since[i : i + 1], self._until[i : i + 1], t)[0][0]
        self._c[i] = 0.0
        self._c[i, 0] = point
        self._since[i] = self._until[i] = t

    def aim(self, i: int, t: float, until: float, goal: Array, velocity: Array) -> None:
        """Curve i, from where it is at t, is to be at `goal` with `velocity` at `until` [s] (d); too late, nothing changes."""
        if until > t:
            _aim(self._c[i], self._since[i], self._until[i], t, until, goal, velocity)
            self._since[i], self._until[i] = t, until


@compiled
def _at(coefficients, since, until, t):
    n, _, d = coefficients.shape
    p, v, a = np.zeros((n, d)), np.zeros((n, d)), np.zeros((n, d))
    for i in range(n):
        c, over = coefficients[i], t >= until[i]
        s = min(t, until[i]) - since[i]
        for k in range(d):
            p[i, k] = c[0, k] + s * (c[1, k] + s * (c[2, k] + s * c[3, k]))
            if not over:
                v[i, k] = c[1, k] + s * (2 * c[2, k] + s * 3 * c[3, k])
                a[i, k] = 2 * c[2, k] + s * 6 * c[3, k]
    return p, v, a


@compiled
def _aim(c, since, before, t, until, goal, velocity):
    """The cubic from its point and velocity at t to those at `until`."""
    s, T = min(t, before) - since, until - t
    for k in range(len(goal)):
        p = c[0, k] + s * (c[1, k] + s * (c[2, k] + s * c[3, k]))
        v = c[1, k] + s * (2 * c[2, k] + s * 3 * c[3, k]) if t < before else 0.0
        way = goal[k] - p
        c[0, k], c[1, k] = p, v
        c[2, k] = (3 * way / T - 2 * v - velocity[k]) / T
        c[3, k] = (-2 * way / T + v + velocity[k]) / (T * T)
