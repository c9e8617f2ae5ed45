"""Held motion: the accelerations and contact forces that the contact modes and the unactuated dynamics permit.

    W (J v̇ + J̇ v + J v/T_r) + W φ/dt² = 0,   G v̇ + (G v + rate)/dt = 0,   Zᵀ (M_u v̇ + h_u + ρ J_uᵀ f⁻) = 0    held rows
    J_uᵀ f + G_uᵀ λ = (M_u v̇ + h_u + ρ J_uᵀ f⁻)/(1 + ρ),   f = B ζ                                     unactuated rows

mode    forces                              held rows
stick   s, t, n                             S, T, N
slide   (−μ e, 1), polygon: (μ d, 1)        N
open    –                                   –

Z spans the directions of the unactuated space that no permitted force reaches, f⁻ are the forces of the last tick, ρ = T_p/dt.
v̇ is the acceleration without the memory of the contact compliance model, f are the forces that act. Rotations of the held rows
from the left eliminate v̇_u = e − E v̇_a; what is left of them are rows K v̇_a = k. With the unactuated rows P = J_uᵀ B = L Q, the
forces are Qᵀ (L⁻¹ · unactuated rows, i), i internal forces. Inconsistent held rows are met in the sense of least squares.
"""

from typing import NamedTuple

import numpy as np

from idyn.contact.ground import allowance
from idyn.library.kernels import compiled, stack_array
from idyn.solvers.linalg import axpy, backward, cholesky, copy, copy_rows, dot, fill, forward, scale
from idyn.solvers.pool import Pool, indices, matrix, vector, zero_matrix
from idyn.solvers.rows import order_rows, reflect, solve_rows, substitute, unreflect
from idyn.terms.stages import Dynamics
from idyn.types import Array

OPEN, SLIDE, STICK = range(3)
"""Kinds of contact modes in kernels."""


class Held(NamedTuple):
    """Held motion of one tick: m unknowns ζ and λ. The unactuated rows of the forces are P (ζ, λ) = L Q (ζ, λ), its rows in the
    order `order`; the first r are independent."""

    columns: Array  # of B, of unit length: their parts on the contact `of` (m, 3)
    of: Array  # contact of each column, −1: closure (m)
    P: Array  # L, transposed (m, nu)
    Q: Array  # reflectors of Q (nu, m)
    order: Array  # (r)
    base: Array  # (E, e) (nu, na + 1)
    rows: Array  # (K, k) (k, na + 1)
    unreached: Array  # orthonormal Zᵀ (nu − r, nu)
    bias: Array  # h_u + ρ J_uᵀ f⁻ (nu)


@compiled
def hold(d: Dynamics, pool: Pool, kinds: Array, friction: Array) -> Held:
    """Return the held motion. kinds: of the contact modes (n); friction: per normal force of contacts that slide (n, 2)"""
    g = d.given
    u, nu, na, m = g.model.u, len(g.model.u), len(g.model.a), count_columns(d, kinds)
    columns, of, P, Q = zero_matrix(pool, m, 3), indices(pool, m), zero_matrix(pool, m, nu), matrix(pool, nu, m)
    order, bias = indices(pool, nu), vector(pool, nu)
    _fill_columns(d, (kinds, friction), (columns, of), P)
    rank = order_rows(P, order, Q)
    for i in range(nu):
        bias[i] = g.h[u[i]]
        for row in range(len(g.last) if g.rho > 0.0 else 0):
            bias[i] += g.rho * d.J[row, u[i]] * g.last[row] / g.dt
    held, z, base = matrix(pool, m + nu - rank, nu + na + 1), matrix(pool, nu - rank, nu), zero_matrix(pool, nu, na + 1)
    _fill_unreached(P, order, rank, z)
    fill_held(d, kinds, (z, bias), held)
    used = _eliminate(held, base)
    return Held(columns, of, P, Q, order[:rank], base, held[used:, nu:], z, bias)


