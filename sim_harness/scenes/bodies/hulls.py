"""Convex bodies given by their corners: faces, volume, centre of mass and inertia."""

from functools import lru_cache

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from idyn.errors import ConfigError
from idyn.types import Array, Record

Corners = tuple[tuple[float, float, float], ...]

CENTRED = 1e-6
"""Largest distance of the centre of mass from the origin of the corners [m]."""

SAME = 1e-9
"""Planes and directions that differ by less count as equal [m, rad]."""


class Hull(Record, frozen=True):
    """A convex polyhedron.

    corners: [m] (n, 3)
    triangles: indices of corners, counterclockwise seen from outside (m, 3)
    planes: outward normal and distance from the origin [m] of each face (f, 4)
    faces: indices of the corners of each face, counterclockwise seen from outside (f)
    edges: directions of the edges without duplicates (k, 3)
    volume: [m³]
    centre: centre of mass [m] (3)
    tensor: inertia of 1 kg about the origin [m²] (3, 3)
    """

    corners: Array
    triangles: Array
    planes: Array
    faces: tuple[Array, ...]
    edges: Array
    volume: float
    centre: Array
    tensor: Array


@lru_cache(maxsize=4096)
def hull_of(corners: Corners) -> Hull:
    """Return the convex body with these corners. Raises ConfigError when they enclose no volume."""
    if len(corners) < 4:
        raise ConfigError("shape.hull", f"expected at least 4 corners, got {len(corners)}")
    points = np.array(corners, dtype=float)
    try:
        found = ConvexHull(points)
    except (QhullError, ValueError) as error:
        raise ConfigError("shape.hull", f"expected corners that enclose a volume, got {len(corners)} without volume") from error
    triangles = found.simplices.astype(np.int64)
    a, b, c = (points[triangles[:, i]] for i in range(3))
    inward = (np.cross(b - a, c - a) * found.equations[:, :3]).sum(axis=1) < 0
    triangles[inward] = triangles[inward][:, ::-1]
    a, b, c = (points[triangles[:, i]] for i in range(3))
    volumes = (a * np.cross(b, c)).sum(axis=1) / 6  # signed volumes of the tetrahedra between the origin and each triangle
    volume = float(volumes.sum())
    # second moment ∫ x xᵀ dV / V = Σ volume (s sᵀ + a aᵀ + b bᵀ + c cᵀ) / 20 V with s = a + b + c
    together = a + b + c
    second = np.einsum("t,ti,tj->ij", volumes, together, together)
    for corner in (a, b, c):
        second += np.einsum("t,ti,tj->ij", volumes, corner, corner)
    second /= 20 * volume
    planes, faces = faces_of_planes(points, found.equations)
    return Hull(
        corners=points,
        triangles=triangles,
        planes=planes,
        faces=faces,
        edges=directions([points[np.roll(face, -1)] - points[face] for face in faces]),
        volume=volume,
        centre=(volumes / volume) @ together / 4,
        tensor=np.trace(second) * np.eye(3) - second,
    )


def faces_of_planes(points: Array, equations: Array) -> tuple[Array, tuple[Array, ...]]:
    """Return the distinct planes (f, 4) and the corners in each, counterclockwise seen from outside.

    equations: planes of the triangles (m, 4)
    """
    planes: list[Array] = []
    for plane in equations:
        if not any(np.abs(plane - other).max() < SAME for other in planes):
            planes.append(plane)
    faces = []
    for plane in planes:
        normal, on = plane[:3], np.flatnonzero(np.abs(points @ plane[:3] + plane[3]) < SAME)
        away = points[on] - points[on].mean(axis=0)
        across = np.cross(normal, away[0])
        faces.append(on[np.argsort(np.arctan2(away @ across, away @ away[0] * np.linalg.norm(normal)))])
    found = np.array(planes)
    return np.column_stack([found[:, :3], -found[:, 3]]), tuple(faces)


def directions(edges: list[Array]) -> Array:
    """Return unit vectors along the edges without parallel duplicates (k, 3)."""
    out: list[Array] = []
    for edge in np.concatenate(edges):
        along = edge / np.linalg.norm(edge)
        if not any(np.linalg.norm(np.cross(along, other)) < SAME for other in out):
            out.append(along)
    return np.array(out)
