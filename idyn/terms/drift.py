"""The drift of contacts and closures: dt J̇ v and dt Ġ v, by which the robot's own motion changes their velocities in a
period (MATHEMATICS §2). V_i, A_i: spatial velocity of body i and its acceleration at v̇ = 0, both linear at the world's
origin. The normal is taken as constant in the second body: exact on planes and faces of boxes, not on their edges and on
curved ground."""

from typing import NamedTuple

import numpy as np

from idyn.library.kernels import compiled, stack_array
from idyn.solvers.linalg import backward, cholesky, copy, dot, fill, fill_rows, forward
from idyn.terms.stages import Dynamics, Given, Model
from idyn.types import Array

Three = tuple[float, float, float]

THETA = 1e-3  # θ: motions that move the contacts by less per unit velocity do not follow the drift [m/s per m/s or rad/s]
INDEPENDENT = 1e-3  # a row is independent of earlier ones if more than this share of its length is orthogonal to them


class Motions(NamedTuple):
    """V and A of the bodies, linear at the world's origin, then angular, each (njoints, 6)."""

    V: Array
    A: Array


@compiled
def fill_drift(d: Dynamics) -> None:
    """Fill `drift` (3n), and add dt Ġ v to `rate` (3m)."""
    g = d.given
    if not g.contact_drift:
        fill(d.drift, 0.0)
    if not (g.contact_drift or (g.drift and len(g.ends) > 0)):
        return
    joints = len(g.model.parents)
    motions = Motions(stack_array((joints, 6)), stack_array((joints, 6)))
    body_motions(g.model, g.axes, g.v, motions)
    if g.contact_drift and len(g.rows) > 0:
        for row in range(len(g.rows)):
            d.drift[row] = g.dt * g.rows_dot_v[row]
    elif g.contact_drift:
        for i in range(len(g.mu)):
            _contact_drift(g, motions, i, d.drift[3 * i : 3 * i + 3])
    closing = stack_array(len(d.rate))
    for k in range(len(g.ends) if g.drift else 0):
        one, other = g.ends[k, 0], g.ends[k, 1]
        x = 0.5 * (one[0] + other[0]), 0.5 * (one[1] + other[1]), 0.5 * (one[2] + other[2])
        first, second = point_drift(motions, g.model.loops[k, 0], x), point_drift(motions, g.model.loops[k, 1], x)
        for c in range(3):
            closing[3 * k + c] = g.dt * (first[c] - second[c])
            d.rate[3 * k + c] += closing[3 * k + c]
    if g.contact_drift and g.dependent:
        _follow(d, closing)


