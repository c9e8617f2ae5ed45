"""The ground as a height field with grid lines."""

import numpy as np

from controllers.contact.source import ContactSettings
from controllers.contact.terrain import SlopeSettings, StairsSettings
from idyn.contact.heightmap import Heightmap
from idyn.types import Array, Record

LINES = 0.05
"""Spacing of the grid lines [m]."""

AROUND = 0.8
"""Distance to which the ground is drawn beyond the path of the robot [m]."""


class Ground(Record, frozen=True):
    """A height field: z[i, j] is the height at x[i], y[j] [m]. A riser of stairs has two equal x: lower and upper edge."""

    x: Array
    y: Array
    z: Array


def ground_of(contact: ContactSettings, path: Array) -> Ground:
    """Return the ground that a controller's settings describe, around a path [m] (n, 3)."""
    low = np.floor((path[:, :2].min(axis=0) - AROUND) / LINES)
    high = np.ceil((path[:, :2].max(axis=0) + AROUND) / LINES)
    x, y = (np.arange(low[i], high[i] + 1) * LINES for i in range(2))
    if isinstance(shape := contact.terrain.world, StairsSettings):
        return _stairs(shape, contact.ground, x, y)
    return Ground(x=x, y=y, z=_heights(contact, x, y))


def _heights(contact: ContactSettings, x: Array, y: Array) -> Array:
    shape = contact.terrain.world
    terrain = shape.build(contact.ground)
    if isinstance(terrain, Heightmap):
        xs, ys = np.meshgrid(x, y, indexing="ij")
        points = np.stack([xs.ravel(), ys.ravel(), np.zeros(xs.size)], axis=1)
        return terrain.height(points).reshape(xs.shape)
    if not isinstance(shape, SlopeSettings):
        return np.full((len(x), len(y)), contact.ground)
    rise, towards = np.tan(shape.angle), shape.direction
    return contact.ground + rise * (np.cos(towards) * x[:, None] + np.sin(towards) * y)


def _stairs(s: StairsSettings, ground: float, x: Array, y: Array) -> Ground:
    """Return the ground of stairs; each riser adds two lines to `x`, its lower and its upper edge."""
    risers = s.start + s.depth * np.arange(s.steps)
    inside = risers[(risers > x[0]) & (risers < x[-1])]
    plain = x[np.abs(x[:, None] - risers).min(axis=1) > 1e-9]
    steps = (plain[:, None] > risers).sum(axis=1)
    climbed = (inside[:, None] > risers + 1e-9).sum(axis=1)
    lines = np.concatenate([plain, inside, inside])
    levels = np.concatenate([steps, climbed, climbed + 1])
    order = np.lexsort((levels, lines))
    heights = ground + s.rise * levels[order]
    return Ground(x=lines[order], y=y, z=np.repeat(heights[:, None], len(y), axis=1))
