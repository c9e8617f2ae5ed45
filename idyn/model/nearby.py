"""Bases far from the world's origin, as in UTM coordinates.

Pinocchio forms inertias and joint axes about the world's origin, so their rounding grows with the distance and its square. The
terms of a far base are therefore computed with the base at the origin. Forces, torques and velocities do not depend on its
position.
"""

from math import isfinite

from idyn.types import Array

FAR = 1000.0
"""Largest coordinate of a base at which terms are computed [m]."""


def nearby(q: Array) -> Array:
    """Return a configuration (nq) of a floating base: q itself, or with a coordinate beyond `FAR` a copy with the base at the
    origin. Coordinates that are not finite stay."""
    x, y, z = q[:3].tolist()
    if max(abs(x), abs(y), abs(z)) <= FAR or not isfinite(x + y + z):
        return q
    moved = q.copy()
    moved[:3] = 0.0
    return moved