@compiled
def _follow(d: Dynamics, closing: Array) -> None:
    """Replace the drift of the touching tangential rows. closing: dt Ġ v (3m)"""
    g, nv = d.given, len(d.given.v)
    Q, w, rank = stack_array((nv, nv)), stack_array(nv), 0
    fill(w, 0.0)
    # G w = Ġ v, N w = Ṅ v
    for row in range(len(closing)):
        rank = _hold(d.G[row], closing[row], (Q, w), rank)
    for i in range(len(g.mu)):
        if g.gaps[i] <= g.touching:
            rank = _hold(d.J[3 * i + 2], d.drift[3 * i + 2], (Q, w), rank)
    # T = (T Qᵀ) Q + R, (RᵀR + θ²) y = Rᵀ (Ṫ v − T w)
    R, S, y = stack_array((len(d.J), nv)), stack_array((nv, nv)), stack_array(nv)
    fill_rows(S, 0.0)
    fill(y, 0.0)
    for row in range(len(d.J)):
        if row % 3 < 2 and g.gaps[row // 3] <= g.touching:
            copy(d.J[row], R[row])
            _orthogonalise(R[row], Q, rank)
            rest = d.drift[row] - dot(d.J[row], w)
            for i in range(nv):
                if R[row, i] != 0.0:
                    y[i] += R[row, i] * rest
                    for j in range(i + 1):
                        S[i, j] += R[row, i] * R[row, j]
    for j in range(nv):
        S[j, j] += THETA * THETA
    cholesky(S)
    forward(S, y)
    backward(S, y)
    for row in range(len(d.J)):
        if row % 3 < 2 and g.gaps[row // 3] <= g.touching:
            d.drift[row] = dot(d.J[row], w) + dot(R[row], y)


@compiled
def _hold(row: Array, c: float, held: tuple[Array, Array], rank: int) -> int:
    """Change w such that a w = c for a row a, unless it depends on earlier ones. Return the rank.

    held: (orthonormal basis of the earlier rows (nv, nv), w (nv))
    """
    (Q, w), nv = held, len(row)
    if rank == nv:
        return rank
    rest = Q[rank]
    copy(row, rest)
    _orthogonalise(rest, Q, rank)
    square = dot(rest, rest)
    if square <= INDEPENDENT * INDEPENDENT * dot(row, row):
        return rank
    share = (c - dot(row, w)) / square
    for j in range(nv):
        w[j] += rest[j] * share
        rest[j] /= np.sqrt(square)
    return rank + 1


@compiled
def _orthogonalise(row: Array, Q: Array, rank: int) -> None:
    """Subtract from a row its part in the span of the first rows of Q, twice where that cancels most of it."""
    before = dot(row, row)
    for _ in range(2):
        for k in range(rank):
            share = dot(Q[k], row)
            for j in range(len(row)):
                row[j] -= share * Q[k, j]
        if dot(row, row) > 0.01 * before:
            break


@compiled
def body_motions(model: Model, axes: Array, v: Array, out: Motions) -> None:
    """Fill the motions of the bodies for a velocity v (nv)."""
    (V, A), parents, dof_joint, dof = out, model.parents, model.dof_joint, 0
    for c in range(6):
        V[0, c] = A[0, c] = 0.0
    for i in range(1, len(parents)):
        L, M, a = V[parents[i]], V[i], A[i]
        for c in range(6):
            M[c] = L[c]
        while dof < len(v) and dof_joint[dof] == i:
            for c in range(6):
                M[c] += axes[dof, c] * v[dof]
            dof += 1
        # A_i = A_λ + V_λ × V_i
        above = A[parents[i]]
        a[0] = above[0] + L[4] * M[2] - L[5] * M[1] + L[1] * M[5] - L[2] * M[4]
        a[1] = above[1] + L[5] * M[0] - L[3] * M[2] + L[2] * M[3] - L[0] * M[5]
        a[2] = above[2] + L[3] * M[1] - L[4] * M[0] + L[0] * M[4] - L[1] * M[3]
        a[3] = above[3] + L[4] * M[5] - L[5] * M[4]
        a[4] = above[4] + L[5] * M[3] - L[3] * M[5]
        a[5] = above[5] + L[3] * M[4] - L[4] * M[3]


@compiled
def slipping_point(g: Given, i: int) -> Three:
    """Return the point whose velocity on the first body is the slip of contact i: the mean of the body's contacts with the
    ground, or the contact's own point [m]."""
    x, y, z, count = 0.0, 0.0, 0.0, 0
    if g.others[i] == 0:
        for k in range(len(g.mu)):
            if g.bodies[k] == g.bodies[i] and g.others[k] == 0:
                x, y, z, count = x + g.points[k, 0], y + g.points[k, 1], z + g.points[k, 2], count + 1
    if count <= 1:
        return g.points[i, 0], g.points[i, 1], g.points[i, 2]
    return x / count, y / count, z / count


@compiled
def _contact_drift(g: Given, motions: Motions, i: int, out: Array) -> None:
    """Fill dt J̇ v of contact i (3)."""
    (V, A), x, r, s, n, y = motions, g.points[i], g.radii[i], g.tangents[i], g.normals[i], slipping_point(g, i)
    first, second = V[g.bodies[i]], V[g.others[i]]
    a, b = A[g.bodies[i]], A[g.others[i]]
    # ẋ = V_1(y) + r Ω × n
    w0, w1, w2 = first[3] - second[3], first[4] - second[4], first[5] - second[5]
    x0 = first[0] + first[4] * y[2] - first[5] * y[1] + r * (w1 * n[2] - w2 * n[1])
    x1 = first[1] + first[5] * y[0] - first[3] * y[2] + r * (w2 * n[0] - w0 * n[2])
    x2 = first[2] + first[3] * y[1] - first[4] * y[0] + r * (w0 * n[1] - w1 * n[0])
    # A_O + α × x + Ω × ẋ
    a3, a4, a5 = a[3] - b[3], a[4] - b[4], a[5] - b[5]
    d0 = a[0] - b[0] + a4 * x[2] - a5 * x[1] + w1 * x2 - w2 * x1
    d1 = a[1] - b[1] + a5 * x[0] - a3 * x[2] + w2 * x0 - w0 * x2
    d2 = a[2] - b[2] + a3 * x[1] - a4 * x[0] + w0 * x1 - w1 * x0
    if g.others[i] != 0:
        # − ω_2 × u
        u0 = first[0] - second[0] + w1 * x[2] - w2 * x[1]
        u1 = first[1] - second[1] + w2 * x[0] - w0 * x[2]
        u2 = first[2] - second[2] + w0 * x[1] - w1 * x[0]
        d0 -= second[4] * u2 - second[5] * u1
        d1 -= second[5] * u0 - second[3] * u2
        d2 -= second[3] * u1 - second[4] * u0
    t0, t1, t2 = n[1] * s[2] - n[2] * s[1], n[2] * s[0] - n[0] * s[2], n[0] * s[1] - n[1] * s[0]
    out[0] = g.dt * (s[0] * d0 + s[1] * d1 + s[2] * d2)
    out[1] = g.dt * (t0 * d0 + t1 * d1 + t2 * d2)
    out[2] = g.dt * (n[0] * d0 + n[1] * d1 + n[2] * d2)


@compiled
def point_drift(motions: Motions, body: int, x: Three) -> Three:
    """Return the acceleration at v̇ = 0 of a body's point x: A_O + α × x + ω × V(x) [m/s²]."""
    (V, A), (x0, x1, x2) = motions, x
    v0, v1, v2, w0, w1, w2 = V[body]
    a0, a1, a2, b0, b1, b2 = A[body]
    u0, u1, u2 = v0 + w1 * x2 - w2 * x1, v1 + w2 * x0 - w0 * x2, v2 + w0 * x1 - w1 * x0
    return (
        a0 + b1 * x2 - b2 * x1 + w1 * u2 - w2 * u1,
        a1 + b2 * x0 - b0 * x2 + w2 * u0 - w0 * u2,
        a2 + b0 * x1 - b1 * x0 + w0 * u1 - w1 * u0,
    )