@compiled
def _fill_unreached(P: Array, order: Array, rank: int, z: Array) -> None:
    """Fill an orthonormal basis of the directions of the unactuated space that no permitted force reaches, as rows."""
    for k in range(len(z)):
        row = z[k]
        fill(row, 0.0)
        row[order[rank + k]] = 1.0
        for c in range(rank - 1, -1, -1):
            s = P[c, rank + k]
            for j in range(c + 1, rank):
                s += row[order[j]] * P[c, j]
            row[order[c]] = -s / P[c, c]
        for _ in range(2):
            for j in range(k):
                axpy(-dot(row, z[j]), z[j], row)
        length = np.sqrt(dot(row, row))
        for i in range(len(row)):
            row[i] /= length


@compiled
def fill_forces(held: Held, load: Array, inner: Array, force: Array) -> None:
    """Fill f (3n) from the unactuated rows (nu) and internal forces i (m − r)."""
    (m, _), r = held.P.shape, len(held.order)
    at = stack_array(m)
    for k in range(r):
        at[k] = load[held.order[k]]
    substitute(held.P, at, at[:r])
    copy(inner, at[r:])
    unreflect(held.Q, r, at)
    fill(force, 0.0)
    for k in range(m):
        if held.of[k] >= 0:
            axpy(at[k], held.columns[k], force[3 * held.of[k] : 3 * held.of[k] + 3])


@compiled
def fill_factors(held: Held, row: Array, push: Array, inner: Array) -> float:
    """Fill the factors of a row on f (3n): of the unactuated rows (nu) and of i (m − r). Return its length on ζ."""
    (m, _), r = held.P.shape, len(held.order)
    at = stack_array(m)
    for c in range(m):
        at[c] = dot(held.columns[c], row[3 * held.of[c] : 3 * held.of[c] + 3]) if held.of[c] >= 0 else 0.0
    length = np.sqrt(dot(at, at))
    reflect(held.Q, r, at)
    copy(at[r:], inner)
    fill(push, 0.0)
    for k in range(r - 1, -1, -1):
        at[k] /= held.P[k, k]
        for j in range(k):
            at[j] -= held.P[j, k] * at[k]
        push[held.order[k]] = at[k]
    return length


@compiled
def sticks(d: Dynamics, kinds: Array, i: int) -> bool:
    """Return whether the tangential rows of a contact are held."""
    return bool(kinds[i] == STICK and d.given.mu[i] > 0.0)


@compiled
def count_columns(d: Dynamics, kinds: Array) -> int:
    """Return the number of unknowns ζ and λ, and of rows that contacts and closures hold."""
    count = len(d.G)
    for i in range(len(kinds)):
        count += 0 if kinds[i] == OPEN else 3 if sticks(d, kinds, i) else 1
    return count


@compiled
def _fill_columns(d: Dynamics, contact: tuple[Array, Array], B: tuple[Array, Array], P: Array) -> None:
    """Fill the columns of B, see `Held`, and Pᵀ (m, nu); both are zeros."""
    (kinds, friction), (columns, of), u, c = contact, B, d.given.model.u, 0
    for i in range(len(kinds)):
        if kinds[i] == OPEN:
            continue
        first, tangential = c, sticks(d, kinds, i)
        if tangential:
            columns[c, 0] = columns[c + 1, 1] = columns[c + 2, 2] = 1.0
        else:
            s, t = friction[i]
            length = np.sqrt(1.0 + s * s + t * t)
            columns[c, 0], columns[c, 1], columns[c, 2] = s / length, t / length, 1.0 / length
        c += 3 if tangential else 1
        for k in range(first, c):
            of[k] = i
            for j in range(len(u)):
                P[k, j] = dot(columns[k], d.J[3 * i : 3 * i + 3, u[j]])
    for k in range(len(d.G)):
        of[c + k] = -1
        for j in range(len(u)):
            P[c + k, j] = d.G[k, u[j]]


