"""Contacts that are held sideways: their tangential rows eliminated from the problem in the normals, and found again.

S v⁺ = T v⁺ = 0 of contacts that are held        N v⁺ + c = Y Yᵀ p_N + r of all
"""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.solvers.linalg import copy
from idyn.types import Array
from sim_harness.engines.bilateral import DEPENDENT, Held, along, orthonormalise, project, row_forces
from sim_harness.engines.vectors import add, dot, pushed

ROUNDING = 1e-12
"""An impulse below this share of the largest counts as zero. Those of a QP's inactive bounds are not quite zero."""

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
    n, nv, m = len(c), Y.shape[1], 2 * len(contacts)
    rows, X, speeds = np.zeros(m, dtype=np.int64), np.zeros((m, nv)), np.zeros(m)
    for k in range(m):
        rows[k] = 3 * contacts[k // 2] + k % 2
        speeds[k] = -b[rows[k]]
        copy(Y[rows[k]], X[k])
    # the motion x along Q that makes S v⁺ = T v⁺ = 0
    held = orthonormalise(X, INDEPENDENT)
    t = along(held, speeds)
    x = np.zeros(nv)
    for j in range(len(t)):
        add(x, t[j], held.Q[j])
    # r = N v⁺ + c at x; Y without its components along Q
    normals, r = np.zeros((n, nv)), np.zeros(n)
    for i in range(n):
        copy(Y[3 * i + 2], normals[i])
        r[i] = dot(b[3 * i + 2] + c[i], normals[i], x)
        project(held.Q, normals[i])
    return Stick(rows, held, t, normals, r)


@compiled
def impulses(Y: Array, stick: Stick, z: Array) -> Array:
    """All impulses (3N) from those of the normals (N): the tangential ones make the kept rows' speeds vanish."""
    p = np.zeros(len(Y))
    for i in range(len(z)):
        p[3 * i + 2] = z[i]
    pulled, load = -pushed(Y, p), stick.t.copy()
    for j in range(len(load)):
        load[j] = dot(load[j], stick.held.Q[j], pulled)
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
    # the smallest impulses with the same effect Yᵀ z: its part in the row space of Yᵀ
    X, share = np.zeros((nv, len(on))), np.zeros(len(on))
    for k in range(len(on)):
        for d in range(nv):
            X[d, k] = Y[on[k], d]
    pressing = z[on]
    for way in orthonormalise(X, DEPENDENT).Q:
        add(share, dot(0.0, way, pressing), way)
    largest = 0.0
    for k in range(len(on)):
        largest = max(largest, abs(share[k]))
    for k in range(len(on)):
        presses[on[k]] = presses[on[k]] or share[k] > SHARE * largest
    return presses


@compiled
def violation(Y: Array, b: Array, c: Array, p: Array, held: Array) -> float:
    """The largest of |min(p_N, N v⁺ + c)| and of the speeds along the rows that are held."""
    x, worst = pushed(Y, p), 0.0
    for i in range(len(c)):
        w = dot(b[3 * i + 2] + c[i], Y[3 * i + 2], x)
        worst = max(worst, abs(min(p[3 * i + 2], w)))
    for k in held:
        worst = max(worst, abs(dot(b[k], Y[k], x)))
    return worst
