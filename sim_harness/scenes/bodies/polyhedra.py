"""Where two convex polyhedra touch: along the axis that separates them most, a face and what lies on it, or two edges."""

from typing import NamedTuple

import numpy as np

from idyn.types import Array
from sim_harness.scenes.bodies.hulls import Hull

FACE_FIRST = 1e-6
"""Edges have to be further apart than faces by more than this, or faces are what touches [m]."""

TOUCHING = 1e-4
"""A corner this far beyond a face's border is on it, so that faces that lie on one another but for little keep their corners
[m]."""

UPRIGHT = 1e-6
"""Edges that are parallel but for this have no axis of their own [rad]."""


class Spot(NamedTuple):
    """A contact of a pair: point [m] (3), normal from the second body to the first (3), gap [m]."""

    point: Array
    normal: Array
    gap: float


class Polyhedron(NamedTuple):
    """A hull where it is: corners [m] (n, 3), outward normals (f, 3), distances of the faces from the origin [m] (f), edges
    (k, 3)."""

    hull: Hull
    corners: Array
    normals: Array
    distances: Array
    edges: Array


def polyhedron_at(hull: Hull, rotation: Array, centre: Array) -> Polyhedron:
    """The hull turned, then moved."""
    normals = hull.planes[:, :3] @ rotation.T
    return Polyhedron(
        hull, hull.corners @ rotation.T + centre, normals, hull.planes[:, 3] + normals @ centre, hull.edges @ rotation.T
    )


def touching_polyhedra(first: Polyhedron, second: Polyhedron, margin: float, edge: int) -> list[Spot]:
    """The contacts of two bodies that are no further from one another than the margin; edge: so many on each edge of a face."""
    gaps = [_over_faces(one, other) for one, other in ((first, second), (second, first))]
    which = int(np.argmax([gap.max() for gap in gaps]))
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


def _over_faces(one: Polyhedron, other: Polyhedron) -> Array:
    """How far the other is over each face of the first [m] (f)."""
    return np.asarray((one.normals @ other.corners.T).min(axis=1) - one.distances)


def _over_edges(first: Polyhedron, second: Polyhedron) -> tuple[Array, float]:
    """Of the directions across an edge of each, towards the first, that along which they are furthest apart; how far [m]."""
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
    """The contact of two edges that cross: between where they are nearest."""
    a, b = (body.corners[np.argsort(sign * (body.corners @ axis))[:2]] for body, sign in ((first, 1.0), (second, -1.0)))
    along, across = a[1] - a[0], b[1] - b[0]
    s, t = np.linalg.lstsq(np.column_stack([along, -across]), b[0] - a[0], rcond=None)[0]
    middle = 0.5 * (a[0] + np.clip(s, 0.0, 1.0) * along + b[0] + np.clip(t, 0.0, 1.0) * across)
    return Spot(middle, axis, gap)


def _clipped(one: Polyhedron, other: Polyhedron, face: int) -> list[Array]:
    """The face of the other that looks most at a face of the first, as far as it lies over that (Sutherland–Hodgman)."""
    normal, border = one.normals[face], one.corners[one.hull.faces[face]]
    facing = int(np.argmin(other.normals @ normal))
    points = list(other.corners[other.hull.faces[facing]])
    for corner, following in zip(border, np.roll(border, -1, axis=0), strict=True):
        inward = np.cross(normal, following - corner)
        points = _inside(points, corner, inward / np.linalg.norm(inward))
    return points


def _inside(points: list[Array], corner: Array, inward: Array) -> list[Array]:
    """The part of a polygon on the inner side of a line through a corner."""
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
    """The corners of a point, a line or a polygon, with `edge` − 1 points between each and the next."""
    if len(corners) < 2:
        return corners
    following = corners[1:] + corners[:1] if len(corners) > 2 else corners[1:]
    points = [a + (b - a) * k / edge for a, b in zip(corners, following, strict=False) for k in range(edge)]
    return points if len(corners) > 2 else [*points, corners[-1]]
