"""The slopes of the demand that `Consistency.HOLD` and `STICK` project, q̈ → q̈ + J_aᵀ λ/dt.

S λ = −J wanted − c over the rows J that contacts hold, S = J W Jᵀ, W = 1 for joints and 1/ε for the base: wanted is
(1 − keep) v, plus dt q̈ at the joints; c = dt J̇ v + φ/dt. With S = L Lᵀ of the independent rows and V = L⁻¹ J:

    by the demand 1 − V_aᵀ V_a,   by v −V_aᵀ ((1 − keep) V + L⁻¹ ∂c)/dt,
    by q (∂(Jᵀλ)_a − V_aᵀ L⁻¹ [∂(J y) + J W ∂(Jᵀ λ) + ∂c])/dt

with y = wanted + W Jᵀ λ.
"""

import numpy as np

from idyn.contact.ground import allowance
from idyn.differentiation.dense import axpy, forward_columns, pivoted_cholesky, scale
from idyn.differentiation.layout import CODES, HELD_Y, HOLDING, RANK, Expansion
from idyn.differentiation.motions import Places, turn_forces, turn_velocities
from idyn.jit.compiled import compiled
from idyn.jit.stack import stack_array
from idyn.prediction.feasible import EPSILON
from idyn.solvers.linalg import backward, forward
from idyn.solvers.vectors import copy, dot, fill, fill_rows
from idyn.terms.stages import Dynamics, Model
from idyn.types import Array


@compiled
def hold(d: Dynamics, x: Expansion, q_ddot: Array, holds: bool, closed: bool) -> None:
    """Fill what the projection needs in an `Expansion`; without a projection its rank is 0."""
    g, drift = d.given, d.drift
    n, nv, rows, u, a = len(g.mu), len(g.v), len(x.J), g.model.u, g.model.a
    order, multipliers, y = x.marks[CODES + n :], x.impulses[HOLDING], x.motions[HELD_Y]
    picked, count = stack_array(rows, np.int64), 0
    for row in range(rows):
        touches = holds and g.gaps[row // 3] <= g.touching and g.mu[row // 3] > 0.0
        if touches and (closed or row % 3 < 2):
            picked[count] = row
            count += 1
    # S = J W Jᵀ = L Lᵀ
    S, place, J_held, weighted = (
        stack_array((count, count)),
        stack_array(count, np.int64),
        x.held[:count],
        stack_array((nv, count)),
    )
    for i in range(count):
        J = x.J[picked[i]]
        copy(J, J_held[i])
        for k in range(len(u)):
            weighted[u[k], i] = J[u[k]] / EPSILON
        for k in range(len(a)):
            weighted[a[k], i] = J[a[k]]
    np.dot(J_held, weighted, S)
    rank = pivoted_cholesky(S, place)
    L = stack_array((rank, rank))
    for i in range(rank):
        order[i] = picked[place[i]]
        copy(x.J[order[i]], x.held[i])
        for k in range(rank):
            x.factor[i, k] = L[i, k] = S[i, k] if k <= i else 0.0
    forward_columns(L, rank, x.held)
    x.marks[RANK] = rank
    # λ = −L⁻ᵀ (V wanted + L⁻¹ c),  y = wanted + W Jᵀ λ;  c: drift and allowance
    for j in range(nv):
        y[j] = (1.0 - g.keep) * g.v[j]
    for k in range(len(a)):
        y[a[k]] += g.dt * q_ddot[k]
    force = stack_array(rank)
    for i in range(rank):
        row = order[i]
        force[i] = drift[row]
        if row % 3 == 2:
            force[i] += allowance(g, row // 3)
    forward(L, force)
    for i in range(rank):
        force[i] = -dot(x.held[i], y) - force[i]
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
    joints = stack_array((x.marks[RANK], len(a)))
    _take_columns(x.held, a, joints)
    np.dot(joints.T, joints, slope)
    for k in range(len(a)):
        scale(-dt, slope[k])
        slope[k, k] += dt


@compiled
def demand_by_velocity(x: Expansion, a: Array, keep: float, drift: Array, slope: Array) -> None:
    """Fill the slope of v_a⁺ by v (na, nv). drift: of dt J̇ v by v (3n, nv)"""
    rank, (rows, nv) = x.marks[RANK], drift.shape
    order, joints, change = x.marks[CODES + rows // 3 :], stack_array((rank, len(a))), stack_array((rank, nv))
    _take_columns(x.held, a, joints)
    for i in range(rank):
        copy(drift[order[i]], change[i])
    forward_columns(x.factor, rank, change)
    for i in range(rank):
        axpy(1.0 - keep, x.held[i], change[i])
    np.dot(joints.T, change, slope)
    for k in range(len(a)):
        scale(-1.0, slope[k])
        slope[k, a[k]] += 1.0


@compiled
def demand_by_place(model: Model, x: Expansion, drift: Array, slope: Array) -> None:
    """Fill dt times the slope of the projected demand by q (na, nv). drift: of dt J̇ v by q (3n, nv)"""
    fill_rows(slope, 0.0)
    rank, n, (rows, nv), u, a = x.marks[RANK], len(x.ends), x.J.shape, model.u, model.a
    if rank == 0:
        return
    order, places = x.marks[CODES + n :], Places(x.axes, x.frames, x.ends)
    pulled, turned, change, weighted = (
        stack_array((nv, nv)),
        stack_array((rows, nv)),
        stack_array((rank, nv)),
        stack_array((rank, nv)),
    )
    turn_forces(model, places, x.impulses[HOLDING], pulled)
    turn_velocities(model, places, x.motions[HELD_Y], turned)
    # ∂(J y) + J W ∂(Jᵀ λ)
    for i in range(rank):
        copy(x.J[order[i]], weighted[i])
        for k in range(len(u)):
            weighted[i, u[k]] /= EPSILON
    np.dot(weighted, pulled, change)
    for i in range(rank):
        axpy(1.0, turned[order[i]], change[i])
        axpy(1.0, drift[order[i]], change[i])
    forward_columns(x.factor, rank, change)
    joints = stack_array((rank, len(a)))
    _take_columns(x.held, a, joints)
    np.dot(joints.T, change, slope)
    for k in range(len(a)):
        scale(-1.0, slope[k])
        axpy(1.0, pulled[a[k]], slope[k])


@compiled
def _take_columns(A: Array, columns: Array, X: Array) -> None:
    for i in range(len(X)):
        for k in range(len(columns)):
            X[i, k] = A[i, columns[k]]
