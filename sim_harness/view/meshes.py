"""Triangle meshes for the eye: as few triangles as keep the shape recognisable."""

import numpy as np

from idyn.types import Array, Record

CELL = 0.0005
"""Edge of the cells in which `thinned` first merges vertices [m]: finer than a screen shows."""


class Mesh(Record, frozen=True):
    """vertices in the frame of the shape [m] (n, 3); triangles: rows of `vertices`, anticlockwise seen from outside (m, 3)"""

    vertices: Array
    triangles: Array


def thinned(mesh: Mesh, most: int) -> Mesh:
    """The mesh with its vertices merged cell by cell of a cubic grid, the finest that leaves `most` triangles at most.

    No vertex moves further than the diagonal of a cell.
    """
    cell, thin = CELL, mesh
    while len(thin.triangles) > most:
        thin = _merged(mesh, cell)
        cell *= 1.3
    return thin


def _merged(mesh: Mesh, cell: float) -> Mesh:
    """All vertices of a cell become their mean; triangles that have lost a corner go, and so do repeated ones."""
    cells = np.floor(mesh.vertices / cell).astype(np.int64)
    _, place, count = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    place = place.reshape(-1)
    vertices = np.stack([np.bincount(place, weights=mesh.vertices[:, i]) / count for i in range(3)], axis=1)
    triangles = place[mesh.triangles]
    whole = (triangles != np.roll(triangles, 1, axis=1)).all(axis=1)
    turned = np.argmin(triangles, axis=1)[:, None]  # the smallest corner first, the orientation kept
    triangles = np.take_along_axis(triangles, (turned + np.arange(3)) % 3, axis=1)[whole]
    return Mesh(vertices=vertices, triangles=np.unique(triangles, axis=0))
