"""The convex programs as complementarity problems: exact bases, and no iteration that ends at a tolerance.

In coordinates c ≥ 0 along the rays of the friction cones, p = Rᵀ c, G = R Y (`idyn.laws.rays`):

    contact energy    0 ≤ c ⟂ G Gᵀ c + R b ≥ 0
    kinetic energy    0 ≤ c ⟂ G (Gᵀ c − Y_Nᵀ y) + R e ≥ 0,      0 ≤ y ⟂ Y_N Gᵀ c + b_N ≥ 0

The first is principal pivoting on the rows G, linear in the contacts; non-penetration need not be asked for, because a velocity
that no ray of the cone opposes opens the contact. Where friction is free tangential rows vanish, as in the no-slip law.
The second is positive semidefinite, for Lemke; rays of free sign are taken twice.
"""

import numpy as np

from idyn.compiled import compiled
from idyn.laws.convex_basis import basis_of, solve_basis
from idyn.laws.law import is_free
from idyn.laws.no_slip import hold
from idyn.laws.rays import cone_rays, units
from idyn.solvers.lemke import covering, lemke
from idyn.solvers.linalg import copy_rows
from idyn.status import NOT_CERTIFIED, SOLVED

MOST_PIVOTS = 1000
"""Of one attempt."""

FEW = 8
"""Up to so many contacts Lemke's method costs less than a QP back end."""


@compiled
def least_contact_energy(Y, b, mu, unlimited, directions, rule, rank, max_pivots):
    """p (3n), status and pivots; rule, rank: see `idyn.laws.no_slip.hold`."""
    n, k, m = len(mu), len(directions), Y.shape[1]
    rays = 0
    for i in range(n):
        rays += 1 if mu[i] == 0.0 or is_free(mu[i], unlimited) else k
    rows, speeds = np.zeros((3 * rays, m)), np.zeros(3 * rays)  # each ray as the normal of a contact of its own
    bilateral, row = np.zeros(3 * rays, dtype=np.bool_), 0
    for i in range(n):
        free = is_free(mu[i], unlimited)
        for j in range(1 if mu[i] == 0.0 or free else k):
            rows[3 * row + 2], speeds[3 * row + 2] = Y[3 * i + 2], b[3 * i + 2]
            for r in range(2):
                if free:
                    rows[3 * row + r], speeds[3 * row + r] = Y[3 * i + r], b[3 * i + r]
                    bilateral[3 * row + r] = True
                elif mu[i] > 0.0:
                    rows[3 * row + 2] += mu[i] * directions[j, r] * Y[3 * i + r]
                    speeds[3 * row + 2] += mu[i] * directions[j, r] * b[3 * i + r]
            row += 1
    nobody = np.zeros(rays, dtype=np.bool_)
    loads, _, status, pivots, _ = hold(rows, speeds, bilateral, nobody, nobody, rule, rank, max_pivots)
    p, row = np.zeros(3 * n), 0
    for i in range(n):
        free = is_free(mu[i], unlimited)
        for j in range(1 if mu[i] == 0.0 or free else k):
            load = loads[3 * row + 2]
            p[3 * i + 2] += load
            for r in range(2):
                if free:
                    p[3 * i + r] = loads[3 * row + r]
                elif mu[i] > 0.0:
                    p[3 * i + r] += mu[i] * directions[j, r] * load
            row += 1
    return p, status, pivots


@compiled
def pivot_to_basis(program, basis):
    """The least kinetic energy by pivoting, and the basis (n, k + 1) that is read off it, which overwrites the last one.

    Returns p (3n), multipliers y (n), the face's flags (n, 2 + k), status and pivots; not certified where contacts are not few.
    """
    n = len(program.mu)
    p, y, status, pivots = np.zeros(3 * n), np.zeros(n), NOT_CERTIFIED, 0
    flags = np.zeros((n, 2 + len(program.directions)), dtype=np.bool_)
    if n <= FEW:
        p, y, status, pivots = least_kinetic_energy(program, MOST_PIVOTS)
    if status == SOLVED:
        copy_rows(basis_of(program, p, y), basis)
        _, y, flags, solved = solve_basis(program, basis, False)
        status = SOLVED if solved else NOT_CERTIFIED
    return p, y, flags, status, pivots


@compiled
def least_kinetic_energy(program, max_pivots):
    """p (3n), multipliers of non-penetration y (n), status and pivots."""
    Y, b, n, k, m = program.Y, program.b, len(program.mu), len(program.directions), program.Y.shape[1]
    d, speed = units(Y, b, program.energy)
    axes, G, slopes, taken, signed = cone_rays(program)
    place, sign = np.empty(2 * n * k, dtype=np.int64), np.empty(2 * n * k)
    count = 0
    for row in range(n * k):
        for turn in range((1 if signed[row] else 2) if taken[row] else 0):
            place[count], sign[count] = row, 1.0 - 2.0 * turn
            count += 1
    size = count + n
    M, q = np.zeros((size, size)), np.empty(size)
    for i in range(count):
        q[i] = sign[i] * slopes[place[i]] / speed
        for j in range(i + 1):
            s = 0.0
            for c in range(m):
                s += G[place[i], c] * G[place[j], c]
            M[i, j] = M[j, i] = sign[i] * sign[j] * s / d
        for j in range(n):
            s = 0.0
            for c in range(m):
                s += G[place[i], c] * Y[3 * j + 2, c]
            M[i, count + j], M[count + j, i] = -sign[i] * s / d, sign[i] * s / d
    for j in range(n):
        q[count + j] = b[3 * j + 2] / speed
    z, status, pivots, _ = lemke(M, q, max_pivots, covering(len(q), False))
    if status != SOLVED:
        z, status, more, _ = lemke(M, q, max_pivots, covering(len(q), True))
        pivots += more
    p, y = np.zeros(3 * n), np.empty(n)
    for i in range(count):
        for r in range(3):
            p[3 * (place[i] // k) + r] += sign[i] * max(z[i], 0.0) * axes[place[i], r] * speed / d
    for j in range(n):
        y[j] = max(z[count + j], 0.0) * speed / d
    return p, y, status, pivots
