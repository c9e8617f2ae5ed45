"""Where bodies touch: corners and rims against the plane z = 0, pairs of bodies by coal, its only door.

A pair touches in a patch: a point, a line or a polygon, each of its corners one contact. Coal finds who touches and the
patch; two things are taken from the shapes themselves. The normal is that of a face where one is as good as parallel to
coal's, which is exact to 1e-5 only where shapes just touch; and the gap at each point is that of the two faces there, where
coal has one for all. Of two bodies one of which is a hull, patches are found in `polyhedra.py`: coal's come apart where
triangles of one face are in one plane.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import coal
import numpy as np

from idyn.types import Array
from sim_harness.scenes.bodies.hulls import Corners, hull_of
from sim_harness.scenes.bodies.polyhedra import Polyhedron, Spot, polyhedron_at, touching_polyhedra, with_points_between
from sim_harness.scenes.bodies.settings import Shape

PARALLEL = 1e-3
"""A face within this angle of coal's normal is what touches [rad]."""

LYING = 0.1
"""A cylinder whose axis is across the normal but for this touches with its side [rad]."""

LEVEL = 0.9
"""A face whose normal has so much along the contact's is one from which gaps are measured."""


class Place(NamedTuple):
    """A body with its shape: rotation (3, 3), centre [m] (3)."""

    shape: Shape
    rotation: Array
    centre: Array


class Face(NamedTuple):
    """A plane that bounds a body: a point of it [m] (3), its outward normal (3); flat: no matter from where it is looked at."""

    point: Array
    outward: Array
    flat: bool


def geometry(shape: Shape) -> coal.ShapeBase:
    """The shape as coal has it."""
    if shape.box is not None:
        return coal.Box(*shape.box)
    if shape.sphere is not None:
        return coal.Sphere(shape.sphere)
    if shape.hull is not None:
        return polyhedron(shape.hull)
    assert shape.cylinder is not None
    return coal.Cylinder(*shape.cylinder)


@lru_cache(maxsize=4096)
def polyhedron(corners: Corners) -> coal.Convex:
    """A convex body as coal has it."""
    points, triangles, hull = coal.StdVec_Vec3s(), coal.StdVec_Triangle(), hull_of(corners)
    for corner in hull.corners:
        points.append(corner)
    for triangle in hull.triangles.tolist():
        triangles.append(coal.Triangle(*triangle))
    return coal.Convex(points, triangles)


def half_extents(shape: Shape, rotation: Array) -> Array:
    """Of the smallest box along the world's axes, around the centre of a shape that is turned, that holds it [m] (3)."""
    if shape.box is not None:
        return np.abs(rotation) @ (np.array(shape.box) / 2)
    if shape.sphere is not None:
        return np.full(3, shape.sphere)
    if shape.hull is not None:
        return np.abs(hull_of(shape.hull).corners @ rotation.T).max(axis=0)
    assert shape.cylinder is not None
    radius, length = shape.cylinder
    along = np.abs(rotation[:, 2])
    return along * length / 2 + radius * np.sqrt(np.maximum(1 - along**2, 0))


def ground_points(place: Place, edge: int, cells: int = 0) -> Array:
    """Points of a body that may touch the ground first [m] (k, 3): the corners of a box with those between them on its edges,
    or the middles of the cells of its faces; the corners of a hull, the lowest point of a sphere, of each rim of a cylinder
    the lowest and three more."""
    shape, rotation, centre = place
    if shape.sphere is not None:
        return centre[None] - np.array([[0.0, 0.0, shape.sphere]])
    if shape.box is not None:
        half = np.array(shape.box) / 2
        return centre + (face_points(half, cells) if cells else box_points(half, edge)) @ rotation.T
    if shape.hull is not None:
        return centre + hull_of(shape.hull).corners @ rotation.T
    assert shape.cylinder is not None
    radius, length = shape.cylinder
    axis = rotation[:, 2]
    down = np.array([0.0, 0.0, -1.0]) + axis[2] * axis
    size = float(np.linalg.norm(down))
    down = down / size if size > PARALLEL else rotation[:, 0]
    across = np.cross(axis, down)
    rim = radius * np.array([down, across, -down, -across])
    return np.concatenate([centre + rim + axis * length / 2, centre + rim - axis * length / 2])


def box_points(half: Array, edge: int) -> Array:
    """Corners of a box about its centre, and `edge` − 1 points between them on each edge [m]."""
    steps = np.linspace(-1.0, 1.0, edge + 1)
    grid = np.array(np.meshgrid(steps, steps, steps, indexing="ij")).reshape(3, -1).T
    return grid[(np.abs(grid) == 1.0).sum(axis=1) >= 2] * half


def face_points(half: Array, cells: int) -> Array:
    """The middles of `cells` by `cells` cells of each face of a box about its centre [m]."""
    middles = (2.0 * np.arange(cells) + 1.0) / cells - 1.0
    out = []
    for axis in range(3):
        for side in (-1.0, 1.0):
            grid = np.array(np.meshgrid(middles, middles, indexing="ij")).reshape(2, -1).T
            out.append(np.insert(grid, axis, side, axis=1))
    return np.concatenate(out) * half


