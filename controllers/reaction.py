"""What torques do to a robot whose contacts hold: M a = Pᵀ τ + Jᵀ f with J a = 0 at those that bear something."""

import numpy as np

from idyn.compiled import compiled
from idyn.dynamics import Dynamics
from idyn.solvers.linalg import backward, cholesky, copy, forward
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
    nv, held = len(d.v), np.flatnonzero(bearing)
    rows = 3 * len(held)
    L, x = d.M.copy(), np.zeros(nv)
    Y, D, f = np.empty((rows, nv)), np.empty((rows, rows)), np.zeros(rows)  # rows of J L⁻ᵀ; J M⁻¹ Jᵀ; forces
    for k in range(len(tau)):
        x[d.a[k]] = tau[k]
    cholesky(L)
    forward(L, x)
    trace = 0.0
    for row in range(rows):
        copy(d.J[3 * held[row // 3] + row % 3], Y[row])
        forward(L, Y[row])
        for j in range(nv):
            f[row] -= Y[row, j] * x[j]
        for other in range(row + 1):
            along = 0.0
            for j in range(nv):
                along += Y[row, j] * Y[other, j]
            D[row, other] = along
        trace += D[row, row]
    for row in range(rows):
        D[row, row] += EPSILON * trace / rows
    cholesky(D)
    forward(D, f)
    backward(D, f)
    borne = np.zeros(3)
    for i in range(len(held)):
        s, n, fs, ft, fn = d.tangents[held[i]], d.normals[held[i]], f[3 * i], f[3 * i + 1], f[3 * i + 2]
        borne[0] += fs * s[0] + ft * (n[1] * s[2] - n[2] * s[1]) + fn * n[0]
        borne[1] += fs * s[1] + ft * (n[2] * s[0] - n[0] * s[2]) + fn * n[1]
        borne[2] += fs * s[2] + ft * (n[0] * s[1] - n[1] * s[0]) + fn * n[2]
    for row in range(rows):
        for j in range(nv):
            x[j] += f[row] * Y[row, j]
    backward(L, x)
    return x, borne
