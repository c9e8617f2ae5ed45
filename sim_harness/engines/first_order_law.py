"""Contact law of `first-order`: springs K and dampers B at the end of the step, with Coulomb friction.

    w = J v⁺ + R p − v̂        0 ≤ p_n ⟂ w_n ≥ 0        p_t = argmin {w_t · x, ‖x‖ ≤ μ p_n}        ties: w_n = 0
    R = 1 / (dt² K + dt B)        v̂_n = −E φ / dt        E = dt K / (dt K + B)        [Drumwright §4.2 (53), (61)]
Ties are bilateral rows. With R > 0 the law is a projection of z = p − w / R: p_n = max(z_n, 0), and p_t is the point nearest to
z_t of the disc of radius μ p_n. The convexified law projects z onto the whole cone in the metric R, as `sap` does. It has the
same w_t, but w_n = μ ‖w_t‖ where a contact slides, so sliding bodies glide above the ground  [SAP §III-C].
"""

from typing import NamedTuple

import numpy as np

from idyn.library.kernels import compiled
from idyn.library.records import Flags, Matrix, Vector
from idyn.types import Array
from sim_harness.engines.linalg import Sparse, sparse_pushed, speeds
from sim_harness.engines.sap_newton import APART, MU, R_N, R_T, SLIDING, STICKING, cone_slope, project_cone

TANGENT, NORMAL = 0, 1  # columns of R and of weights
STEEPEST = 1e3  # friction coefficient used for infinite friction in the convexified law


class Table(NamedTuple):
    """Parameters of all items: contacts, stops and ties, in this order (N)."""

    mu: Vector  # friction coefficients, 0 for stops, may be inf (N)
    tie: Flags  # true for bilateral rows (N)
    R: Matrix  # compliance along tangents and normal [1/kg], ≥ 0 (N, 2)
    weights: Matrix  # diagonal of Y Yᵀ + R, mean effective inverse mass [1/kg]; 0 for items that move no body (N, 2)
    v_hat: Vector  # v̂_n [m/s] (N)


@compiled
def law_impulse(z: Array, mu: float, tie: bool, R: Array, convex: bool, p: Array) -> int:
    """Set p to the impulse of the law for z = p − w / R (3), and return the region.

    convex: whether to use the convexified law
    """
    if tie:
        p[0], p[1], p[2] = 0.0, 0.0, z[2]
        return STICKING
    radius = np.sqrt(z[0] * z[0] + z[1] * z[1])
    if convex and mu > 0.0:
        p[0], p[1], p[2], region = project_cone(z[0], z[1], z[2], _cone(mu, R))
        return region
    p[0], p[1], p[2] = 0.0, 0.0, max(z[2], 0.0)
    if not z[2] > 0.0:
        return APART
    if mu == np.inf or radius <= mu * z[2]:
        p[0], p[1] = z[0], z[1]
        return STICKING
    p[0], p[1] = mu * z[2] / radius * z[0], mu * z[2] / radius * z[1]
    return SLIDING


@compiled
def _cone(mu: float, R: Array) -> Array:
    """Return the parameters of `project_cone` for one contact (4)."""
    law = np.zeros(4)
    law[MU], law[R_T], law[R_N] = min(mu, STEEPEST), R[TANGENT], R[NORMAL]
    return law


@compiled
def slope(z: Array, mu: float, tie: bool, R: Array, G: Array) -> int:
    """G ← −∂p/∂u [kg] (3, 3) of the convexified law, symmetric and ⪰ 0, with dz = −du/R; return the region."""
    p = np.empty(3)
    region = law_impulse(z, mu, tie, R, True, p)
    for i in range(3):
        for j in range(3):
            G[i, j] = 0.0
    if region != APART and (mu == 0.0 or tie):
        G[2, 2] = 1.0 / R[NORMAL]
    elif region != APART:
        cone_slope(z[0], z[1], _cone(mu, R), p[2], region, G)
    return region


