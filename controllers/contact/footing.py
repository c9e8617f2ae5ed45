"""Footholds on known ground, away from edges."""

import numpy as np

from idyn.contact.terrain import Terrain, heights_below
from idyn.types import Array

MARGIN = 0.03
"""Distance from an edge at which a foothold is safe [m]."""

EDGE = 0.01
"""Bend of the ground within the margin that counts as an edge: |h(−) − 2 h(0) + h(+)| [m]. It is 0 on every slope."""

FARTHEST, RINGS, RAYS = 0.1, 5, 8
"""Search for a foothold: largest displacement [m], number of circles, and of places on each."""

HABIT = 0.5
"""Cost of a change of the displacement since the last search, relative to that of a displacement."""

AROUND = MARGIN * np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7], [0.7, -0.7]])
"""From a foothold to one half of its surroundings; the other half is opposite [m]."""


def safe_shifts(terrain: Terrain, wanted: Array, last: Array) -> Array:
    """Return displacements of footholds from their wanted places [m] (n, 2).

    A displacement is the smallest one that leads away from edges; 0 where there is none.
    wanted: places in the plane [m] (n, 2); last: displacements of the last search (n, 2)
    """
    shifts = np.empty(wanted.shape)
    for i, place in enumerate(wanted):
        near = place + CANDIDATES
        around = np.concatenate([near[:, None], near[:, None] + AROUND, near[:, None] - AROUND], axis=1)
        h = heights_at(terrain, around.reshape(-1, 2)).reshape(len(near), -1)
        half = len(AROUND) + 1
        bends = np.abs(h[:, 1:half] + h[:, half:] - 2.0 * h[:, :1]).max(axis=1)
        cost = np.hypot(*CANDIDATES.T) + HABIT * np.hypot(*(CANDIDATES - last[i]).T)
        best = int(np.argmin(np.where(bends < EDGE, cost, np.inf))) if bends.min() < EDGE else 0
        shifts[i] = CANDIDATES[best]
    return shifts


def heights_at(terrain: Terrain, places: Array) -> Array:
    """Return the heights of the ground at places in the plane (n, 2) [m] (n)."""
    return heights_below(terrain, np.column_stack([places, np.full(len(places), HIGH)]))


def _candidates() -> Array:
    """Return displacements of footholds, in circles about none (n, 2)."""
    angles = 2.0 * np.pi * np.arange(RAYS) / RAYS
    rings = FARTHEST * np.arange(1, RINGS + 1) / RINGS
    circles = rings[:, None, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    places: Array = np.concatenate([np.zeros((1, 2)), circles.reshape(-1, 2)])
    return places


CANDIDATES = _candidates()

HIGH = 10.0
"""Height from which the ground is searched [m]."""
