"""Derivatives of contact Jacobians by the configuration, for contact points and frames that are fixed in the world; and of
the demand that `Consistency.HOLD` and `STICK` project. As spatial motions in the world (linear at its origin, then angular):

    ∂S_k/∂q_j = S_j × S_k for each degree of freedom j that moves k's body
    ∂(Jᵀ p)_k/∂q_j = (S_j × S_k) · W_k,              W_k: wrench of the contacts that move with k
    ∂(J y)/∂q_j    = E (S_j × (V_b − V_λ)),          V_b: velocity of the contact's body for y, V_λ: of the body before joint j

The projection q̈ → q̈ + J_aᵀ λ/dt has S λ = −J wanted − c over the held rows J, S = J W Jᵀ = L Lᵀ, W = 1 for joints and 1/ε
for the base; wanted = (1 − keep) v, plus dt q̈ at the joints; c = dt J̇ v + φ/dt. With V = L⁻¹ J and y = wanted + W Jᵀ λ:

    by the demand 1 − V_aᵀ V_a,   by v −V_aᵀ ((1 − keep) V + L⁻¹ ∂c)/dt,
    by q (∂(Jᵀλ)_a − V_aᵀ L⁻¹ [∂(J y) + J W ∂(Jᵀ λ) + ∂c])/dt
"""

from typing import NamedTuple

import numpy as np

from idyn.contact.ground import allowance
from idyn.differentiation.arrays import CODES, HELD_Y, HOLDING, RANK, Expansion, forward_columns, pivoted_cholesky
from idyn.library.kernels import compiled, stack_array
from idyn.prediction.feasible import EPSILON
from idyn.solvers.linalg import (
    axpy,
    backward,
    copy,
    dot,
    fill,
    fill_rows,
    forward,
    product,
    product_by_rows,
    product_transposed,
    scale,
)
from idyn.terms.stages import Dynamics, Model
from idyn.types import Array

Six = tuple[float, float, float, float, float, float]


class Places(NamedTuple):
    """Contacts and joint axes."""

    axes: Array  # (nv, 6)
    frames: Array  # point, normal, first tangent of each contact in the first nine columns (n, ·)
    ends: Array  # joints of the two bodies of each contact (n, 2)


@compiled
def turn_forces(model: Model, places: Places, p: Array, slope: Array) -> None:
    """Fill ∂(Jᵀ p)/∂q (nv, nv) for impulses p in contact rows (3n)."""
    axes, support, nv = places.axes, model.support, len(places.axes)
    wrenches = stack_array((nv, 6))
    fill_rows(wrenches, 0.0)
    for i in range(len(places.ends)):
        x0, x1, x2, n0, n1, n2, s0, s1, s2 = places.frames[i, :9]
        a, b, c = p[3 * i], p[3 * i + 1], p[3 * i + 2]
        f0 = a * s0 + b * (n1 * s2 - n2 * s1) + c * n0
        f1 = a * s1 + b * (n2 * s0 - n0 * s2) + c * n1
        f2 = a * s2 + b * (n0 * s1 - n1 * s0) + c * n2
        m0, m1, m2 = x1 * f2 - x2 * f1, x2 * f0 - x0 * f2, x0 * f1 - x1 * f0
        one, other = support[places.ends[i, 0]], support[places.ends[i, 1]]
        for k in range(nv):
            if one[k] == other[k]:
                continue
            sign, w = 1.0 if one[k] else -1.0, wrenches[k]
            w[0] += sign * f0
            w[1] += sign * f1
            w[2] += sign * f2
            w[3] += sign * m0
            w[4] += sign * m1
            w[5] += sign * m2
    # S_j · c_k, with c_k the rate of W_k along S_k
    for k in range(nv):
        v0, v1, v2, w0, w1, w2 = axes[k]
        f0, f1, f2, m0, m1, m2 = wrenches[k]
        c = wrenches[k]
        c[0], c[1], c[2] = w1 * f2 - w2 * f1, w2 * f0 - w0 * f2, w0 * f1 - w1 * f0
        c[3] = v1 * f2 - v2 * f1 + w1 * m2 - w2 * m1
        c[4] = v2 * f0 - v0 * f2 + w2 * m0 - w0 * m2
        c[5] = v0 * f1 - v1 * f0 + w0 * m1 - w1 * m0
    product_by_rows(wrenches, axes, slope)
    for k in range(nv):
        above = support[model.dof_joint[k]]
        for j in range(nv):
            slope[k, j] = slope[k, j] if above[j] else 0.0


