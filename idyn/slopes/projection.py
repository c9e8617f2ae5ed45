"""The slopes of the demand that `Consistency.HOLD` and `STICK` project, q̈ → q̈ + J_aᵀ λ/dt.

S λ = −J wanted over the rows J that contacts hold, S = J W Jᵀ, W = 1 for joints and 1/ε for the base: wanted is
(1 − keep) v, plus dt q̈ at the joints. With S = L Lᵀ of the independent rows and V = L⁻¹ J:

    by the demand 1 − V_aᵀ V_a,   by v −(1 − keep)/dt V_aᵀ V,   by q (∂(Jᵀλ)_a − V_aᵀ L⁻¹ [∂(J y) + J W ∂(Jᵀ λ)])/dt

with y = wanted + W Jᵀ λ.
"""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.jit.stack import stack_array
from idyn.prediction.feasible import EPSILON
from idyn.slopes.dense import axpy, forward_columns, pivoted_cholesky
from idyn.slopes.layout import CODES, FACTOR, HELD_Y, HOLDING, RANK, Expansion
from idyn.slopes.motions import Places, turn_forces, turn_velocities
from idyn.solvers.linalg import backward
from idyn.solvers.vectors import copy, dot, fill, fill_rows
from idyn.terms.stages import Given, Model
from idyn.types import Array


@compiled
def hold(g: Given, x: Expansion, q_ddot: Array, holds: bool, closed: bool) -> None:
    """Fill what the projection needs in an `Expansion`; without a projection its rank is 0."""
    n, nv, rows, u, a = len(g.mu), len(g.v), len(x.J), g.model.u, g.model.a
    order, multipliers, y = x.marks[CODES + n :], x.impulses[HOLDING], x.motions[HELD_Y]
    picked, count = stack_array(rows, np.int64), 0
    for row in range(rows):
        touches = holds and g.gaps[row // 3] <= g.touching and g.mu[row // 3] > 0.0
        if touches and (closed or row % 3 < 2):
            picked[count] = row
            count += 1
    # S = J W Jᵀ = L Lᵀ
    S, place = stack_array((count, count)), stack_array(count, np.int64)
    for i in range(count):
        J = x.J[picked[i]]
        for k in range(i + 1):
            other, base, joints = x.J[picked[k]], 0.0, 0.0
            for j in range(len(u)):
                base += J[u[j]] * other[u[j]]
            for j in range(len(a)):
                joints += J[a[j]] * other[a[j]]
            S[i, k] = base / EPSILON + joints
    rank = pivoted_cholesky(S, place)
    L = stack_array((rank, rank))
    for i in range(rank):
        order[i] = picked[place[i]]
        copy(x.J[order[i]], x.held[i])
        for k in range(rank):
            x.operators[FACTOR, i, k] = L[i, k] = S[i, k] if k <= i else 0.0
    forward_columns(L, rank, x.held)
    x.marks[RANK] = rank
    # λ = −L⁻ᵀ V wanted,  y = wanted + W Jᵀ λ
    for j in range(nv):
        y[j] = (1.0 - g.keep) * g.v[j]
    for k in range(len(a)):
        y[a[k]] += g.dt * q_ddot[k]
    force = stack_array(rank)
    for i in range(rank):
        force[i] = -dot(x.held[i], y)
    backward(L, force)
    fill(multipliers, 0.0)
    for i in range(rank):
        multipliers[order[i]] = force[i]
        J = x.J[order[i]]
        for j in range(len(u)):
            y[u[j]] += force[i] * J[u[j]] / EPSILON
        for j in range(len(a)):
            y[a[j]] += force[i] * J[a[j]]


@compiled
def demand_by_demand(x: Expansion, a: Array, dt: float, slope: Array) -> None:
    """Fill dt times the slope of the projected demand by the demand (na, na)."""
    fill_rows(slope, 0.0)
    na, row = len(a), stack_array(len(a))
    for k in range(na):
        slope[k, k] = dt
    for i in range(x.marks[RANK]):
        for k in range(na):
            row[k] = x.held[i, a[k]]
        for k in range(na):
            if row[k] != 0.0:
                axpy(-dt * row[k], row, slope[k])


@compiled
def demand_by_velocity(x: Expansion, a: Array, keep: float, slope: Array) -> None:
    """Fill the slope of v_a⁺ by v (na, nv)."""
    fill_rows(slope, 0.0)
    for k in range(len(a)):
        slope[k, a[k]] = 1.0
        for i in range(x.marks[RANK]):
            axpy((keep - 1.0) * x.held[i, a[k]], x.held[i], slope[k])


@compiled
def demand_by_place(model: Model, x: Expansion, slope: Array) -> None:
    """Fill dt times the slope of the projected demand by q (na, nv)."""
    fill_rows(slope, 0.0)
    rank, n, (rows, nv), u, a = x.marks[RANK], len(x.ends), x.J.shape, model.u, model.a
    if rank == 0:
        return
    order, places = x.marks[CODES + n :], Places(x.axes, x.frames, x.ends)
    pulled, turned, change = np.empty((nv, nv)), np.empty((rows, nv)), np.empty((rank, nv))
    turn_forces(model, places, x.impulses[HOLDING], pulled)
    turn_velocities(model, places, x.motions[HELD_Y], turned)
    for i in range(rank):
        J = x.J[order[i]]
        copy(turned[order[i]], change[i])
        for k in range(len(u)):
            axpy(J[u[k]] / EPSILON, pulled[u[k]], change[i])
        for k in range(len(a)):
            if J[a[k]] != 0.0:
                axpy(J[a[k]], pulled[a[k]], change[i])
    L = x.operators[FACTOR]
    forward_columns(L, rank, change)
    for k in range(len(a)):
        copy(pulled[a[k]], slope[k])
        for i in range(rank):
            axpy(-x.held[i, a[k]], change[i], slope[k])
