"""Response to joint torques of a robot whose loaded contacts neither slip nor open: M a = Pᵀ τ + Jᵀ f, with J a = 0 at them.

M = Lᵀ L is factored from the leaves of the tree to its root [Featherstone, Rigid Body Dynamics Algorithms, §6.5]. L is zero
wherever M is, between separate branches, and zero entries are skipped. With W = L⁻ᵀ Jᵀ and w = L⁻ᵀ Pᵀ τ,

    Wᵀ W f = −Wᵀ w,     a = L⁻¹ (w + W f)
"""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.jit.stack import stack_array
from idyn.solvers.linalg import backward, cholesky, forward
from idyn.solvers.vectors import copy_rows, fill, fill_rows
from idyn.terms.stages import Dynamics
from idyn.types import Array

EPSILON = 1e-9
"""Regularisation of J M⁻¹ Jᵀ, relative to its mean diagonal. It permits redundant contact rows."""


@compiled
def react(d: Dynamics, p: Array, tau: Array, acceleration: Array, borne: Array) -> None:
    """Add the response to torques τ (na) to the acceleration [m/s², rad/s²] (nv) and to the sum of the contact forces [N] (3).

    p: contact impulses (3n); contacts with p_N > 0 are loaded
    borne: sum of the contact forces on the robot, world frame [N] (3)
    """
    g, nv, held, count = d.given, len(d.given.v), stack_array(len(p) // 3, np.int64), 0
    for i in range(len(held)):
        if p[3 * i + 2] > 0.0:
            held[count] = i
            count += 1
    rows = 3 * count
    # [Jᵀ, Pᵀ τ] and Lᵀ L = M, then [W, w] = L⁻ᵀ [Jᵀ, Pᵀ τ]
    L, W = stack_array((nv, nv)), stack_array((nv, rows + 1))
    copy_rows(g.M, L)
    fill_rows(W, 0.0)
    for row in range(rows):
        J = d.J[3 * held[row // 3] + row % 3]
        for j in range(nv):
            W[j, row] = J[j]
    for k in range(len(tau)):
        W[g.model.a[k], rows] = tau[k]
    _factor(L)
    _towards_root(L, W)
    # Wᵀ W f = −Wᵀ w, and Σ f in the world
    f = stack_array(rows)
    _hold(W, f)
    for i in range(count):
        s, n, fs, ft, fn = g.tangents[held[i]], g.normals[held[i]], f[3 * i], f[3 * i + 1], f[3 * i + 2]
        borne[0] += fs * s[0] + ft * (n[1] * s[2] - n[2] * s[1]) + fn * n[0]
        borne[1] += fs * s[1] + ft * (n[2] * s[0] - n[0] * s[2]) + fn * n[1]
        borne[2] += fs * s[2] + ft * (n[0] * s[1] - n[1] * s[0]) + fn * n[2]
    # a = L⁻¹ (w + W f)
    x = stack_array(nv)
    for j in range(nv):
        x[j] = W[j, rows]
        for row in range(rows):
            x[j] += W[j, row] * f[row]
        for i in range(j):
            x[j] -= L[j, i] * x[i]
        x[j] /= L[j, j]
        acceleration[j] += x[j]


@compiled
def _hold(W: Array, f: Array) -> None:
    """Fill the contact forces f (3n) [N]: (Wᵀ W + ε) f = −Wᵀ w.

    W: [L⁻ᵀ Jᵀ, L⁻ᵀ Pᵀ τ] (nv, 3n + 1)
    """
    rows = len(f)
    D, trace = stack_array((rows, rows)), 0.0
    fill_rows(D, 0.0)
    fill(f, 0.0)
    # Wᵀ W, lower triangle, and −Wᵀ w
    for w in W:
        for row in range(rows):
            if w[row] != 0.0:
                for other in range(row + 1):
                    D[row, other] += w[row] * w[other]
                f[row] -= w[row] * w[rows]
    # + ε, relative to the mean diagonal
    for row in range(rows):
        trace += D[row, row]
    for row in range(rows):
        D[row, row] += EPSILON * trace / rows
    cholesky(D)
    forward(D, f)
    backward(D, f)


@compiled
def _factor(M: Array) -> None:
    """M ← L with Lᵀ L = M, in the lower triangle, in place."""
    for k in range(len(M) - 1, -1, -1):
        row = M[k]
        row[k] = np.sqrt(row[k])
        share = 1.0 / row[k]
        for i in range(k):
            row[i] *= share
        for i in range(k):
            if row[i] != 0.0:
                for j in range(i + 1):
                    M[i, j] -= row[i] * row[j]


@compiled
def _towards_root(L: Array, X: Array) -> None:
    """X ← L⁻ᵀ X, in place."""
    for k in range(len(L) - 1, -1, -1):
        share = 1.0 / L[k, k]
        for c in range(X.shape[1]):
            X[k, c] *= share
        for i in range(k):
            if L[k, i] != 0.0:
                for c in range(X.shape[1]):
                    X[i, c] -= L[k, i] * X[k, c]
