"""Contacts of two convex polyhedra by the separating axis theorem: face contact or edge contact."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from idyn.errors import ConfigError
from idyn.types import Array, Record

Corners = tuple[tuple[float, float, float], ...]

CENTRED = 1e-6  # largest distance of the centre of mass from the origin of the corners [m]
SAME = 1e-9  # planes and directions that differ by less count as equal [m, rad]


class Hull(Record, frozen=True):
    """A convex polyhedron."""

    corners: Array  # [m] (n, 3)
    triangles: Array  # indices of corners, counterclockwise seen from outside (m, 3)
    planes: Array  # outward normal and distance from the origin [m] of each face (f, 4)
    faces: tuple[Array, ...]  # indices of the corners of each face, counterclockwise seen from outside (f)
    edges: Array  # directions of the edges without duplicates (k, 3)
    volume: float  # [m³]
    centre: Array  # centre of mass [m] (3)
    tensor: Array  # inertia of 1 kg about the origin [m²] (3, 3)


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


FACE_FIRST = 1e-6
"""The faces of the second body are used only when the distance along the best of them exceeds that along the best face of the
first by this [m], and edge contact only when the distance along the edge axis exceeds that along the best face. Otherwise
rounding errors would choose between bodies whose faces are parallel, and the contacts would change their order."""

TOUCHING = 1e-4  # tolerance of clipping a face at the border of another [m], so that nearly congruent faces keep their corners
UPRIGHT = 1e-6  # two edges at a smaller angle count as parallel and give no separating axis [rad]


class Spot(NamedTuple):
    """A contact of two bodies: point [m] (3), normal from the second body to the first (3), gap [m]."""

    point: Array
    normal: Array
    gap: float


class Polyhedron(NamedTuple):
    """A hull at a pose, all in world axes."""

    hull: Hull
    corners: Array  # [m] (n, 3)
    normals: Array  # outward normals of the faces (f, 3)
    distances: Array  # distances of the faces from the origin [m] (f)
    edges: Array  # directions of the edges (k, 3)


def polyhedron_at(hull: Hull, rotation: Array, centre: Array) -> Polyhedron:
    """Return the hull at a pose."""
    normals = hull.planes[:, :3] @ rotation.T
    return Polyhedron(
        hull, hull.corners @ rotation.T + centre, normals, hull.planes[:, 3] + normals @ centre, hull.edges @ rotation.T
    )


def touching_polyhedra(first: Polyhedron, second: Polyhedron, margin: float, edge: int) -> list[Spot]:
    """Return the contacts of two bodies with a gap up to the margin [m].

    edge: number of contacts on each edge of a face
    """
    gaps = [(a.normals @ b.corners.T).min(axis=1) - a.distances for a, b in ((first, second), (second, first))]
    which = int(gaps[1].max() > gaps[0].max() + FACE_FIRST)
    apart = float(gaps[which].max())
    axis, crossing = _over_edges(first, second)
    if max(apart, crossing) > margin:
        return []
    if crossing > apart + FACE_FIRST:
        return [_of_edges(first, second, axis, crossing)]
    bodies = (first, second) if which == 0 else (second, first)
    face = int(np.argmax(gaps[which]))
    normal = bodies[0].normals[face]
    points = with_points_between(_clipped(*bodies, face), edge)
    found = [(x, float(normal @ x - bodies[0].distances[face])) for x in points]
    outward = -normal if which == 0 else normal
    return [Spot(x - 0.5 * gap * normal, outward, gap) for x, gap in found if gap <= margin]


def _over_edges(first: Polyhedron, second: Polyhedron) -> tuple[Array, float]:
    """Return the best separating axis among the cross products of edges, and the distance of the bodies along it [m].

    The axis points towards the first body.
    """
    axes = np.cross(first.edges[:, None], second.edges[None]).reshape(-1, 3)
    sizes = np.linalg.norm(axes, axis=1)
    axes = axes[sizes > UPRIGHT] / sizes[sizes > UPRIGHT, None]
    if not len(axes):
        return np.zeros(3), -np.inf
    away = first.corners.mean(axis=0) - second.corners.mean(axis=0)
    axes = axes * np.where(axes @ away < 0.0, -1.0, 1.0)[:, None]
    apart = (axes @ first.corners.T).min(axis=1) - (axes @ second.corners.T).max(axis=1)
    best = int(np.argmax(apart))
    return axes[best], float(apart[best])


def _of_edges(first: Polyhedron, second: Polyhedron, axis: Array, gap: float) -> Spot:
    """Return the contact of two crossing edges, midway between their nearest points."""
    a, b = (body.corners[np.argsort(sign * (body.corners @ axis))[:2]] for body, sign in ((first, 1.0), (second, -1.0)))
    along, across = a[1] - a[0], b[1] - b[0]
    s, t = np.linalg.lstsq(np.column_stack([along, -across]), b[0] - a[0], rcond=None)[0]
    middle = 0.5 * (a[0] + np.clip(s, 0.0, 1.0) * along + b[0] + np.clip(t, 0.0, 1.0) * across)
    return Spot(middle, axis, gap)


def _clipped(one: Polyhedron, other: Polyhedron, face: int) -> list[Array]:
    """Return the face of `other` that is most opposed to a face of `one`, clipped to that face (Sutherland–Hodgman)."""
    normal, border = one.normals[face], one.corners[one.hull.faces[face]]
    facing = int(np.argmin(other.normals @ normal))
    points = list(other.corners[other.hull.faces[facing]])
    inward = np.cross(normal, np.roll(border, -1, axis=0) - border)
    for corner, direction in zip(border, inward / np.linalg.norm(inward, axis=1)[:, None], strict=True):
        points = _inside(points, corner, direction)
    return points


def _inside(points: list[Array], corner: Array, inward: Array) -> list[Array]:
    """Return the part of a polygon on the inner side of a line through a corner."""
    out = []
    heights = [float((x - corner) @ inward) for x in points]
    for i, x in enumerate(points):
        before, height = heights[i - 1], heights[i]
        if (before < -TOUCHING) != (height < -TOUCHING):
            out.append(points[i - 1] + (x - points[i - 1]) * before / (before - height))
        if height >= -TOUCHING:
            out.append(x)
    return out


def with_points_between(corners: list[Array], edge: int) -> list[Array]:
    """Return the corners of a point, line or polygon with `edge` − 1 points between adjacent corners."""
    if len(corners) < 2:
        return corners
    following = corners[1:] + corners[:1] if len(corners) > 2 else corners[1:]
    points = [a + (b - a) * k / edge for a, b in zip(corners, following, strict=False) for k in range(edge)]
    return points if len(corners) > 2 else [*points, corners[-1]]
