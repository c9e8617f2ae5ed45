"""What torques do to a robot whose contacts hold: M a = Pᵀ τ + Jᵀ f with J a = 0 at those that bear something."""

import numpy as np

from idyn.compiled import compiled
from idyn.reduction import contact_maps, contact_row
from idyn.robot import Robot
from idyn.solvers.linalg import backward, cholesky, forward
from idyn.types import Array, ContactSet, DynamicsTerms

EPSILON = 1e-9
"""Added to J M⁻¹ Jᵀ, relative to its mean diagonal: more rows than the robot can move in are no harm."""


def reaction(robot: Robot, terms: DynamicsTerms, contacts: ContactSet, bearing: Array, tau: Array) -> tuple[Array, Array]:
    """Acceleration [m/s², rad/s²] (nv) and sum of the contact forces in the world [N] (3) that torques (na) add to what is.

    bearing: which contacts hold (n)
    """
    force = np.zeros(robot.nv)
    force[robot.a] = tau
    return _reaction(
        terms.M, terms.axes, robot.support, contacts.bodies, contacts.others, contacts.points, contacts.normals,
        contacts.tangents, bearing, force,
    )  # fmt: skip


@compiled
def _reaction(M, axes, support, bodies, others, points, normals, tangents, bearing, force):
    n, nv = len(points), len(force)
    maps = np.empty((n, 3, 6))
    contact_maps(points, normals, tangents, maps)
    L, x = M.copy(), force.copy()
    cholesky(L)
    forward(L, x)
    held = np.flatnonzero(bearing)
    rows = 3 * len(held)
    Y, D, f = np.empty((rows, nv)), np.empty((rows, rows)), np.zeros(rows)  # rows of J L⁻ᵀ; J M⁻¹ Jᵀ; forces
    for row in range(rows):
        i = held[row // 3]
        for k in range(nv):
            Y[row, k] = contact_row(maps, i, row % 3, axes, support, bodies[i], others[i], k)
        forward(L, Y[row])
    for row in range(rows):
        for other in range(rows):
            D[row, other] = np.sum(Y[row] * Y[other])
        f[row] = -np.sum(Y[row] * x)
    small = EPSILON * np.trace(D) / max(rows, 1)
    for row in range(rows):
        D[row, row] += small
    cholesky(D)
    forward(D, f)
    backward(D, f)
    borne = np.zeros(3)
    for row in range(rows):
        x += f[row] * Y[row]
        borne += f[row] * maps[held[row // 3], row % 3, :3]
    backward(L, x)
    return x, borne
