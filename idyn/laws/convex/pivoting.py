"""The convex programs as linear complementarity problems, solved exactly by pivoting.

In coordinates c ≥ 0 along the rays of the friction cones, p = Rᵀ c, G = R Y (`idyn.laws.convex.program`):

    contact energy    0 ≤ c ⟂ G Gᵀ c + R b ≥ 0
    kinetic energy    0 ≤ c ⟂ G (Gᵀ c − Y_Nᵀ y) + R e ≥ 0,      0 ≤ y ⟂ Y_N Gᵀ c + b_N ≥ 0

The problem of the contact energy is solved by principal pivoting on the rows of G, in time linear in the contacts.
Non-penetration is implied: if R û ≥ 0 on all rays of a cone, the contact opens. With unlimited friction tangential velocities
are zero, as in the no-slip law. The problem of the kinetic energy is positive semidefinite and solved by Lemke's method; rays
of free sign are included with both signs.
"""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.jit.stack import stack_array
from idyn.laws.convex.basis import solve_basis
from idyn.laws.convex.program import Program, Rays, cone_rays, units
from idyn.laws.law import is_free
from idyn.laws.no_slip import hold
from idyn.solvers.lemke import covering, lemke, pivot
from idyn.status import NOT_CERTIFIED, SOLVED
from idyn.types import Array

MOST_PIVOTS = 1000
"""Maximum number of pivots of one attempt."""

SPREADS = 0.01, 1.0
"""Spreads of the first and second covering vector, see `idyn.solvers.lemke.covering`. Problems of standing robots have many
ties: the spread 0.01 avoids them and halves the number of pivots."""

FEW = 8
"""Maximum number of contacts for which Lemke's method takes less time than a QP back end."""


@compiled
def least_contact_energy(
    Y: Array, b: Array, mu: Array, unlimited: bool, directions: Array, rule: int, rank: float, max_pivots: int
) -> tuple[Array, int, int]:
    """Solve the program of the contact energy. Return p (3n), status and pivots. rule, rank: see `idyn.laws.no_slip.hold`"""
    n, k, m = len(mu), len(directions), Y.shape[1]
    rays = 0
    for i in range(n):
        rays += 1 if mu[i] == 0.0 or is_free(mu[i], unlimited) else k
    # G and R b: each ray counts as the normal row of a separate contact; unlimited friction adds tangential rows
    rows, speeds = np.zeros((3 * rays, m)), np.zeros(3 * rays)
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
    # 0 ≤ c ⟂ G Gᵀ c + R b ≥ 0, zero tangential velocity with unlimited friction
    no_contact = np.zeros(rays, dtype=np.bool_)
    loads, _, status, pivots, _ = hold(rows, speeds, bilateral, no_contact, no_contact, rule, rank, max_pivots)
    # p = Rᵀ c
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
def pivot_to_basis(program: Program, basis: Array) -> tuple[Array, Array, Array, int, int]:
    """Minimise the kinetic energy by pivoting, for at most `FEW` contacts (otherwise NOT_CERTIFIED). `basis` (n, k + 1)
    receives the final basis.

    Return p (3n), multipliers y (n), flags of the face (n, 2 + k), status and pivots.
    """
    n, k = len(program.mu), len(program.directions)
    if n > FEW:
        return np.zeros(3 * n), np.zeros(n), np.zeros((n, 2 + k), dtype=np.bool_), NOT_CERTIFIED, 0
    # LCP, and the final basis of Lemke's method
    rays, place, sign = cone_rays(program), stack_array(2 * n * k, np.int64), stack_array(2 * n * k)
    count = _list_columns(rays, place, sign)
    M, q = stack_array((count + n, count + n)), stack_array(count + n)
    _fill_problem(program, rays, (place[:count], sign), M, q)
    status, pivots, basic = pivot(M, q, MOST_PIVOTS, covering(len(q), SPREADS[0]))
    # by contact: loaded rays, then y > 0; solution at this basis
    for i in range(n):
        for j in range(k):
            basis[i, j] = False
        basis[i, k] = basic[count + i]
    for i in range(count):
        if basic[i]:
            basis[place[i] // k, place[i] % k] = True
    p, y, flags, solved = solve_basis(program, basis, False)
    return p, y, flags, SOLVED if status == SOLVED and solved else NOT_CERTIFIED, pivots


@compiled
def least_kinetic_energy(program: Program, max_pivots: int) -> tuple[Array, Array, int, int]:
    """Minimise the kinetic energy by Lemke's method. Return p (3n), multipliers of non-penetration y (n), status and pivots."""
    n, k = len(program.mu), len(program.directions)
    d, speed = units(program.Y, program.b, program.energy)
    # LCP, by Lemke's method; after a failure with another covering vector
    rays, place, sign = cone_rays(program), stack_array(2 * n * k, np.int64), stack_array(2 * n * k)
    count = _list_columns(rays, place, sign)
    M, q = np.empty((count + n, count + n)), np.empty(count + n)
    _fill_problem(program, rays, (place[:count], sign), M, q)
    z, status, pivots, _ = lemke(M, q, max_pivots, covering(len(q), SPREADS[0]))
    if status != SOLVED:
        z, status, more, _ = lemke(M, q, max_pivots, covering(len(q), SPREADS[1]))
        pivots += more
    # p = Rᵀ c, and y
    p, y = np.zeros(3 * n), np.empty(n)
    for i in range(count):
        for r in range(3):
            p[3 * (place[i] // k) + r] += sign[i] * max(z[i], 0.0) * rays.axes[place[i], r] * speed / d
    for j in range(n):
        y[j] = max(z[count + j], 0.0) * speed / d
    return p, y, status, pivots


@compiled
def _list_columns(rays: Rays, place: Array, sign: Array) -> int:
    """List the load variables of the LCP: fill their ray indices `place` and their signs, both signs for rays of free sign.
    Return their number."""
    count = 0
    for row in range(len(rays.taken)):
        for turn in range((1 if rays.signed[row] else 2) if rays.taken[row] else 0):
            place[count], sign[count] = row, 1.0 - 2.0 * turn
            count += 1
    return count


@compiled
def _fill_problem(program: Program, rays: Rays, columns: tuple[Array, Array], M: Array, q: Array) -> None:
    """Fill the LCP of the kinetic energy in units of order one, loads first, then multipliers.

    columns: indices and signs from `_list_columns`
    """
    place, sign = columns
    Y, size, count = program.Y, len(q), len(place)
    d, speed = units(Y, program.b, program.energy)
    rows = stack_array((size, Y.shape[1]))
    for i in range(size):
        # rows G, Y_N;  q = R e, b_N
        for c in range(Y.shape[1]):
            rows[i, c] = sign[i] * rays.G[place[i], c] if i < count else Y[3 * (i - count) + 2, c]
        q[i] = (sign[i] * rays.slopes[place[i]] if i < count else program.b[3 * (i - count) + 2]) / speed
        # M = [G Gᵀ, −G Y_Nᵀ; Y_N Gᵀ, 0]
        for j in range(i + 1):
            s = 0.0
            for c in range(Y.shape[1]):
                s += rows[i, c] * rows[j, c]
            M[i, j] = 0.0 if j >= count else s / d
            M[j, i] = -M[i, j] if i >= count else M[i, j]