@compiled
def fill_held(d: Dynamics, kinds: Array, unactuated: tuple[Array, Array], held: Array) -> None:
    """Fill the held rows of the contacts, those of the closures and those of Z: unactuated columns, actuated ones, right side
    (·, nu + na + 1). unactuated: (Zᵀ (·, nu), h_u + ρ J_uᵀ f⁻ (nu))"""
    (z, bias), g, c, row = unactuated, d.given, 0, stack_array(len(d.given.v))
    for i in range(len(kinds)):
        if kinds[i] == OPEN:
            continue
        for r in range(0 if sticks(d, kinds, i) else 2, 3):
            speed = d.drift[3 * i + r] + (allowance(g, i) if r == 2 else 0.0)
            split(d, d.J[3 * i + r], -((1.0 - g.keep) * dot(d.J[3 * i + r], g.v) + speed) / g.dt, held[c])
            c += 1
    for k in range(len(d.G)):
        split(d, d.G[k], -(d.rate[k] + dot(d.G[k], g.v)) / g.dt, held[c])
        c += 1
    for k in range(len(z)):
        fill(row, 0.0)
        for i in range(len(bias)):
            axpy(z[k, i], g.M[g.model.u[i]], row)
        split(d, row, -dot(z[k], bias), held[c + k])


@compiled
def split(d: Dynamics, row: Array, wanted: float, out: Array) -> None:
    """Fill a row: unactuated columns, actuated ones, right side."""
    u, a = d.given.model.u, d.given.model.a
    for i in range(len(u)):
        out[i] = row[u[i]]
    for j in range(len(a)):
        out[len(u) + j] = row[a[j]]
    out[len(u) + len(a)] = wanted


@compiled
def _eliminate(held: Array, base: Array) -> int:
    """Eliminate the unactuated columns by reflections from the left, and fill (E, e) of v̇_u = e − E v̇_a (nu, na + 1). Return
    the number of rows used. Directions of v̇_u that no row determines stay 0."""
    order = stack_array(len(base), np.int64)
    rank = order_rows(held, order, stack_array((len(held), len(held))))
    for k in range(rank - 1, -1, -1):
        solved = base[order[k]]
        copy(held[k, len(base) :], solved)
        for j in range(k + 1, rank):
            axpy(-held[k, j], base[order[j]], solved)
        scale(1.0 / held[k, k], solved)
    return rank


class Closing(NamedTuple):
    """What torques follow from. L: Cholesky factor of M_uu (nu, nu); of closures: S⁺ of S = G_u M_uu⁻¹ G_uᵀ, M_uu⁻¹ G_uᵀ as
    rows, and the asked G v̇"""

    L: Array
    inverse: Array
    moved: Array
    asked: Array


@compiled
def closing(d: Dynamics, pool: Pool) -> Closing:
    """Return what torques follow from."""
    g, k3 = d.given, len(d.G)
    u, nu = g.model.u, len(g.model.u)
    L, moved, asked = matrix(pool, nu, nu), matrix(pool, k3, nu), vector(pool, k3)
    S, one = zero_matrix(pool, k3, k3), zero_matrix(pool, k3, k3)
    for i in range(nu):
        for j in range(nu):
            L[i, j] = g.M[u[i], u[j]]
    cholesky(L)
    inverse, reflectors, each = matrix(pool, k3, k3), matrix(pool, k3, k3), matrix(pool, k3, k3)
    for k in range(k3):
        one[k, k], asked[k] = 1.0, -(d.rate[k] + dot(d.G[k], g.v)) / g.dt
        for i in range(nu):
            moved[k, i] = d.G[k, u[i]]
        solve_base(L, moved[k])
    for k in range(k3):
        for j in range(k3):
            for i in range(nu):
                S[k, j] += d.G[k, u[i]] * moved[j, i]
    for k in range(k3):
        copy_rows(S, each)
        solve_rows((each, one[k]), inverse[k], reflectors, 0.0)
    return Closing(L, inverse, moved, asked)


@compiled
def solve_base(L: Array, x: Array) -> None:
    """Replace x by M_uu⁻¹ x."""
    forward(L, x)
    backward(L, x)
