"""Boxes, and their contacts with spheres of other bodies."""

import msgspec
import numpy as np

from idyn.jit.compiled import compiled
from idyn.types import Array

AT_SURFACE = 1e-12
"""A centre nearer than this to the box counts as inside: the direction to the nearest point does not define a normal [m]."""


class Box(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A box fixed to a named frame, with edges along its axes. Contact spheres of other bodies may touch it.

    frame: a frame of the URDF
    size: lengths of the edges [m], > 0
    offset: centre in that frame [m]
    mu: friction coefficient of its contacts, ≥ 0, may be inf
    """

    frame: str
    size: tuple[float, float, float]
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    mu: float = 1.0


@compiled
def sphere_against_box(centre: Array, radius: float, half: Array, normal: Array) -> float:
    """Return the gap [m] between a sphere and a box with half edges `half` (3), in the frame of the box; fill the outward
    normal (3).

    The nearest point of the box is on a face, an edge or a corner; for a sphere whose centre is inside the box, on the nearest
    face.
    """
    # outside: normal from the nearest point of the box
    squared = 0.0
    for c in range(3):
        normal[c] = centre[c] - min(max(centre[c], -half[c]), half[c])
        squared += normal[c] * normal[c]
    distance = np.sqrt(squared)
    if distance > AT_SURFACE:
        for c in range(3):
            normal[c] /= distance
        return distance - radius
    # inside: normal of the nearest face
    face = 0
    for c in range(3):
        normal[c] = 0.0
        if half[c] - abs(centre[c]) < half[face] - abs(centre[face]):
            face = c
    normal[face] = 1.0 if centre[face] >= 0.0 else -1.0
    return abs(centre[face]) - half[face] - radius


@compiled
def pair_contacts(
    pairs: Array, centres: Array, radii: Array, rotations: Array, origins: Array, halves: Array
) -> tuple[Array, Array, Array]:
    """Return points of the spheres nearest to the boxes (n, 3), outward normals of the boxes (n, 3) and gaps [m] (n), in the
    world.

    pairs: (index of the sphere, index of the box) (n, 2)
    centres (·, 3), radii (·): of the spheres
    rotations (·, 3, 3), origins (·, 3), halves (·, 3): orientations, centres and half edges of the boxes
    """
    n = len(pairs)
    points, normals, gaps = np.empty((n, 3)), np.empty((n, 3)), np.empty(n)
    local, normal = np.empty(3), np.empty(3)
    for i in range(n):
        s, b = pairs[i]
        # centre in the frame of the box, Rᵀ (c − o)
        for c in range(3):
            local[c] = 0.0
            for d in range(3):
                local[c] += rotations[b, d, c] * (centres[s, d] - origins[b, d])
        gaps[i] = sphere_against_box(local, radii[s], halves[b], normal)
        # normal R n, point c − r n
        for c in range(3):
            normals[i, c] = 0.0
            for d in range(3):
                normals[i, c] += rotations[b, c, d] * normal[d]
            points[i, c] = centres[s, c] - radii[s] * normals[i, c]
    return points, normals, gaps
