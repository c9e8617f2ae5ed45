"""Projected Gauss–Seidel sweeps: solve one contact after the other for its own residual, with friction in its disc.

Convergence is slow for stacked bodies. But the sweeps find the contact modes from which exact Newton steps converge when those
steps and the paper's iteration cycle [Jean and Moreau 1992].
"""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.types import Array
from sim_harness.engines.newton.exact import disc, motion
from sim_harness.engines.newton.rows import Constraints, normal_row
from sim_harness.engines.vectors import add, dot


@compiled
def sweep(c: Constraints, p: Array, sweeps: int) -> None:
    """Update impulses p (m) in place by a number of sweeps."""
    plan, z = c.plan, motion(c, p)
    # p ← p − a / w, ≥ 0 except for ties; then p_T ← P(p_T − v_T / w) onto its disc
    for _ in range(sweeps):
        for i in range(plan.ties):
            _change(c, p, z, i, p[i] - _speed(c, p, z, i) / c.w[i])
        for i in range(plan.stops + len(plan.mu)):
            row = normal_row(plan, i)
            _change(c, p, z, row, max(0.0, p[row] - _speed(c, p, z, row) / c.w[row]))
            if i < plan.stops:
                continue
            s, t = row - 2, row - 1
            w = max(c.D[s, s], c.D[t, t]) + abs(c.D[s, t])
            w = w if w > 0.0 else 1.0
            p_s, p_t = p[s] - _speed(c, p, z, s) / w, p[t] - _speed(c, p, z, t) / w
            length, radius = np.hypot(p_s, p_t), disc(plan.mu[i - plan.stops], p[row], 1.0)
            share = radius / length if length > radius else 1.0
            _change(c, p, z, s, share * p_s)
            _change(c, p, z, t, share * p_t)


@compiled
def _speed(c: Constraints, p: Array, z: Array, row: int) -> float:
    """Return a = offset + softness p + Y z of the row."""
    return dot(c.plan.offset[row] + (c.plan.softness[row] + c.soft * c.w[row]) * p[row], c.Y[row], z)


@compiled
def _change(c: Constraints, p: Array, z: Array, row: int, new: float) -> None:
    """p_row ← new, z ← z + Yᵀ Δp."""
    change = new - p[row]
    p[row] = new
    if change != 0.0:
        add(z, change, c.Y[row])
