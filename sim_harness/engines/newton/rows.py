"""A step as the engine `newton` sees it: rows of speeds, what gives way, and what bodies do without them  [Macklin §5, §7].

    u = J v⁺       a = u + offset + softness p        offset = g/(dt + τ_d)        softness = e/(dt (dt + τ_d))
Ties: a = 0. Stops and normals: 0 ≤ a ⟂ p ≥ 0. Tangents: offset and softness are 0. All rows are speeds and all multipliers
impulses, so the paper's h and h² are in offset, softness and r alone.
"""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.solvers.linalg import forward
from idyn.types import Array
from sim_harness.engines.vectors import dot, gram

UNIT, TIME_STEP, EFFECTIVE_MASS = range(3)

NOTHING = 1e-22
"""Share of the largest w below which a row is all rounding, and moves nothing; a tie that is open by no more than"""

ROUNDING = 1e-6
"""this agrees with that [m or rad]."""


SLOWEST, GENTLEST = 0.1, 100.0
"""What errors of slower motion are compared with [m/s], or in short steps with what so much acceleration [m/s²] does in one: a
tolerance of 10⁻⁶ lets what rests creep by 0.1 µm/s."""


class Plan(NamedTuple):
    """What rows there are: `ties`, then `stops`, then three rows S, T, N for each of the contacts; m in all.

    offset, softness: (m) [m/s], [(m/s)/(N·s)]
    mu: of the contacts, may be inf (n)
    dt: [s]
    """

    ties: int
    stops: int
    offset: Array
    softness: Array
    mu: Array
    dt: float


class Constraints(NamedTuple):
    """A plan with what its rows do to the bodies, in coordinates z = Lᵀ v, where M = L Lᵀ.

    Y: J v = Y z (m, nv)
    D: Y Yᵀ (m, m)
    z_free: motion without impulses (nv)
    w: how far each row gives way to its own impulse; tangents both have their mean; where nothing moves 1 (m)
    r: what impulses are multiplied with in complementarity functions (m)
    scale: the largest speed of a row without impulses; `SLOWEST`, or `GENTLEST` dt, at the least [m/s]
    """

    plan: Plan
    Y: Array
    D: Array
    z_free: Array
    w: Array
    r: Array
    scale: float


@compiled
def normal_row(plan: Plan, i: int) -> int:
    """The row of a stop (i < stops) or of the normal of contact i − stops."""
    return plan.ties + i if i < plan.stops else plan.ties + plan.stops + 3 * (i - plan.stops) + 2


@compiled
def constraints(plan: Plan, J: Array, L: Array, z_free: Array, preconditioner: int) -> Constraints:
    """J: all rows (m, nv); L: factor of M (nv, nv)"""
    m, Y = len(J), J.copy()
    for i in range(m):
        forward(L, Y[i])
    D = gram(Y)
    drop_rounding(plan, Y, D)
    w, scale = np.ones(m), min(SLOWEST, GENTLEST * plan.dt)
    for i in range(m):
        if D[i, i] + plan.softness[i] > 0.0:
            w[i] = D[i, i] + plan.softness[i]
        # how far apart things are is no speed: a stop 3 rad away is not 3000 rad/s
        scale = max(scale, abs(dot(0.0, Y[i], z_free)))
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
    return Constraints(plan, Y, D, z_free, w, r, scale)


@compiled
def drop_rounding(plan: Plan, Y: Array, D: Array) -> None:
    """Rows of nothing but rounding ← 0, in place; of those that must be met, ties and normals, the plan ← p = 0."""
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
