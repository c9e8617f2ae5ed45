"""Contacts of a scene at a configuration, with the materials of both bodies."""

from itertools import combinations

import numpy as np

from idyn.contact.contacts import first_tangents
from idyn.types import Array, ContactSet
from sim_harness.scenes.bodies.model import SceneModel
from sim_harness.scenes.bodies.polyhedra import Spot
from sim_harness.scenes.bodies.settings import Material, SceneSettings
from sim_harness.scenes.bodies.touch import ContactFinder, PlacedShape, ground_points, half_extents, pivot_of
from sim_harness.world.world import Touching

UP = np.array([0.0, 0.0, 1.0])

GROUND = -1
"""Index that stands for the ground in a pair of bodies."""


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

    def pivots(self, q: Array, touching: Touching) -> tuple[Array, Array]:
        """Return the centres of curvature of the first and second bodies at the contacts [m] (n, 3), see `moved_contacts`."""
        c = touching.contacts
        assert touching.pairs is not None
        poses = [PlacedShape(body.shape, *pose) for body, *pose in zip(self._settings.body, *self._model.place(q), strict=True)]
        spots = [Spot(*each) for each in zip(c.points, c.normals, c.gaps, strict=True)]
        ends = (
            [spot.point if i == GROUND else pivot_of(poses[i], spot) for i, spot in zip(side, spots, strict=True)]
            for side in touching.pairs.T.tolist()
        )
        first, second = (np.array(points).reshape(-1, 3) for points in ends)
        return first, second

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
        joints = np.append(model.joints, 0)
        normals = np.array([spot.normal for *_, spot in found]).reshape(-1, 3)
        touch = [touching_materials(self._settings, i, j) for i, j in pairs.tolist()]
        stiffness = np.array([each.stiffness for each in touch])
        if self._settings.shared and len(found):  # divide the stiffness of a face among its points
            _, which, count = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
            stiffness = stiffness / count[which.reshape(-1)]
        contacts = ContactSet(
            bodies=joints[pairs[:, 0]],
            others=joints[pairs[:, 1]],
            points=np.array([spot.point for *_, spot in found]).reshape(-1, 3),
            normals=normals,
            tangents=first_tangents(normals),
            mu=np.array([each.mu for each in touch]),
            gaps=np.array([spot.gap for *_, spot in found]),
            radii=np.zeros(len(found)),
            keys=tuple(f"{names[i]} {names[j]} {k}" for i, j, k, _ in found),
        )
        return Touching(
            contacts=contacts, pairs=pairs, stiffness=stiffness, dissipation=np.array([each.dissipation for each in touch])
        )


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
