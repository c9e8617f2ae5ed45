"""Triangle meshes for display, simplified."""

from pathlib import Path
from typing import Any

import numpy as np

from idyn.errors import ConfigError
from idyn.extras import missing_extra
from idyn.types import Array, Record

MOST = 30_000
"""Largest number of triangles of a mesh; such a mesh takes about 0.7 MB in a page."""

CELL = 0.0005
"""Initial edge length of the cells in which `thinned` merges vertices [m]; on a screen it is smaller than a pixel."""


class Mesh(Record, frozen=True):
    """A triangle mesh.

    vertices: in the frame of the shape [m] (n, 3); triangles: rows of `vertices`, anticlockwise seen from outside (m, 3)
    """

    vertices: Array
    triangles: Array


def load_meshes(path: Path, scale: Array) -> list[tuple[Mesh, tuple[float, ...] | None]]:
    """Load the meshes of a file, one for each material, with their colours if the file has any. Raises ConfigError.

    Pinocchio's loader is not used: it mixes up the vertices of the meshes of a Collada node that has several.
    """
    try:
        import trimesh  # noqa: PLC0415  (extra)
    except ImportError as error:
        raise missing_extra("view", "showing meshes", "trimesh", "viz") from error
    try:
        parts: Any = trimesh.load_scene(path).dump()
    except (ValueError, OSError) as error:
        raise ConfigError(str(path), f"expected a readable mesh ({error})") from error
    found = [(thinned(_mesh(part, scale), MOST), _colour(part)) for part in parts if len(part.faces)]
    if not found:
        raise ConfigError(str(path), "expected a mesh with triangles, got none")
    return found


def _mesh(part: Any, scale: Array) -> Mesh:
    part.merge_vertices(merge_tex=True, merge_norm=True)
    triangles = np.array(part.faces, dtype=np.int64)
    return Mesh(vertices=part.vertices * scale, triangles=triangles[:, ::-1] if np.prod(scale) < 0 else triangles)


def _colour(part: Any) -> tuple[float, ...] | None:
    material = getattr(part.visual, "material", None)
    return None if material is None else tuple((material.main_color[:3] / 255).tolist())


def thinned(mesh: Mesh, most: int) -> Mesh:
    """Return the mesh simplified to at most `most` triangles.

    The vertices in each cell of a cubic grid are merged, with the finest grid that suffices. No vertex moves further than the
    diagonal of a cell.
    """
    cell, thin = CELL, mesh
    while len(thin.triangles) > most:
        thin = _merged(mesh, cell)
        cell *= 1.3
    return thin


def _merged(mesh: Mesh, cell: float) -> Mesh:
    """Replace all vertices of a cell by their mean; remove degenerate and repeated triangles."""
    cells = np.floor(mesh.vertices / cell).astype(np.int64)
    _, place, count = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    place = place.reshape(-1)
    vertices = np.stack([np.bincount(place, weights=mesh.vertices[:, i]) / count for i in range(3)], axis=1)
    triangles = place[mesh.triangles]
    whole = (triangles != np.roll(triangles, 1, axis=1)).all(axis=1)
    turned = np.argmin(triangles, axis=1)[:, None]  # rotate to the smallest index first; this preserves the orientation
    triangles = np.take_along_axis(triangles, (turned + np.arange(3)) % 3, axis=1)[whole]
    return Mesh(vertices=vertices, triangles=np.unique(triangles, axis=0))
