"""Objectives of the selection, ½‖τ − target‖² or ½‖f − target‖², and coordinates of a face: three for a sticking contact, one
for each loaded friction direction of a sliding contact, none for a separating one.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from idyn.contact.ground import in_contact_rows
from idyn.laws.law import Face, is_free
from idyn.library.kernels import compiled
from idyn.solvers.linalg import fill, rank_of
from idyn.terms.inputs import finite
from idyn.terms.stages import Given
from idyn.types import Array, Selection


class Aim(NamedTuple):
    """Objective of one selection, with the values of its target."""

    # of the torques τ [N·m] (na), or, if `of_forces`, of the contact forces in rows S, T, N of each contact [N] (3n)
    target: Array
    of_forces: bool
    # for unlimited friction: whether impulses must be inside the friction cones of μ; they are accepted only if their torque
    # does not exceed that of the impulses of the law
    inside: bool


class Near(IntEnum):
    """Target of an objective: zero, the last tick, or the preferred forces."""

    ZERO = 0
    LAST = 1
    PREFERRED = 2


class Objective(NamedTuple):
    """An objective: distance of forces (`of_forces`) or torques from a target. near: the target; zero is used if it does not
    exist"""

    of_forces: bool
    near: Near


OBJECTIVES = {
    Selection.TORQUE: Objective(False, Near.ZERO),
    Selection.TORQUE_CHANGE: Objective(False, Near.LAST),
    Selection.IMPULSE_CHANGE: Objective(True, Near.LAST),
    Selection.FORCE: Objective(True, Near.PREFERRED),
}
"""Objectives by option. A new objective is a member of `Selection` and a row of this table."""


@compiled
def aim_at_forces(force: Array, given: Given, target: Array) -> None:
    """Fill `target`, rows S, T, N of each contact [N] (3n), from forces in the world [N] (n, 3); zero if these are empty (0, 3)
    or not finite."""
    in_contact_rows(force, given.tangents, given.normals, 1.0, target)
    if len(force) == 0 or not finite(target):
        fill(target, 0.0)


class Coordinates(NamedTuple):
    """The m coordinates of a face."""

    contact: Array  # contact of each coordinate (m)
    axis: Array  # its direction in (s, t, n) (m, 3)
    positive: Array  # whether it must be ≥ 0 (m)
    cone: Array  # for each contact the first of its three coordinates if it may stick inside a cone, else −1 (n)


@compiled
def choice_dimension(Y: Array, face: Face) -> int:
    """Return the dimension of the choice within a face: the number of its coordinates minus the rank of J_uᵀ in these."""
    coordinates = coordinates_of(face)
    return len(coordinates.contact) - rank_of(columns_of(Y, coordinates))


@compiled
def coordinates_of(face: Face) -> Coordinates:
    """Return the coordinates of a face."""
    flags, mu, directions, k = face.flags, face.mu, face.directions, len(face.directions)
    n = len(flags)
    contact, axis = np.empty(3 * n + k * n, dtype=np.int64), np.zeros((3 * n + k * n, 3))
    positive, cone = np.zeros(3 * n + k * n, dtype=np.bool_), np.empty(n, dtype=np.int64)
    count = 0
    for i in range(n):
        cone[i] = -1
        # unlimited friction: s and t of either sign if sticking, n ≥ 0
        if is_free(mu[i], face.unlimited):
            if flags[i, 2]:
                for r in range(2):
                    contact[count], axis[count, r] = i, 1.0
                    count += 1
            if flags[i, 0]:
                contact[count], axis[count, 2], positive[count] = i, 1.0, True
                count += 1
        # separating; frictionless
        elif not flags[i, 0]:
            continue
        elif mu[i] == 0.0:
            contact[count], axis[count, 2], positive[count] = i, 1.0, True
            count += 1
        # sticking, inside its cone
        elif not flags[i, 1]:
            cone[i] = count
            for r in range(3):
                contact[count], axis[count, r] = i, 1.0
                count += 1
        # sliding: along an edge of the round cone, or of the polygonal cone
        elif len(face.friction) > 0:
            contact[count], positive[count], axis[count, 2] = i, True, 1.0
            for r in range(2):
                axis[count, r] = mu[i] * face.friction[i, r]
            count += 1
        else:
            for j in range(k):
                if flags[i, 2 + j]:
                    contact[count], positive[count], axis[count, 2] = i, True, 1.0
                    for r in range(2):
                        axis[count, r] = mu[i] * directions[j, r]
                    count += 1
    return Coordinates(contact[:count], axis[:count], positive[:count], cone)


@compiled
def start_of(coordinates: Coordinates, p: Array) -> Array:
    """Return the coordinates (m) of a law's impulses p (3n). At a sliding contact with two loaded directions both are solved
    for together."""
    contact, axis, positive = coordinates.contact, coordinates.axis, coordinates.positive
    m = len(contact)
    start = np.empty(m)
    for v in range(m):
        i = 3 * contact[v]
        # along s, t or n
        if not positive[v] or axis[v, 0] == 0.0 == axis[v, 1]:
            start[v] = axis[v, 0] * p[i] + axis[v, 1] * p[i + 1] + axis[v, 2] * p[i + 2]
        # two directions: p_T = coefficients × directions, p_N = sum of the coefficients
        elif v > 0 and contact[v - 1] == contact[v]:
            e0, e1 = axis[v, 0] - axis[v - 1, 0], axis[v, 1] - axis[v - 1, 1]
            along = (p[i] - p[i + 2] * axis[v - 1, 0]) * e0 + (p[i + 1] - p[i + 2] * axis[v - 1, 1]) * e1
            start[v] = along / (e0 * e0 + e1 * e1)
            start[v - 1] = p[i + 2] - start[v]
        else:
            start[v] = p[i + 2]
    return start


@compiled
def columns_of(Y: Array, coordinates: Coordinates) -> Array:
    """Return Yᵀ in the coordinates of the face (nu, m); it has the null space of J_uᵀ."""
    contact, axis = coordinates.contact, coordinates.axis
    E = np.zeros((Y.shape[1], len(contact)))
    for w in range(len(contact)):
        for r in range(3):
            if axis[w, r] != 0.0:
                for c in range(len(E)):
                    E[c, w] += axis[w, r] * Y[3 * contact[w] + r, c]
    return E


@compiled
def has_impulses_in_cones(face: Face) -> bool:
    """Return whether friction is unlimited and the face may contain impulses inside the friction cones: no separating contact
    has friction, which would be outside every cone."""
    held = True
    for i in range(len(face.mu)):
        held = held and (face.flags[i, 0] or not face.flags[i, 2])
    return face.unlimited and held
