"""The block: geometry, inertia, state, and its motion between contacts.

Velocities are those of the centre of mass along world axes and of the rotation about body axes: ν = (v, ω). With the corner r
from the centre of mass, in body axes,

    J = (1, −R [r]×)        M = diag(m 1, I)        h = (m g ẑ, ω × I ω)
"""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.types import Array, Record


class Block(Record, frozen=True):
    """A cube with its centre of mass apart from its geometric centre.

    half: half of an edge [m]
    mass: [kg]
    inertia: moment of inertia about the centre of mass, the same about all axes [kg·m²]
    centre: centre of mass from the geometric centre, body axes [m] (3)
    gravity: [m/s²]
    """

    half: float
    mass: float
    inertia: float
    centre: Array
    gravity: float

    @property
    def corners(self) -> Array:
        """Return the corners from the centre of mass, body axes [m] (8, 3)."""
        signs = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
        return self.half * signs - self.centre


class Motion(Record, frozen=True):
    """State of a block.

    position: of the centre of mass [m] (3)
    rotation: body axes in the world (3, 3)
    velocity: of the centre of mass [m/s] (3), then angular velocity in body axes [rad/s] (3); (6)
    """

    position: Array
    rotation: Array
    velocity: Array


@compiled
def contact_terms(position: Array, rotation: Array, corners: Array, margin: float) -> tuple[Array, Array]:
    """Return J (3n, 6), rows x, y, z of each corner lower than `margin` [m], and their heights [m] (n)."""
    n = 0
    heights = np.empty(len(corners))
    for i in range(len(corners)):
        heights[i] = position[2]
        for j in range(3):
            heights[i] += rotation[2, j] * corners[i, j]
        n += heights[i] < margin
    J, gaps = np.zeros((3 * n, 6)), np.empty(n)
    k = 0
    for i in range(len(corners)):
        if heights[i] >= margin:
            continue
        x, y, z = corners[i, 0], corners[i, 1], corners[i, 2]
        for a in range(3):
            J[3 * k + a, a] = 1.0
            J[3 * k + a, 3] = rotation[a, 2] * y - rotation[a, 1] * z
            J[3 * k + a, 4] = rotation[a, 0] * z - rotation[a, 2] * x
            J[3 * k + a, 5] = rotation[a, 1] * x - rotation[a, 0] * y
        gaps[k] = heights[i]
        k += 1
    return J, gaps


@compiled
def turned(rotation: Array, angles: Array) -> Array:
    """Return R exp([a]×) for a rotation vector a in body axes [rad] (3)."""
    x, y, z = angles[0], angles[1], angles[2]
    square = x * x + y * y + z * z
    angle = np.sqrt(square)
    first = np.sin(angle) / angle if angle > 1e-6 else 1.0 - square / 6.0
    second = (1.0 - np.cos(angle)) / square if angle > 1e-6 else 0.5 - square / 24.0
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return rotation @ (np.eye(3) + first * K + second * (K @ K))
