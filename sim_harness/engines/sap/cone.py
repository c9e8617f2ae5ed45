"""One contact of `sap`: its regularisation R, its impulse as a function of velocity, and the derivative  [SAP §V].

    y = R⁻¹ (v̂ − v_c)      γ = P_F(y), the nearest point of the friction cone F in the metric R = diag(R_t, R_t, R_n)
Contact coordinates are (s, t, n); impulses and y in N·s, R in 1/kg.

A contact with μ = 0 and zero tangents is a stop. A contact with μ = ∞ is bilateral: γ = y for all y.
"""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.types import Array

APART, STICKING, SLIDING = 0, 1, 2
"""Regions of the projection: III, I and II of the paper."""

MU, R_T, R_N, V_HAT = 0, 1, 2, 3
"""Columns of the array of contact parameters: μ, R_t and R_n [1/kg], v̂_n [m/s]."""


@compiled
def project_cone(y_s: float, y_t: float, y_n: float, law: Array) -> tuple[float, float, float, int]:
    """Return γ = P_F(y) and its region  [SAP §V-A, App. C].

    On the boundary of the cone the region is sticking, on the boundary of its polar cone sliding, as `cone_slope` requires. The
    condition y_n ≥ 0 is added to y_r ≤ μ y_n, because without it a frictionless contact could pull.
    """
    mu = law[MU]
    if mu == np.inf:
        return y_s, y_t, y_n, STICKING
    y_r = np.sqrt(y_s * y_s + y_t * y_t)
    if y_n >= 0.0 and y_r <= mu * y_n:
        return y_s, y_t, y_n, STICKING
    ratio = mu * law[R_T] / law[R_N]  # μ̂; μ̃² = μ μ̂
    if y_n < -ratio * y_r:
        return 0.0, 0.0, 0.0, APART
    normal = max((y_n + ratio * y_r) / (1.0 + mu * ratio), 0.0)
    # slides: γ_t = μ γ_n t̂
    share = mu * normal / y_r
    return share * y_s, share * y_t, normal, SLIDING


@compiled
def cone_slope(y_s: float, y_t: float, law: Array, normal: float, region: int, G: Array) -> None:
    """G ← −∂γ/∂v_c [kg] (3, 3), symmetric and ⪰ 0; normal, region: γ_n and region from `project_cone`  [SAP App. D].

    Sliding: G = a aᵀ / (R_n (1 + μ̃²)) + μ γ_n / (R_t y_r) P⊥ with a = (μ t̂, 1) and P⊥ across t̂ in the tangent plane.
    """
    for i in range(3):
        for j in range(3):
            G[i, j] = 0.0
    if region == STICKING:
        G[0, 0] = G[1, 1] = 1.0 / law[R_T]
        G[2, 2] = 1.0 / law[R_N]
    elif region == SLIDING:  # along a = (μ t̂, 1), and across t̂
        mu, y_r = law[MU], np.sqrt(y_s * y_s + y_t * y_t)
        a, b = y_s / y_r, y_t / y_r
        along = 1.0 / (law[R_N] + mu * mu * law[R_T])
        across = mu * normal / (law[R_T] * y_r)
        pull = along * mu * mu
        G[0, 0], G[1, 1] = pull * a * a + across * b * b, pull * b * b + across * a * a
        G[0, 1] = G[1, 0] = (pull - across) * a * b
        G[0, 2] = G[2, 0] = along * mu * a
        G[1, 2] = G[2, 1] = along * mu * b
        G[2, 2] = along


@compiled
def regularisation(w: float, stiffness: float, dissipation: float, dt: float, beta: float) -> float:
    """Return R_n = max(β² w / 4π², 1 / (dt k (dt + τ_d))) [1/kg]  [SAP (29)].

    The first term limits the stiffness to that of a spring with period β dt.

    w: effective inverse mass of the constraint [1/kg]
    stiffness: k [N/m], may be inf
    dissipation: τ_d [s]
    """
    return max(beta * beta / (4.0 * np.pi * np.pi) * w, 1.0 / (dt * stiffness * (dt + dissipation)))