@compiled
def violation(p: Array, w: Array, table: Table, convex: bool) -> float:
    """Return the violation of the law by impulses p (N, 3) at w (N, 3) as a velocity [m/s]; 0 if and only if they satisfy it.

    It is the largest entry of weights · (P(p − w/weights) − p).
    """
    worst = 0.0
    z, there = np.empty(3), np.empty(3)
    for i in range(len(p)):
        weights = table.weights[i]
        if weights[NORMAL] == 0.0:
            continue
        if table.tie[i]:
            worst = max(worst, abs(w[i, 2]))
            continue
        for e in range(3):
            weight = weights[NORMAL if e == 2 else TANGENT]
            z[e] = p[i, e] - (w[i, e] / weight if weight > 0.0 else 0.0)
        if not convex:  # the radius of the friction disc is μ p_n, not μ z_n
            worst = max(worst, abs(max(z[2], 0.0) - p[i, 2]) * weights[NORMAL])
            z[2] = p[i, 2]
        law_impulse(z, table.mu[i], False, weights, convex, there)
        for e in range(3):
            worst = max(worst, abs(there[e] - p[i, e]) * weights[NORMAL if e == 2 else TANGENT])
        if not np.isfinite(z[0] + z[1] + z[2]):
            return np.inf
    return worst


STIFFEST = 1e-10
"""Lower bound of R in linear systems, as a share of the weights. A bound of 10⁻ᵏ costs a Newton step k digits, and where R = 0
several steps are needed. Every round evaluates w anew, which corrects both errors."""


class Rules(NamedTuple):
    """Termination of Newton's method."""

    tolerance: float  # largest violation of a solution [m/s]
    motion: float  # ‖Lᵀ v‖, its rounding error bounds the attainable accuracy [√J]
    max_steps: int  # largest number of Newton steps per call


@compiled
def law_velocity(Y: Sparse, table: Table, w: Array, p: Array) -> Array:
    """Return w + (Y Yᵀ + R) p (N, 3)."""
    u = speeds(Y, sparse_pushed(Y, p))
    for i in range(len(p)):
        for e in range(3):
            u[i, e] += w[i, e] + table.R[i, NORMAL if e == 2 else TANGENT] * p[i, e]
    return u


@compiled
def add_product(Y: Sparse, i: int, G: Array, plain: bool, lower: Array, upper: Array) -> None:
    """Add Yᵢᵀ G Yᵢ to the matrix with lower triangle `lower` and upper triangle `upper`ᵀ; plain: only G₂₂ is non-zero."""
    left, right = np.empty(3), np.empty(3)
    for x in range(Y.begin[i], Y.begin[i + 1]):
        row, a = Y.columns[x], Y.rows[x]
        for e in range(3):
            left[e] = a[0] * G[0, e] + a[1] * G[1, e] + a[2] * G[2, e]
            right[e] = G[e, 0] * a[0] + G[e, 1] * a[1] + G[e, 2] * a[2]
        for k in range(Y.begin[i], x + 1):
            column, c = Y.columns[k], Y.rows[k]
            if plain:
                both = left[2] * c[2]
                lower[row, column] += both
                upper[row, column] += both
            else:
                lower[row, column] += left[0] * c[0] + left[1] * c[1] + left[2] * c[2]
                upper[row, column] += right[0] * c[0] + right[1] * c[1] + right[2] * c[2]


@compiled
def eliminate(lower: Array, upper: Array, first: Array, x: Array) -> None:
    """x ← A⁻¹ x in place; A has the lower triangle `lower` and the upper triangle `upper`ᵀ, overwritten by its factors."""
    n = len(x)
    # A = L U row by row with unit diagonal of L, and x ← L⁻¹ x
    for i in range(n):
        for j in range(first[i], i):
            s, t = lower[i, j], upper[i, j]
            for k in range(max(first[i], first[j]), j):
                s -= lower[i, k] * upper[j, k]
                t -= lower[j, k] * upper[i, k]
            lower[i, j], upper[i, j] = s / upper[j, j], t
            x[i] -= lower[i, j] * x[j]
        s = upper[i, i]
        for k in range(first[i], i):
            s -= lower[i, k] * upper[i, k]
        upper[i, i] = s
    # x ← U⁻¹ x
    for i in range(n - 1, -1, -1):
        x[i] /= upper[i, i]
        for k in range(first[i], i):
            x[k] -= upper[i, k] * x[i]
