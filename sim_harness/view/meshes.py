"""Triangle meshes for the eye: as few triangles as keep the shape recognisable."""

from pathlib import Path
from typing import Any

import numpy as np

from idyn.errors import ConfigError
from idyn.types import Array, Record

MOST = 30_000
"""A mesh is thinned to so many triangles at most: then it takes about 0.7 MB of a page."""

CELL = 0.0005
"""Edge of the cells in which `thinned` first merges vertices [m]: finer than a screen shows."""


class Mesh(Record, frozen=True):
    """vertices in the frame of the shape [m] (n, 3); triangles: rows of `vertices`, anticlockwise seen from outside (m, 3)"""

    vertices: Array
    triangles: Array


def load_meshes(path: Path, scale: Array) -> list[tuple[Mesh, tuple[float, ...] | None]]:
    """The meshes of a file, one for each of its materials, with their colours where it has some. Raises ConfigError.

    Not Pinocchio's own reading: where a Collada node has several meshes, that takes corners of one for corners of another.
    """
    try:
        import trimesh  # noqa: PLC0415  (extra)
    except ImportError as error:
        raise ConfigError("view", f"the robot's meshes need the extra viz: pip install 'idyn[viz]' ({error})") from error
    try:
        parts: Any = trimesh.load_scene(path).dump()
    except (ValueError, OSError) as error:
        raise ConfigError(str(path), f"not a mesh that can be read ({error})") from error
    found = [(thinned(_mesh(part, scale), MOST), _colour(part)) for part in parts if len(part.faces)]
    if not found:
        raise ConfigError(str(path), "expected a mesh, found no triangle in it")
    return found


def _mesh(part: Any, scale: Array) -> Mesh:
    part.merge_vertices(merge_tex=True, merge_norm=True)
    triangles = np.array(part.faces, dtype=np.int64)
    return Mesh(vertices=part.vertices * scale, triangles=triangles[:, ::-1] if np.prod(scale) < 0 else triangles)


def _colour(part: Any) -> tuple[float, ...] | None:
    material = getattr(part.visual, "material", None)
    return None if material is None else tuple((material.main_color[:3] / 255).tolist())


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
