"""Matrices of the convex program of stage I; facets of a polygonal friction cone."""

from typing import NamedTuple

import numpy as np

from idyn.laws.law import is_free
from idyn.library.kernels import compiled, entry
from idyn.library.records import Matrix, Vector
from idyn.solvers.linalg import axpy, dot
from idyn.types import Array


class Program(NamedTuple):
    """The program min ½ pᵀ D p + pᵀ e over the friction cones, with D_N p + b_N ≥ 0."""

    Y: Matrix  # see `ReducedProblem` (3n, nu)
    b: Vector  # see `ReducedProblem` [m/s] (3n)
    energy: Vector  # gradient e of the energy at p = 0 [m/s] (3n)
    mu: Vector  # friction coefficients (n)
    unlimited: bool  # whether every μ > 0 counts as ∞
    directions: Matrix  # corners of the friction polygon (k, 2)


class Rays(NamedTuple):
    """Rays of all contacts: k entries for each contact; entries may be unused."""

    axes: Array  # rays in (s, t, n) (n k, 3)
    G: Array  # R Y (n k, nu)
    slopes: Array  # R e (n k)
    taken: Array  # whether an entry is used (n k, bool)
    signed: Array  # whether the coordinate of an entry must be ≥ 0 (n k, bool)


@entry(Matrix, Vector, Vector)
def units(Y: Array, b: Array, energy: Array) -> tuple[float, float]:
    """Return the mean diagonal of D_NN [1/kg] and the largest speed of the problem [m/s]; 1 instead of zero."""
    n, d, speed = len(b) // 3, 0.0, 0.0
    for i in range(n):
        d += dot(Y[3 * i + 2], Y[3 * i + 2]) / n
        speed = max(speed, abs(b[3 * i + 2]))
        for r in range(3):
            speed = max(speed, abs(energy[3 * i + r]))
    return (d if d > 0.0 else 1.0), (speed if speed > 0.0 else 1.0)


@compiled
def cone_rays(program: Program) -> Rays:
    """Return the rays of the friction cones."""
    Y, energy, mu, directions = program.Y, program.energy, program.mu, program.directions
    n, k, m = len(mu), len(directions), Y.shape[1]
    axes, G, slopes = np.zeros((n * k, 3)), np.zeros((n * k, m)), np.zeros(n * k)
    taken, signed = np.zeros(n * k, dtype=np.bool_), np.ones(n * k, dtype=np.bool_)
    for i in range(n):
        free = is_free(mu[i], program.unlimited)
        for j in range(0 if mu[i] > 0.0 else 2, 3 if free or mu[i] == 0.0 else k):
            # axis: s, t or n; or (μ corner j, 1)
            row = k * i + j
            taken[row] = True
            if free:
                axes[row, j] = 1.0
                signed[row] = j == 2
            else:
                axes[row, 0], axes[row, 1], axes[row, 2] = mu[i] * directions[j, 0], mu[i] * directions[j, 1], 1.0
            # R e and G = R Y
            for r in range(3):
                a = axes[row, r]
                if a != 0.0:
                    slopes[row] += a * energy[3 * i + r]
                    axpy(a, Y[3 * i + r], G[row])
    return Rays(axes, G, slopes, taken, signed)


@compiled
def along_rays(program: Program, p: Array) -> Array:
    """Return coordinates of impulses p along the rays (n k). The tangential part is represented by the two rays next to it,
    the remaining normal part by two opposite rays."""
    mu, directions = program.mu, program.directions
    n, k = len(mu), len(directions)
    out = np.zeros(n * k)
    for i in range(n):
        ps, pt, pn = p[3 * i], p[3 * i + 1], p[3 * i + 2]
        if is_free(mu[i], program.unlimited):
            out[k * i], out[k * i + 1], out[k * i + 2] = ps, pt, pn
            continue
        if mu[i] == 0.0:
            out[k * i + 2] = pn
            continue
        # p_T = μ (share0 a + share1 e), both ≥ 0 between the right corners
        best, corner, share0, share1 = -np.inf, 0, 0.0, 0.0
        for j in range(k):
            a, e = directions[j], directions[(j + 1) % k]
            det = mu[i] * (a[0] * e[1] - a[1] * e[0])
            s0, s1 = (ps * e[1] - pt * e[0]) / det, (a[0] * pt - a[1] * ps) / det
            if min(s0, s1) > best:
                best, corner, share0, share1 = min(s0, s1), j, s0, s1
        # p_N = share0 + share1 + rest, which two opposite rays share
        rest = max(pn - share0 - share1, 0.0) / 2
        out[k * i + corner] += max(share0, 0.0) + rest
        out[k * i + (corner + 1) % k] += max(share1, 0.0)
        out[k * i + (corner + k // 2) % k] += rest
    return out


@entry(Program, float)
def assemble(program: Program, regularisation: float) -> tuple[Array, Array, Array, Array, float, float]:
    """Return (H, f, A, lower, unit, ε): the stage-I program in units of order one, the unit of impulse [N·s], and ε [1/kg].

    Rows of A: non-penetration (n); then for each contact k facets if its friction is limited, and p_N ≥ 0 if its friction is
    unlimited or zero (with limited μ > 0 the facets imply p_N ≥ 0).
    """
    Y, b, energy, mu, unlimited, directions = program
    n, k = len(mu), len(directions)
    d, speed = units(Y, b, energy)
    # H = D/d
    H = np.empty((3 * n, 3 * n))
    for i in range(3 * n):
        for j in range(i + 1):
            H[i, j] = H[j, i] = dot(Y[i], Y[j]) / d
    # rows of A
    count = n
    for i in range(n):
        free = is_free(mu[i], unlimited)
        count += (1 if free or mu[i] == 0.0 else 0) + (0 if free else k)
    A, lower = np.zeros((count, 3 * n)), np.zeros(count)
    # D_N p + b_N ≥ 0, p in its cone
    row = n
    for i in range(n):
        for j in range(3 * n):
            A[i, j] = H[3 * i + 2, j]
        lower[i] = -b[3 * i + 2] / speed
        free = is_free(mu[i], unlimited)
        if free or mu[i] == 0.0:
            A[row, 3 * i + 2] = 1.0
            row += 1
        if not free:
            row = facets(A, row, 3 * i, mu[i], directions)
    # + ε 1
    for i in range(3 * n):
        H[i, i] += regularisation
    return H, energy / speed, A, lower, speed / d, regularisation * d


@compiled
def facets(A: Array, row: int, column: int, mu: float, directions: Array) -> int:
    """Write the k rows `μ p_N·(apothem) − m_j · p_T ≥ 0` of one contact's friction cone. Return the index of the next row.

    m_j is the outward normal of the edge between corners j and j + 1 of the polygon.
    """
    k = len(directions)
    for j in range(k):
        a, c = directions[j], directions[(j + 1) % k]
        normal_s, normal_t = c[1] - a[1], a[0] - c[0]
        A[row, column] = -normal_s
        A[row, column + 1] = -normal_t
        A[row, column + 2] = mu * (normal_s * a[0] + normal_t * a[1])
        row += 1
    return row


@compiled
def turn(directions: Array, friction: Array, turned: Array) -> None:
    """Fill `turned` (k, 2) with the polygon, rotated such that a corner points along the unit vector `friction` (2); zero: not
    rotated. A polygon inscribed in a round cone then contains the impulses of the law."""
    a, c = friction
    if a == 0.0 and c == 0.0:
        a = 1.0
    for j in range(len(directions)):
        turned[j, 0] = a * directions[j, 0] - c * directions[j, 1]
        turned[j, 1] = c * directions[j, 0] + a * directions[j, 1]