@compiled
def turn_velocities(model: Model, places: Places, y: Array, slope: Array) -> None:
    """Fill ∂(J y)/∂q (3n, nv) for a velocity y (nv)."""
    axes, support, nv, V = places.axes, model.support, len(places.axes), stack_array((len(model.parents), 6))
    _fill_velocities(model, axes, y, V)
    for i in range(len(places.ends)):
        x0, x1, x2, n0, n1, n2, s0, s1, s2 = places.frames[i, :9]
        t0, t1, t2 = n1 * s2 - n2 * s1, n2 * s0 - n0 * s2, n0 * s1 - n1 * s0
        first, second = places.ends[i]
        one, other = support[first], support[second]
        for j in range(nv):
            if not (one[j] or other[j]):
                slope[3 * i, j] = slope[3 * i + 1, j] = slope[3 * i + 2, j] = 0.0
                continue
            d0, d1, d2, d3, d4, d5 = _relative(V, (first, second), (one[j], other[j]), model.parents[model.dof_joint[j]])
            a0, a1, a2, w0, w1, w2 = axes[j]
            # S_j × d, at x
            r0, r1, r2 = w1 * d5 - w2 * d4, w2 * d3 - w0 * d5, w0 * d4 - w1 * d3
            v0 = w1 * d2 - w2 * d1 + a1 * d5 - a2 * d4 + r1 * x2 - r2 * x1
            v1 = w2 * d0 - w0 * d2 + a2 * d3 - a0 * d5 + r2 * x0 - r0 * x2
            v2 = w0 * d1 - w1 * d0 + a0 * d4 - a1 * d3 + r0 * x1 - r1 * x0
            slope[3 * i, j] = s0 * v0 + s1 * v1 + s2 * v2
            slope[3 * i + 1, j] = t0 * v0 + t1 * v1 + t2 * v2
            slope[3 * i + 2, j] = n0 * v0 + n1 * v1 + n2 * v2


@compiled
def _fill_velocities(model: Model, axes: Array, y: Array, V: Array) -> None:
    """Fill the velocities of the bodies (njoints, 6) for a velocity y (nv)."""
    dof = 0
    for c in range(6):
        V[0, c] = 0.0
    for i in range(1, len(model.parents)):
        for c in range(6):
            V[i, c] = V[model.parents[i], c]
        while dof < len(axes) and model.dof_joint[dof] == i:
            axpy(y[dof], axes[dof], V[i])
            dof += 1


@compiled
def _relative(V: Array, bodies: tuple[int, int], moved: tuple[bool, bool], before: int) -> Six:
    """Return the velocity of the first body relative to the second one; of a body that is not moved that of `before`."""
    a, b = V[bodies[0] if moved[0] else before], V[bodies[1] if moved[1] else before]
    return a[0] - b[0], a[1] - b[1], a[2] - b[2], a[3] - b[3], a[4] - b[4], a[5] - b[5]


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
    S, place, weighted = stack_array((count, count)), stack_array(count, np.int64), stack_array((nv, count))
    J_held = x.held[:count]
    for i in range(count):
        J = x.J[picked[i]]
        copy(J, J_held[i])
        for k in range(len(u)):
            weighted[u[k], i] = J[u[k]] / EPSILON
        for k in range(len(a)):
            weighted[a[k], i] = J[a[k]]
    product(J_held, weighted, S)
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
    product_transposed(joints, joints, slope)
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
    product_transposed(joints, change, slope)
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
    pulled, turned = stack_array((nv, nv)), stack_array((rows, nv))
    change, weighted = stack_array((rank, nv)), stack_array((rank, nv))
    turn_forces(model, places, x.impulses[HOLDING], pulled)
    turn_velocities(model, places, x.motions[HELD_Y], turned)
    # ∂(J y) + J W ∂(Jᵀ λ)
    for i in range(rank):
        copy(x.J[order[i]], weighted[i])
        for k in range(len(u)):
            weighted[i, u[k]] /= EPSILON
    product(weighted, pulled, change)
    for i in range(rank):
        axpy(1.0, turned[order[i]], change[i])
        axpy(1.0, drift[order[i]], change[i])
    forward_columns(x.factor, rank, change)
    joints = stack_array((rank, len(a)))
    _take_columns(x.held, a, joints)
    product_transposed(joints, change, slope)
    for k in range(len(a)):
        scale(-1.0, slope[k])
        axpy(1.0, pulled[a[k]], slope[k])


@compiled
def _take_columns(A: Array, columns: Array, X: Array) -> None:
    for i in range(len(X)):
        for k in range(len(columns)):
            X[i, k] = A[i, columns[k]]
