"""Constraint rows of the engine `newton` at velocity level, with compliance and scaling  [Macklin §5, §7].

    u = J v⁺       a = u + offset + softness p        offset = g/(dt + τ_d)        softness = e/(dt (dt + τ_d))
Ties (bilateral rows): a = 0. Stops and normals: 0 ≤ a ⟂ p ≥ 0. Tangents: offset and softness are 0. All rows are velocities and
all multipliers impulses, so the paper's h and h² appear only in offset, softness and r.
"""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.solvers.linalg import forward
from idyn.types import Array
from sim_harness.engines.vectors import dot, gram

UNIT, TIME_STEP, EFFECTIVE_MASS = range(3)

NOTHING = 1e-22
"""A row whose diagonal of D is below this share of the largest one is rounding error and moves no body."""

ROUNDING = 1e-6
"""Largest error of a constraint that its row cannot change [m or rad]; the constraint then counts as satisfied."""


SLOWEST, GENTLEST = 0.1, 100.0
"""Smallest speed scale for tolerances: SLOWEST [m/s], or in short steps GENTLEST [m/s²] times dt. With a tolerance of 10⁻⁶ a
resting body may creep by 0.1 µm/s."""


class Plan(NamedTuple):
    """Layout and parameters of the rows: `ties`, then `stops`, then rows S, T, N of each contact; m in all.

    ties, stops: number of rows
    offset: g/(dt + τ_d), 0 for tangents [m/s] (m)
    softness: e/(dt (dt + τ_d)), 0 for tangents [(m/s)/(N·s)] (m)
    mu: friction coefficients of the contacts, may be inf (n)
    dt: step [s]
    """

    ties: int
    stops: int
    offset: Array
    softness: Array
    mu: Array
    dt: float


class Constraints(NamedTuple):
    """A plan with its matrices in the coordinates z = Lᵀ v, M = L Lᵀ.

    Y: J v = Y z (m, nv)
    D: Y Yᵀ (m, m)
    z_free: motion without impulses (nv)
    w: weight of a row (m): diagonal of D plus softness; for both tangents of a contact the mean of their diagonals of D; 1
        for rows that move no body
    r: factor of impulses in complementarity functions (m)
    scale: largest speed of a row without impulses, at least min(`SLOWEST`, `GENTLEST` dt) [m/s]
    soft: share of w that every row yields per impulse, see `softened`
    """

    plan: Plan
    Y: Array
    D: Array
    z_free: Array
    w: Array
    r: Array
    scale: float
    soft: float


@compiled
def normal_row(plan: Plan, i: int) -> int:
    """Return the row of stop i (i < stops) or of the normal of contact i − stops."""
    return plan.ties + i if i < plan.stops else plan.ties + plan.stops + 3 * (i - plan.stops) + 2


@compiled
def constraints(plan: Plan, J: Array, L: Array, z_free: Array, preconditioner: int) -> Constraints:
    """Return the matrices of the plan.

    J: all rows (m, nv)
    L: Cholesky factor of M (nv, nv)
    preconditioner: UNIT, TIME_STEP or EFFECTIVE_MASS, determines r
    """
    m, Y = len(J), J.copy()
    for i in range(m):
        forward(L, Y[i])
    D = gram(Y)
    drop_rounding(plan, Y, D)
    w, scale = np.ones(m), min(SLOWEST, GENTLEST * plan.dt)
    for i in range(m):
        if D[i, i] + plan.softness[i] > 0.0:
            w[i] = D[i, i] + plan.softness[i]
        # offsets do not enter the scale: a stop 3 rad away is no speed of 3000 rad/s
        scale = max(scale, abs(dot(0.0, Y[i], z_free)))
    # tangents: mean of both diagonals; r by preconditioner: 1/dt or 1/dt² (UNIT), 1 (TIME_STEP), w (EFFECTIVE_MASS)
    r = w.copy()
    for i in range(len(plan.mu)):
        t = plan.ties + plan.stops + 3 * i
        mean = 0.5 * (D[t, t] + D[t + 1, t + 1])
        for e in range(2):
            w[t + e] = r[t + e] = mean if mean > 0.0 else 1.0
            if preconditioner == UNIT:
                r[t + e] = 1.0 / plan.dt
    for i in range(plan.stops + len(plan.mu)):
        row = normal_row(plan, i)
        if preconditioner == UNIT:
            r[row] = 1.0 / plan.dt**2
    if preconditioner == TIME_STEP:
        r[:] = 1.0
    return Constraints(plan, Y, D, z_free, w, r, scale, 0.0)


@compiled
def softened(c: Constraints, soft: float) -> Constraints:
    """Return the constraints with u = J v⁺ + soft w p in all rows, tangents included: redundant impulses are then unique."""
    D = c.D.copy()
    for i in range(len(D)):
        D[i, i] += soft * c.w[i]
    return Constraints(c.plan, c.Y, D, c.z_free, c.w, c.r, c.scale, soft)


@compiled
def drop_rounding(plan: Plan, Y: Array, D: Array) -> None:
    """Set rows that are rounding error, and therefore move no body, to 0 in place.

    When such a row is a satisfied tie, stop or normal, its condition in the plan becomes p = 0.
    """
    m, longest = len(D), 0.0
    for i in range(m):
        longest = max(longest, D[i, i])
    for i in range(m):
        if D[i, i] > NOTHING * longest:
            continue
        for d in range(Y.shape[1]):
            Y[i, d] = 0.0
        for j in range(m):
            D[i, j] = D[j, i] = 0.0
        agrees = abs(plan.offset[i]) * plan.dt <= ROUNDING if i < plan.ties else plan.offset[i] >= -ROUNDING / plan.dt
        if agrees:
            plan.offset[i], plan.softness[i] = 0.0, 1.0
