"""Contacts of a scene at a configuration, with the materials of both bodies: corners and rims against the plane z = 0, pairs
of bodies by the collision library coal, which only this module imports.

A pair touches in a patch, with one contact at each corner. Normals and gaps are those of almost parallel faces: in penetration
coal's error is 1e-5 or more, and it returns one gap for the whole patch. Boxes and hulls use `polyhedra.py`: coal splits their
patches along triangles, and returns a single point for half of the faces that are tilted by 1e-10 to 1e-5 rad.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import coal
import numpy as np

from idyn.contact.contacts import first_tangents
from idyn.types import Array, ContactSet
from sim_harness.studies.scenes.polyhedra import (
    Corners,
    Polyhedron,
    Spot,
    hull_of,
    polyhedron_at,
    touching_polyhedra,
    with_points_between,
)
from sim_harness.studies.scenes.scene_model import SceneModel
from sim_harness.studies.scenes.scene_settings import Material, SceneSettings, Shape
from sim_harness.world.world import Touching

PARALLEL = 1e-3  # a face is the contact face when its normal is within this angle of coal's normal [rad]
LEVEL = 0.9  # gaps are measured between faces whose normals have at least this cosine with the contact normal


class PlacedShape(NamedTuple):
    """A shape at a pose: rotation (3, 3), centre [m] (3)."""

    shape: Shape
    rotation: Array
    centre: Array


class Face(NamedTuple):
    """A bounding plane of a body."""

    point: Array  # a point of the plane [m] (3)
    outward: Array  # outward normal (3)
    flat: bool  # true for a face, false for the tangent plane of a cylinder's side


def geometry(shape: Shape) -> coal.ShapeBase:
    """Return the shape as a coal geometry."""
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
    """Return a convex body as a coal geometry."""
    points, triangles, hull = coal.StdVec_Vec3s(), coal.StdVec_Triangle(), hull_of(corners)
    for corner in hull.corners:
        points.append(corner)
    for triangle in hull.triangles.tolist():
        triangles.append(coal.Triangle(*triangle))
    return coal.Convex(points, triangles)


def half_extents(shape: Shape, rotation: Array) -> Array:
    """Return the half sizes of the axis-aligned bounding box of a rotated shape about its centre [m] (3)."""
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


def ground_points(place: PlacedShape, edge: int, cells: int = 0) -> Array:
    """Return the points of a body that may touch the ground [m] (k, 3).

    Box: corners and points on the edges, or with `cells` the centres of the cells of its faces. Hull: corners. Sphere: its
    lowest point. Cylinder: four points of each rim, including the lowest.
    """
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
    """Return the corners of a box about its centre and `edge` − 1 points between them on each edge [m] (·, 3)."""
    steps = np.linspace(-1.0, 1.0, edge + 1)
    grid = np.array(np.meshgrid(steps, steps, steps, indexing="ij")).reshape(3, -1).T
    return grid[(np.abs(grid) == 1.0).sum(axis=1) >= 2] * half


def face_points(half: Array, cells: int) -> Array:
    """Return the centres of cells × cells cells of each face of a box about its centre [m] (·, 3)."""
    middles = (2.0 * np.arange(cells) + 1.0) / cells - 1.0
    out = []
    for axis in range(3):
        for side in (-1.0, 1.0):
            grid = np.array(np.meshgrid(middles, middles, indexing="ij")).reshape(2, -1).T
            out.append(np.insert(grid, axis, side, axis=1))
    return np.concatenate(out) * half


class ContactFinder:
    """Finds the contacts of pairs of bodies with coal."""

    def __init__(self, margin: float, edge: int) -> None:
        """Find contacts with a gap up to the margin.

        margin: largest gap [m]
        edge: number of contacts on each edge of a patch
        """
        self._edge = edge
        self._collide, self._patch = coal.CollisionRequest(), coal.ContactPatchRequest()
        self._collide.security_margin = margin
        self._collide.num_max_contacts = 1

    def between(self, first: PlacedShape, second: PlacedShape) -> Iterator[Spot]:
        """Yield the contacts of two bodies with a gap up to the margin."""
        if all(place.shape.hull or place.shape.box for place in (first, second)):
            yield from touching_polyhedra(
                polyhedron_of(first), polyhedron_of(second), self._collide.security_margin, self._edge
            )
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


def polyhedron_of(place: PlacedShape) -> Polyhedron:
    """Return a hull or box as a polyhedron at its pose."""
    shape = place.shape
    return polyhedron_at(hull_of(shape.hull or box_corners(shape.box)), place.rotation, place.centre)


@lru_cache(maxsize=4096)
def box_corners(box: tuple[float, float, float]) -> Corners:
    """Return the corners of a box about its centre [m]."""
    return tuple(map(tuple, box_points(np.array(box) / 2, 1).tolist()))


def face_normal(normal: Array, first: PlacedShape, second: PlacedShape) -> Array:
    """Return the normal of the face whose normal is almost parallel to `normal`; without such a face, `normal` itself.

    It points out of the second body.
    """
    faces = [-face.outward for face in faces_of(first, -normal) if face.flat]
    faces += [face.outward for face in faces_of(second, normal) if face.flat]
    near = [face for face in faces if np.linalg.norm(face - normal) < PARALLEL]
    return min(near, key=lambda face: float(np.linalg.norm(face - normal)), default=normal)


def faces_of(place: PlacedShape, direction: Array) -> list[Face]:
    """Return the face whose outward normal is closest to a direction, as a list of one.

    For a cylinder this is a cap or the tangent plane of its side. A sphere has no face: the list is empty.
    """
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


def face_gaps(points: list[Array], normal: Array, first: PlacedShape, second: PlacedShape) -> list[float] | None:
    """Return the distance between the faces of two bodies along the normal at each point [m].

    None when the contact is not between faces: a patch of one point, a sphere or an edge.
    """
    faces = [*faces_of(first, -normal), *faces_of(second, normal)]
    if len(points) < 2 or len(faces) < 2 or min(abs(face.outward @ normal) for face in faces) < LEVEL:
        return None
    above, below = ([((face.point - x) @ face.outward) / (face.outward @ normal) for x in points] for face in faces)
    return [a - b for a, b in zip(above, below, strict=True)]


UP = np.array([0.0, 0.0, 1.0])

GROUND = -1  # index that stands for the ground in a pair of bodies


class Geometry:
    """Finds the contacts of a scene."""

    def __init__(self, model: SceneModel) -> None:
        self._model, self._settings = model, model.settings
        self._touch = ContactFinder(self._settings.margin, self._settings.edge)
        self._pairs = np.array(candidate_pairs(model), dtype=np.int64).reshape(-1, 2)

    def touching(self, q: Array) -> Touching:
        """Return all contacts at q, an empty set for a non-finite q."""
        if not np.isfinite(q).all():
            return self._record([])
        model, margin = self._model, self._settings.margin
        rotations, centres = model.place(q)
        places = [PlacedShape(body.shape, *pose) for body, *pose in zip(self._settings.body, rotations, centres, strict=True)]
        found: list[tuple[int, int, int, Spot]] = []
        extents = np.array([half_extents(place.shape, place.rotation) for place in places])
        if self._settings.ground is not None:
            for i in np.flatnonzero(centres[:, 2] - extents[:, 2] <= margin).tolist():
                if self._settings.body[i].touches and model.joints[i]:
                    points = ground_points(places[i], self._settings.edge, self._settings.cells)
                    found += [(i, GROUND, k, Spot(p, UP, p[2])) for k, p in enumerate(points) if p[2] <= margin]
        for i, j in self._near(centres, extents, margin).tolist():
            found += [(i, j, k, spot) for k, spot in enumerate(self._touch.between(places[i], places[j]))]
        return self._record(found)

    def _near(self, centres: Array, extents: Array, margin: float) -> Array:
        """Return the candidate pairs whose axis-aligned bounding boxes are closer than the margin (·, 2)."""
        if not len(self._pairs):
            return self._pairs
        i, j = self._pairs.T
        return self._pairs[(np.abs(centres[i] - centres[j]) <= extents[i] + extents[j] + margin).all(axis=1)]

    def _record(self, found: list[tuple[int, int, int, Spot]]) -> Touching:
        """Return contacts with materials.

        found: a tuple (first body, second body, index within the pair, contact) for each contact
        """
        model, names = self._model, (*self._model.names, "ground")
        pairs = np.array([(i, j) for i, j, _, _ in found], dtype=np.int64).reshape(-1, 2)
        normals = np.array([spot.normal for *_, spot in found]).reshape(-1, 3)
        touch = [touching_materials(self._settings, i, j) for i, j in pairs.tolist()]
        stiffness = np.array([each.stiffness for each in touch])
        if self._settings.shared and len(found):  # divide the stiffness of a face among its points
            _, which, count = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
            stiffness = stiffness / count[which.reshape(-1)]
        points, gaps = np.array([spot.point for *_, spot in found]).reshape(-1, 3), np.array([spot.gap for *_, spot in found])
        keys = tuple(f"{names[i]} {names[j]} {k}" for i, j, k, _ in found)
        contacts = contact_set(model, pairs, points, normals, gaps, np.array([each.mu for each in touch]), keys)
        return Touching(
            contacts=contacts, pairs=pairs, stiffness=stiffness, dissipation=np.array([each.dissipation for each in touch])
        )


def contact_set(
    model: SceneModel, pairs: Array, points: Array, normals: Array, gaps: Array, mu: Array, keys: tuple[str, ...]
) -> ContactSet:
    """Return contacts without radii; pairs: indices of both bodies, the second is `GROUND` for the ground (n, 2)."""
    bodies, others = np.append(model.joints, 0)[np.ascontiguousarray(pairs.T)]
    axes = {"normals": normals, "tangents": first_tangents(normals)}
    return ContactSet(bodies=bodies, others=others, points=points, mu=mu, gaps=gaps, radii=np.zeros(len(mu)), keys=keys, **axes)


def candidate_pairs(model: SceneModel) -> list[tuple[int, int]]:
    """Return the pairs of bodies that may touch.

    Excluded are bodies on the same joint, a body and its parent, and bodies that a closure connects.
    """
    bodies, joints = model.settings.body, model.joints
    joined = {frozenset((body.name, body.parent)) for body in bodies} | {frozenset(c.bodies) for c in model.settings.closure}
    return [
        (i, j)
        for i, j in combinations(range(len(bodies)), 2)
        if bodies[i].touches and bodies[j].touches and joints[i] != joints[j]
        if frozenset((bodies[i].name, bodies[j].name)) not in joined
    ]


def touching_materials(settings: SceneSettings, i: int, j: int) -> Material:
    """Return the combined material of two bodies, or of a body and the ground when j is `GROUND`."""
    first = settings.body[i].material
    if j != GROUND:
        return combined(first, settings.body[j].material)
    return first if settings.ground is None else combined(first, settings.ground.material)


def combined(a: Material, b: Material) -> Material:
    """Combine two materials: the smaller friction, springs in series, damping times averaged by compliance."""
    softness = 1 / a.stiffness + 1 / b.stiffness
    damping = a.dissipation / a.stiffness + b.dissipation / b.stiffness
    return Material(
        mu=min(a.mu, b.mu),
        stiffness=1 / softness if softness > 0 else float("inf"),
        dissipation=damping / softness if softness > 0 else max(a.dissipation, b.dissipation),
    )
