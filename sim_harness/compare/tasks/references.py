"""References of the compared task controllers: positions with their velocities and accelerations, one row per tick.

All references are of class C²: they begin with a polynomial of fifth degree.
"""

from typing import NamedTuple

import numpy as np

from idyn.types import Array


class Curve(NamedTuple):
    """A function of n times, with its first and second derivative: each (n), or (n, 3) for a point in the world [m]."""

    x: Array
    v: Array
    a: Array

    def __add__(self, other: "Curve | Array") -> "Curve":  # type: ignore[override]
        """Return the sum of two curves, or the curve moved by a constant offset (3)."""
        if isinstance(other, Curve):
            return Curve(self.x + other.x, self.v + other.v, self.a + other.a)
        return Curve(self.x + other, self.v, self.a)

    def along(self, direction: Array) -> "Curve":
        """Return the curve of a point that moves along a direction (3) by the values of this function."""
        return Curve(*(np.multiply.outer(each, direction) for each in self))


def ramp(t: Array) -> Curve:
    """Return a polynomial of fifth degree, 0 for t ≤ 0 and 1 for t ≥ 1 s, with zero slope and curvature at both ends."""
    s = np.clip(t, 0.0, 1.0)
    return Curve(
        s**3 * (10.0 - 15.0 * s + 6.0 * s**2),
        30.0 * s**2 * (1.0 - s) ** 2,
        60.0 * s * (1.0 - s) * (1.0 - 2.0 * s),
    )


def circle(t: Array, radius: float, frequency: float, axes: tuple[int, int]) -> Curve:
    """Return a circle in the plane of two world axes, whose radius grows from 0 between t = 0 and 1 s."""
    w = 2.0 * np.pi * frequency
    r, turn = ramp(t), np.exp(1j * w * t)
    # z = r e^{iωt}, ż = (ṙ + iω r) e^{iωt}, z̈ = (r̈ + 2iω ṙ − ω² r) e^{iωt}
    parts = (r.x * turn, (r.v + 1j * w * r.x) * turn, (r.a + 2j * w * r.v - w**2 * r.x) * turn)
    first, second = np.eye(3)[list(axes)]
    return Curve(*(radius * (np.outer(z.real, first) + np.outer(z.imag, second)) for z in parts))
