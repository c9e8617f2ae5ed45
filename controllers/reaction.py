"""What torques do to a robot whose contacts hold: M a = Pᵀ τ + Jᵀ f with J a = 0 at those that bear something."""

import numpy as np

from idyn.compiled import compiled
from idyn.memory import local
from idyn.solvers.linalg import backward, cholesky, copy, copy_rows, forward

EPSILON = 1e-9
"""Added to J M⁻¹ Jᵀ, relative to its mean diagonal: more rows than the robot can move in are no harm."""


@compiled
def react(d, p, tau, acceleration, borne):
    """Adds what torques (na) do to the acceleration [m/s², rad/s²] (nv) and to the sum of the contact forces [N] (3).

    d, p: a `Dynamics` and the impulses of its contacts (3n), of which those hold that push
    """
    nv, held = len(d.v), np.flatnonzero(p[2::3] > 0.0)
    rows = 3 * len(held)
    L, x = local((nv, nv)), local(nv)
    Y, D, f = local((rows, nv)), local((rows, rows)), local(rows)  # rows of J L⁻ᵀ; J M⁻¹ Jᵀ; forces
    copy_rows(d.M, L)
    x[:], f[:] = 0.0, 0.0
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
    for i in range(len(held)):
        s, n, fs, ft, fn = d.tangents[held[i]], d.normals[held[i]], f[3 * i], f[3 * i + 1], f[3 * i + 2]
        borne[0] += fs * s[0] + ft * (n[1] * s[2] - n[2] * s[1]) + fn * n[0]
        borne[1] += fs * s[1] + ft * (n[2] * s[0] - n[0] * s[2]) + fn * n[1]
        borne[2] += fs * s[2] + ft * (n[0] * s[1] - n[1] * s[0]) + fn * n[2]
    for row in range(rows):
        for j in range(nv):
            x[j] += f[row] * Y[row, j]
    backward(L, x)
    for j in range(nv):
        acceleration[j] += x[j]
