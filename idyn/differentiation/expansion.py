"""The operators of one differentiation, at the final basis of a prediction (MATHEMATICS §3.7). The derivatives by the demand
are filled at once; those by other quantities on request (`idyn.differentiation.parts`)."""

import numpy as np

from idyn.contact.ground import allowance, in_contact_rows
from idyn.differentiation.arrays import (
    ACCELERATION,
    CHANGE,
    CODES,
    DRIFTS,
    EXPANSION,
    FORCES,
    NONE,
    OBJECTIVE,
    PULL,
    STIRRED,
    V_HAT,
    VELOCITY,
    Expansion,
    P,
    carve,
    gather,
    inverse,
)
from idyn.differentiation.faces import FACETS, TURNING, Basis, Friction, fill_basis
from idyn.differentiation.motions import hold
from idyn.differentiation.operators import Choice, fill_operators
from idyn.differentiation.parts import by_demand
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Matrix, Vector, written
from idyn.solvers.linalg import cholesky, copy, copy_rows, dot, fill, forward_rows, product_by_rows, scale
from idyn.terms.drift import slipping_point
from idyn.terms.inputs import CONTACTS, recall
from idyn.terms.stages import Dynamics, Given
from idyn.types import Array

Arrays = tuple[Array, ...]
Flags = tuple[int, int, int, int, int]


@entry(
    Dynamics,
    (Vector, Vector),
    CONTACTS,
    (Vector, Vector, Vector),
    (Matrix, Matrix, Vector, Vector, Matrix),
    (int,) * 5,
    written((*EXPANSION, Matrix)),
)
def expand(d: Dynamics, state: Arrays, contacts: Arrays, answer: Arrays, before: Arrays, how: Flags, out: Arrays) -> bool:
    """Fill an `Expansion`. Return False if the record does not hold the dynamics of this state and these contacts, or if an
    array has a wrong size, or the demand is not finite.

    state: (q, v); contacts: see `idyn.terms.inputs.CONTACTS`; answer: (p, v⁺, τ)
    before: (forces of the last tick in the world (n, 3), target forces in the world (n, 3), target torques (na), demand (na),
        corners of the law's friction polygon (k, 2)); without: (0, 3), (0)
    how: objective, whether the law has round cones, whether its friction is unlimited, whether the demand is projected on
        motions that hold contacts, and whether these must not lift
    out: arrays that `carve` divides, and the derivatives by the demand, to be filled (na + 3n + nv, na)
    """
    g, (p, v_plus, tau), (last, force, torque, q_ddot, corners) = d.given, answer, before
    n, nu, na, nv, rows = len(g.mu), len(g.model.u), len(g.model.a), len(g.v), len(d.J)
    fits = len(p) == rows and len(v_plus) == nv and len(tau) == na and len(q_ddot) == na and len(torque) in (0, na)
    for each in q_ddot:
        fits = fits and np.isfinite(each)
    if not (fits and len(last) in (0, n) and len(force) in (0, n) and _is_at(g, state, contacts)):
        return False
    x = carve(out[0], out[1], n, (nu, na))
    recall(g, last)
    L, u_hat = stack_array((nu, nu)), stack_array(rows)
    _copy_record(d, x)
    _fill_inertia(g, x, L)
    _fill_motions(d, x, p, v_plus, u_hat)
    # basis
    objective, is_round, unlimited, holds, closed = how
    most = n * max(len(corners), 1)
    columns, zero, face, tight = stack_array((rows, 4)), stack_array((rows, 4)), stack_array((rows, 4)), stack_array((most, 4))
    reach, counts, turning, by_mu = stack_array(most), stack_array(4, np.int64), stack_array((n, 2, 2)), stack_array((n, 3))
    basis = Basis(columns, zero, face, tight, reach, counts, turning, by_mu, x.marks[CODES : CODES + n])
    kinds = fill_basis(Friction(corners, is_round != 0, unlimited != 0), g.mu, p, u_hat, basis)
    # law and selection
    gradient, multipliers, pulled = stack_array(rows), stack_array(most), stack_array(na)
    _fill_gradient(d, objective, (force, torque), (p, tau), gradient, pulled)
    free, y, a = unlimited != 0, x.motions[PULL], g.model.a
    for i in range(n):
        free = free or g.mu[i] == np.inf
    kind = NONE if kinds == TURNING else objective
    fill_operators(x, basis, Choice(kind, kinds, free, gradient, multipliers), (g.model.u, a), L, np.sqrt(1.0 + g.rho))
    if kind > FORCES:
        for k in range(na):
            y[a[k]] = pulled[k]
    x.marks[OBJECTIVE] = kind
    _fill_friction(x, basis, multipliers)
    hold(d, x, q_ddot, holds != 0, closed != 0)
    by_demand(g.model, x, g.dt, out[2])
    return True


