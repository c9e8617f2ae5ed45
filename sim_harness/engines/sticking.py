"""Sticking contacts: eliminate their tangential rows from the problem in the normals, and recover their friction impulses.

S v⁺ = T v⁺ = 0 of sticking contacts        N v⁺ + c = Y Yᵀ p_N + r of all contacts
"""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.solvers.vectors import copy
from idyn.types import Array
from sim_harness.engines.bilateral import DEPENDENT, RowFactor, components, orthonormalise, project, row_forces
from sim_harness.engines.vectors import add, dot, pushed

ROUNDING = 1e-12
"""An impulse below this share of the largest counts as zero. A QP returns tiny non-zero impulses at inactive bounds."""

INDEPENDENT = 1e-3
"""A tangential row is dropped when its part orthogonal to earlier rows is below this share of its length, in the metric M⁻¹.
Rows of points that lie almost in one plane differ by less. Their normals already constrain that motion, which the tangential
rows would constrain with lever arms of micrometres."""

SHARE = 1e-6
"""A contact can press when its entry in the least-squares smallest impulses exceeds this fraction of their largest entry."""


class Stick(NamedTuple):
    """The problem in the normals for a given set of k sticking contacts.

    rows: indices of the rows S and T of the sticking contacts, in the order of elimination (2k)
    factor: orthonormal factor of these rows
    t: required velocity along the directions Q of the factor (rank)
    Y, r: N v⁺ + c = Y Yᵀ p_N + r (N, nv), (N)
    """

    rows: Array
    factor: RowFactor
    t: Array
    Y: Array
    r: Array


@compiled
def stick_rows(Y: Array, b: Array, c: Array, contacts: Array) -> Stick:
    """Eliminate the tangential rows of sticking contacts.

    Y, b: see `Space`
    c: gap speeds [m/s] (N)
    contacts: indices of the sticking contacts (k)
    """
    n, nv, m = len(c), Y.shape[1], 2 * len(contacts)
    rows, X, speeds = np.zeros(m, dtype=np.int64), np.zeros((m, nv)), np.zeros(m)
    for k in range(m):
        rows[k] = 3 * contacts[k // 2] + k % 2
        speeds[k] = -b[rows[k]]
        copy(Y[rows[k]], X[k])
    # the motion x along Q that makes S v⁺ = T v⁺ = 0
    factor = orthonormalise(X, INDEPENDENT)
    t = components(factor, speeds)
    x = np.zeros(nv)
    for j in range(len(t)):
        add(x, t[j], factor.Q[j])
    # r = N v⁺ + c at x; Y ← N L⁻ᵀ (1 − Qᵀ Q)
    normals, r = np.zeros((n, nv)), np.zeros(n)
    for i in range(n):
        copy(Y[3 * i + 2], normals[i])
        r[i] = dot(b[3 * i + 2] + c[i], normals[i], x)
        project(factor.Q, normals[i])
    return Stick(rows, factor, t, normals, r)


@compiled
def impulses(Y: Array, stick: Stick, z: Array) -> Array:
    """Return all impulses (3N) for normal impulses z (N); friction makes the speeds of the independent tangential rows 0."""
    p = np.zeros(len(Y))
    for i in range(len(z)):
        p[3 * i + 2] = z[i]
    pulled, load = -pushed(Y, p), stick.t.copy()
    for j in range(len(load)):
        load[j] = dot(load[j], stick.factor.Q[j], pulled)
    friction = row_forces(stick.factor, load)
    for k in range(len(friction)):
        p[stick.rows[k]] = friction[k]
    return p


@compiled
def can_press(Y: Array, z: Array, touches: Array) -> Array:
    """Return which contacts press or could take a share of the load of pressing contacts (N, bool).

    Y: rows of the normals (N, nv)
    z: normal impulses (N)
    touches: true for contacts that are closed at the end of the step (N)
    """
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
    # the smallest impulses with the same effect Yᵀ z: project z onto the row space of Yᵀ
    X, share = np.zeros((nv, len(on))), np.zeros(len(on))
    for k in range(len(on)):
        for d in range(nv):
            X[d, k] = Y[on[k], d]
    pressing = z[on]
    for direction in orthonormalise(X, DEPENDENT).Q:
        add(share, dot(0.0, direction, pressing), direction)
    largest = 0.0
    for k in range(len(on)):
        largest = max(largest, abs(share[k]))
    for k in range(len(on)):
        presses[on[k]] = presses[on[k]] or share[k] > SHARE * largest
    return presses


@compiled
def violation(Y: Array, b: Array, c: Array, p: Array, held: Array) -> float:
    """Return the largest of |min(p_N, N v⁺ + c)| and of the speeds of the sticking rows; held: indices of these rows."""
    x, worst = pushed(Y, p), 0.0
    for i in range(len(c)):
        w = dot(b[3 * i + 2] + c[i], Y[3 * i + 2], x)
        worst = max(worst, abs(min(p[3 * i + 2], w)))
    for k in held:
        worst = max(worst, abs(dot(b[k], Y[k], x)))
    return worst
