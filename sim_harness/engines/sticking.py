"""Contacts that are held sideways: their tangential rows eliminated from the problem in the normals, and found again.

S v⁺ = T v⁺ = 0 of contacts that are held        N v⁺ + c = Y Yᵀ p_N + r of all
"""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.types import Array
from sim_harness.engines.bilateral import DEPENDENT, Held, along, orthonormalise, project, row_forces

ROUNDING = 1e-12
"""An impulse below this share of the largest is none. Those of a QP's inactive bounds are not quite zero."""

INDEPENDENT = 1e-3
"""A tangential row is left out when less than this share of its length is new, in the metric M⁻¹. Points of a face that are not
quite on one plane differ by less; their normals hold what such rows would hold with lever arms of micrometres."""

SHARE = 1e-6
"""A contact can press when its share of the smallest impulses is more than this of the largest of them."""


class Stick(NamedTuple):
    """The problem in the normals while some contacts are held sideways.

    rows: of S and T of those contacts, in the order of their elimination (2k)
    held, t: their directions and how fast the motion must go along them
    Y, r: N v⁺ + c = Y Yᵀ p_N + r (N, nv), (N)
    """

    rows: Array
    held: Held
    t: Array
    Y: Array
    r: Array


@compiled
def stick_rows(Y: Array, b: Array, c: Array, contacts: Array) -> Stick:
    n, nv = len(c), Y.shape[1]
    rows = np.zeros(2 * len(contacts), dtype=np.int64)
    X = np.zeros((len(rows), nv))
    speeds = np.zeros(len(rows))
    for k in range(len(rows)):
        rows[k] = 3 * contacts[k // 2] + k % 2
        speeds[k] = -b[rows[k]]
        for d in range(nv):
            X[k, d] = Y[rows[k], d]
    Q, kept = np.zeros((min(len(rows), nv), nv)), np.zeros(min(len(rows), nv), dtype=np.int64)
    C, rank = orthonormalise(X, Q, kept, 0, INDEPENDENT)
    held = Held(Q[:rank].copy(), C[:, :rank].copy(), kept[:rank].copy())
    t = along(held, speeds)
    x = np.zeros(nv)
    for j in range(rank):
        for d in range(nv):
            x[d] += t[j] * Q[j, d]
    normals, r = np.zeros((n, nv)), np.zeros(n)
    for i in range(n):
        r[i] = b[3 * i + 2] + c[i]
        for d in range(nv):
            normals[i, d] = Y[3 * i + 2, d]
            r[i] += normals[i, d] * x[d]
        project(held.Q, normals[i])
    return Stick(rows, held, t, normals, r)


@compiled
def impulses(Y: Array, stick: Stick, z: Array) -> Array:
    """All impulses (3N) from those of the normals (N): the tangential ones make the kept rows' speeds vanish."""
    p, pressed, load = np.zeros(len(Y)), np.zeros(Y.shape[1]), stick.t.copy()
    for i in range(len(z)):
        p[3 * i + 2] = z[i]
        if z[i] != 0.0:
            for d in range(Y.shape[1]):
                pressed[d] += z[i] * Y[3 * i + 2, d]
    for j in range(len(load)):
        for d in range(Y.shape[1]):
            load[j] -= stick.held.Q[j, d] * pressed[d]
    friction = row_forces(stick.held, load)
    for k in range(len(friction)):
        p[stick.rows[k]] = friction[k]
    return p


@compiled
def can_press(Y: Array, z: Array, touches: Array) -> Array:
    """Which contacts press, or could take over a share of what others press (N, bool); Y: rows of the normals (N, nv)."""
    n, nv = Y.shape
    largest = 0.0
    for i in range(n):
        largest = max(largest, z[i])
    presses, more = np.zeros(n, dtype=np.bool_), False
    for i in range(n):
        presses[i] = z[i] > ROUNDING * largest
        more = more or (touches[i] and not presses[i])
    on = np.flatnonzero(touches | presses)
    if largest == 0.0 or not more:
        return presses
    X, share = np.zeros((nv, len(on))), np.zeros(len(on))
    for k in range(len(on)):
        for d in range(nv):
            X[d, k] = Y[on[k], d]
    size = min(len(on), nv)
    Q = np.zeros((size, len(on)))
    _, rank = orthonormalise(X, Q, np.zeros(size, dtype=np.int64), 0, DEPENDENT)
    for j in range(rank):
        s = 0.0
        for k in range(len(on)):
            s += Q[j, k] * z[on[k]]
        for k in range(len(on)):
            share[k] += s * Q[j, k]
    largest = 0.0
    for k in range(len(on)):
        largest = max(largest, abs(share[k]))
    for k in range(len(on)):
        presses[on[k]] = presses[on[k]] or share[k] > SHARE * largest
    return presses


@compiled
def violation(Y: Array, b: Array, c: Array, p: Array, held: Array) -> float:
    """The largest of |min(p_N, N v⁺ + c)| and of the speeds along the rows that are held."""
    x = np.zeros(Y.shape[1])
    for i in range(len(p)):
        if p[i] != 0.0:
            for d in range(len(x)):
                x[d] += p[i] * Y[i, d]
    worst = 0.0
    for i in range(len(c)):
        w = b[3 * i + 2] + c[i]
        for d in range(len(x)):
            w += Y[3 * i + 2, d] * x[d]
        worst = max(worst, abs(min(p[3 * i + 2], w)))
    for k in held:
        s = b[k]
        for d in range(len(x)):
            s += Y[k, d] * x[d]
        worst = max(worst, abs(s))
    return worst