@compiled
def _fill_gradient(
    d: Dynamics, objective: int, targets: tuple[Array, Array], answer: tuple[Array, Array], out: Array, pulled: Array
) -> None:
    """Fill the gradient of the selection's objective by the impulses, and dt (τ − its target) of the joints with motors.

    targets: forces in the world (n, 3) and torques (na), without: (0, 3), (0); answer: p, τ
    """
    g, (force, torque), (p, tau) = d.given, targets, answer
    na, rows, a = len(g.model.a), len(d.J), g.model.a
    target = stack_array(rows)
    fill(target, 0.0)
    in_contact_rows(force, g.tangents, g.normals, g.dt, target)
    for k in range(na):
        pulled[k] = g.dt * (tau[k] - (torque[k] if len(torque) > 0 else 0.0))
    for row in range(rows):
        out[row] = p[row] - target[row]
        if objective != FORCES:
            out[row] = 0.0
            for k in range(na):
                out[row] -= d.J[row, a[k]] * pulled[k]


@compiled
def _is_at(g: Given, state: Arrays, contacts: Arrays) -> bool:
    """Return whether a record was made for this state and these contacts."""
    (q, v), (bodies, others, points, normals, tangents, mu, gaps, radii) = state, contacts
    n = len(g.mu)
    if not (len(q) == len(g.q) and len(v) == len(g.v) and len(bodies) == n and len(others) == n and len(mu) == n):
        return False
    if not (points.shape == (n, 3) and normals.shape == (n, 3) and tangents.shape == (n, 3) and len(gaps) == len(radii) == n):
        return False
    same = True
    for k in range(len(q)):
        same = same and q[k] == g.q[k]
    for k in range(len(v)):
        same = same and v[k] == g.v[k]
    for i in range(n):
        same = same and bodies[i] == g.bodies[i] and others[i] == g.others[i] and mu[i] == g.mu[i] and gaps[i] == g.gaps[i]
        same = same and radii[i] == g.radii[i]
        for c in range(3):
            same = same and points[i, c] == g.points[i, c]
            same = same and normals[i, c] == g.normals[i, c] and tangents[i, c] == g.tangents[i, c]
    return same


@compiled
def _copy_record(d: Dynamics, x: Expansion) -> None:
    g = d.given
    gather(g.M, g.model.u, x.base)
    gather(g.M, g.model.a, x.joints)
    copy_rows(d.J, x.J)
    copy_rows(g.axes, x.axes)
    for i in range(len(g.mu)):
        x.ends[i, 0], x.ends[i, 1] = g.bodies[i], g.others[i]
        for c in range(3):
            x.frames[i, c], x.frames[i, 3 + c], x.frames[i, 6 + c] = g.points[i, c], g.normals[i, c], g.tangents[i, c]
        x.frames[i, 9] = g.radii[i]
        x.frames[i, 10], x.frames[i, 11], x.frames[i, 12] = slipping_point(g, i)
        x.frames[i, 13] = g.gaps[i] <= g.touching
    x.marks[DRIFTS] = 0 if not g.contact_drift else 2 if g.dependent else 1
    copy(g.v, x.motions[VELOCITY])


@compiled
def _fill_inertia(g: Given, x: Expansion, L: Array) -> None:
    """Fill M_uu⁻¹, M_uu⁻¹ J_uᵀ, Y and the Cholesky factor L of M_uu."""
    u, (rows, nu), stretch = g.model.u, x.Y.shape, np.sqrt(1.0 + g.rho)
    for i in range(nu):
        for j in range(nu):
            L[i, j] = x.base[i, u[j]]
    cholesky(L)
    inverse(L, x.inertia)
    for row in range(rows):
        for j in range(nu):
            x.Y[row, j] = stretch * x.J[row, u[j]]
    product_by_rows(x.inertia, x.Y, x.push)
    for i in range(nu):
        scale(1.0 / stretch, x.push[i])
    forward_rows(L, x.Y)


@compiled
def _fill_motions(d: Dynamics, x: Expansion, p: Array, v_plus: Array, u_hat: Array) -> None:
    """Fill the impulses, v̂ and the accelerations, and û with drift and allowance."""
    g, drift = d.given, d.drift
    u, rows = g.model.u, len(p)
    for row in range(rows):
        x.impulses[P, row], x.impulses[CHANGE, row] = p[row], p[row] - g.last[row]
    v_hat, free, stirred = x.motions[V_HAT], x.motions[ACCELERATION], x.motions[STIRRED]
    for j in range(len(v_plus)):
        v_hat[j] = v_plus[j] - g.keep * g.v[j]
        free[j] = stirred[j] = (v_plus[j] - g.v[j]) / g.dt
    for i in range(len(u)):
        change = dot(x.push[i], x.impulses[CHANGE])
        v_hat[u[i]] += g.rho * change
        stirred[u[i]] += change / g.dt
    for row in range(rows):
        u_hat[row] = dot(x.J[row], v_hat) + drift[row]
        if row % 3 == 2:
            u_hat[row] += allowance(g, row // 3)


@compiled
def _fill_friction(x: Expansion, basis: Basis, multipliers: Array) -> None:
    for i in range(len(x.friction)):
        for c in range(3):
            x.friction[i, c] = basis.by_mu[i, c]
        x.friction[i, 3] = 0.0
    for k in range(basis.counts[FACETS]):
        x.friction[int(basis.tight[k, 0]), 3] += multipliers[k] * basis.reach[k]
