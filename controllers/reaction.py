"""What torques do to a robot whose contacts hold: M a = Pᵀ τ + Jᵀ f with J a = 0 at those that bear something."""

import numpy as np

from idyn.compiled import compiled
from idyn.dynamics import Dynamics
from idyn.solvers.linalg import backward, cholesky, forward
from idyn.types import Array

EPSILON = 1e-9
"""Added to J M⁻¹ Jᵀ, relative to its mean diagonal: more rows than the robot can move in are no harm."""


def reaction(dynamics: Dynamics, bearing: Array, tau: Array) -> tuple[Array, Array]:
    """Acceleration [m/s², rad/s²] (nv) and sum of the contact forces in the world [N] (3) that torques (na) add to what is.

    bearing: which contacts hold (n)
    """
    acceleration, borne = _reaction(dynamics.fields, bearing, tau)
    return acceleration, borne


@compiled
def _reaction(d, bearing, tau):
    nv = len(d.v)
    L, x = d.M.copy(), np.zeros(nv)
    for k in range(len(tau)):
        x[d.a[k]] = tau[k]
    cholesky(L)
    forward(L, x)
    held = np.flatnonzero(bearing)
    rows = 3 * len(held)
    Y, D, f = np.empty((rows, nv)), np.empty((rows, rows)), np.zeros(rows)  # rows of J L⁻ᵀ; J M⁻¹ Jᵀ; forces
    for row in range(rows):
        Y[row] = d.J[3 * held[row // 3] + row % 3]
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
        i = held[row // 3]
        s, n = d.tangents[i], d.normals[i]
        borne += f[row] * (s if row % 3 == 0 else n if row % 3 == 2 else np.cross(n, s))
    backward(L, x)
    return x, borne