class Toucher:
    """The pairs of bodies that may touch, ready for coal."""

    def __init__(self, margin: float, edge: int) -> None:
        """margin: [m]; edge: contacts on each edge of a patch"""
        self._edge = edge
        self._collide, self._patch = coal.CollisionRequest(), coal.ContactPatchRequest()
        self._collide.security_margin = margin
        self._collide.num_max_contacts = 1

    def between(self, first: Place, second: Place) -> Iterator[Spot]:
        """The contacts of two bodies that are no further from one another than the margin."""
        if any(place.shape.hull for place in (first, second)) and all(
            place.shape.hull or place.shape.box for place in (first, second)
        ):
            yield from touching_polyhedra(placed(first), placed(second), self._collide.security_margin, self._edge)
            return
        shapes = geometry(first.shape), geometry(second.shape)
        poses = [coal.Transform3s(place.rotation, place.centre) for place in (first, second)]
        found = coal.CollisionResult()
        coal.collide(shapes[0], poses[0], shapes[1], poses[1], self._collide, found)
        if not found.numContacts():
            return
        contact = found.getContact(0)
        normal = face_normal(-contact.normal, first, second)
        patches = coal.ContactPatchResult()
        coal.computeContactPatch(shapes[0], poses[0], shapes[1], poses[1], found, self._patch, patches)
        patch = patches.getContactPatch(0)
        points = with_points_between([patch.getPoint(i) for i in range(patch.size())], self._edge)
        gaps = face_gaps(points, normal, first, second)
        for point, gap in zip(points, [contact.penetration_depth] * len(points) if gaps is None else gaps, strict=True):
            yield Spot(point, normal, float(gap))


def placed(place: Place) -> Polyhedron:
    """A hull or a box where it is."""
    shape = place.shape
    if shape.hull is None:
        assert shape.box is not None
        corners = tuple(map(tuple, box_points(np.array(shape.box) / 2, 1).tolist()))
    return polyhedron_at(hull_of(shape.hull or corners), place.rotation, place.centre)


def face_normal(normal: Array, first: Place, second: Place) -> Array:
    """The normal of the face that is as good as parallel to it, or itself; out of the second body."""
    faces = [-face.outward for face in faces_of(first, -normal) if face.flat]
    faces += [face.outward for face in faces_of(second, normal) if face.flat]
    near = [face for face in faces if np.linalg.norm(face - normal) < PARALLEL]
    return min(near, key=lambda face: float(np.linalg.norm(face - normal)), default=normal)


def faces_of(place: Place, direction: Array) -> list[Face]:
    """The face that looks most in a direction; nothing for a sphere, for a cylinder its cap or the plane that touches its
    side."""
    shape, rotation, centre = place
    if shape.hull is not None:
        planes = hull_of(shape.hull).planes
        plane = planes[np.argmax(planes[:, :3] @ (rotation.T @ direction))]
        outward = rotation @ plane[:3]
        return [Face(centre + outward * plane[3], outward, True)]
    if shape.box is not None:
        local = rotation.T @ direction
        axis = int(np.argmax(np.abs(local)))
        outward = np.sign(local[axis]) * rotation[:, axis]
        return [Face(centre + outward * shape.box[axis] / 2, outward, True)]
    if shape.cylinder is not None:
        radius, length = shape.cylinder
        along = float(rotation[:, 2] @ direction)
        side = direction - along * rotation[:, 2]
        if abs(along) > float(np.linalg.norm(side)):
            outward = np.sign(along) * rotation[:, 2]
            return [Face(centre + outward * length / 2, outward, True)]
        outward = side / np.linalg.norm(side)
        return [Face(centre + outward * radius, outward, False)]
    return []


def pivot_of(place: Place, spot: Spot) -> Array:
    """The centre about which a body is round where it is touched [m] (3): that of a sphere, a point on the axis of a cylinder
    that lies; the point itself of what is flat or sharp."""
    shape, rotation, centre = place
    if shape.sphere is not None:
        return centre
    axis = rotation[:, 2]
    if shape.cylinder is not None and abs(axis @ spot.normal) < LYING:
        return np.asarray(centre + ((spot.point - centre) @ axis) * axis)
    return spot.point


def face_gaps(points: list[Array], normal: Array, first: Place, second: Place) -> list[float] | None:
    """How far the faces of two bodies are from one another along the normal, at each point [m]; None where it is no matter of
    faces: a patch of one point, a sphere, an edge."""
    faces = [*faces_of(first, -normal), *faces_of(second, normal)]
    if len(points) < 2 or len(faces) < 2 or min(abs(face.outward @ normal) for face in faces) < LEVEL:
        return None
    above, below = ([((face.point - x) @ face.outward) / (face.outward @ normal) for x in points] for face in faces)
    return [a - b for a, b in zip(above, below, strict=True)]
