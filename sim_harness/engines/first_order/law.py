"""Contact law of `first-order`: springs K and dampers B at the end of the step, with Coulomb friction.

    w = J v⁺ + R p − v̂        0 ≤ p_n ⟂ w_n ≥ 0        p_t = argmin {w_t · x, ‖x‖ ≤ μ p_n}        ties: w_n = 0
    R = 1 / (dt² K + dt B)        v̂_n = −E φ / dt        E = dt K / (dt K + B)        [Drumwright §4.2 (53), (61)]
Ties are bilateral rows. With R > 0 the law is a projection of z = p − w / R: p_n = max(z_n, 0), and p_t is the point nearest to
z_t of the disc of radius μ p_n. The convexified law projects z onto the whole cone in the metric R, as `sap.cone` does. It has
the same w_t, but w_n = μ ‖w_t‖ where a contact slides, so sliding bodies glide above the ground  [SAP §III-C].
"""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.types import Array
from sim_harness.engines.sap import cone as sap_cone
from sim_harness.engines.sap.cone import APART, SLIDING, STICKING

TANGENT, NORMAL = 0, 1
"""Columns of R and of weights."""

STEEPEST = 1e3
"""Friction coefficient used for infinite friction in the convexified law."""


class Table(NamedTuple):
    """Parameters of all items: contacts, stops and ties, in this order (N).

    mu: friction coefficients, 0 for stops, may be inf (N)
    tie: true for bilateral rows (N)
    R: compliance along tangents and normal [1/kg], ≥ 0 (N, 2)
    weights: diagonal of Y Yᵀ + R, mean effective inverse mass [1/kg]; 0 for items that move no body (N, 2)
    v_hat: v̂_n [m/s] (N)
    """

    mu: Array
    tie: Array
    R: Array
    weights: Array
    v_hat: Array


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
        p[0], p[1], p[2], region = sap_cone.project(z[0], z[1], z[2], _cone(mu, R))
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
    """Return the parameters of `sap.cone` for one contact (4)."""
    law = np.zeros(4)
    law[sap_cone.MU], law[sap_cone.R_T], law[sap_cone.R_N] = min(mu, STEEPEST), R[TANGENT], R[NORMAL]
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
        sap_cone.slope(z[0], z[1], _cone(mu, R), p[2], region, G)
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
