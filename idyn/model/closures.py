"""Closed chains: points of two bodies that stay together, eliminated before any law is asked  (MATHEMATICS §2.1).

    G v⁺ = −rate       G: velocity of the first point relative to the second, three rows for each closure, world axes
    G_u L⁻ᵀ = T Q,     Q orthonormal rows, as many as are independent;  W = T (Tᵀ T)⁻¹
    C = −J_u L⁻ᵀ Qᵀ Wᵀ,    J̃ = J + C G           contacts press on the closures too, and these press back
    λ₀ = −W Wᵀ (G v_free + rate),    λ = λ₀ + Cᵀ p
With J̃ in J's place and λ₀ among the known forces everything else stays what it is without closures: D = J̃_u M_uu⁻¹ J̃_uᵀ.
Where rows depend on one another, as in a plane linkage, λ is the smallest that does it, whichever way the robot faces.

It takes joints without a motor to close a chain: where motors alone do, Y_G has no row for it, and the certificate says so when
their demands contradict one another.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from idyn.errors import FrameNotFound, InputError
from idyn.jit.compiled import compiled
from idyn.model.description import Closure
from idyn.solvers.linalg import backward, cholesky, copy, copy_rows, forward, row_basis
from idyn.types import Array, Record

NEW = 1e-7
"""A row says something new when more than this share of the longest is."""


class Closures(Record, frozen=True):
    """Points that stay together, m pairs.

    keys: their names, `first frame=second frame` (m)
    joints: that carry the first and the second (m, 2)
    offsets: of the points in these joints' frames [m] (m, 2, 3)
    """

    keys: tuple[str, ...]
    joints: Array
    offsets: Array


def place_closures(frames: Mapping[str, Any], closures: Sequence[Closure]) -> Closures:
    """Closures in their joints' frames; `frames`: `pin.Frame` by name. Raises FrameNotFound, InputError."""
    for closure in closures:
        for name in (closure.first, closure.second):
            if name not in frames:
                raise FrameNotFound(name, frames)
        if frames[closure.first].parentJoint == frames[closure.second].parentJoint:
            raise InputError(
                f"closure.{closure.first}", f"expected frames of two bodies, got '{closure.second}' of the same one"
            )
        if closures.count(closure) > 1:
            raise InputError(f"closure.{closure.first}", f"expected once, got it with '{closure.second}' twice")
    placed = [(frames[closure.first], frames[closure.second]) for closure in closures]
    return Closures(
        keys=tuple(f"{closure.first}={closure.second}" for closure in closures),
        joints=np.array([[frame.parentJoint for frame in pair] for pair in placed], dtype=np.int64).reshape(-1, 2),
        offsets=np.array([[frame.placement.translation for frame in pair] for pair in placed]).reshape(-1, 2, 3),
    )


@compiled
def closure_rows(d):
    """Fills G (3m, nv), about the middle of the two points, and the speeds at which they come together again (3m) [m/s]."""
    axes, G = d.axes, d.G
    for k in range(len(d.ends)):
        first, second = d.support[d.loops[k, 0]], d.support[d.loops[k, 1]]
        one, other = d.ends[k, 0], d.ends[k, 1]
        x, y, z = 0.5 * (one[0] + other[0]), 0.5 * (one[1] + other[1]), 0.5 * (one[2] + other[2])
        for j in range(len(axes)):
            sign, e = int(first[j]) - int(second[j]), axes[j]
            G[3 * k, j] = sign * (e[0] + e[4] * z - e[5] * y)
            G[3 * k + 1, j] = sign * (e[1] + e[5] * x - e[3] * z)
            G[3 * k + 2, j] = sign * (e[2] + e[3] * y - e[4] * x)
        gap = np.sqrt((one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2 + (one[2] - other[2]) ** 2)
        share = min(1.0 / d.dt, d.recovery_speed / gap) if gap > d.noise else 0.0
        for c in range(3):
            d.rate[3 * k + c] = share * (one[c] - other[c])


@compiled
def close_loops(d, inertial):
    """What the elimination without closures has filled, v_free, Y, b, energy, for closed chains; C, J̃ and λ₀ besides.

    inertial: v̂_u + M_uu⁻¹ M_ua v̂_a before (nu): M_uu times it is the momentum of which `energy` is the gradient
    """
    u, L, Y, C = d.u, d.L, d.Y, d.C
    Q, W = _span(d)
    rank, nu, rows = len(Q), len(u), len(d.G)
    along, change = np.zeros(rank), np.zeros(nu)  # of what λ₀ does to v_u, in Q; Lᵀ of it
    for row in range(rows):
        lacking = -d.rate[row] - np.dot(d.G[row], d.v_free)
        for k in range(rank):
            along[k] += W[row, k] * lacking
    d.closing_free[:] = 0.0
    for k in range(rank):
        for c in range(nu):
            change[c] += Q[k, c] * along[k]
        for row in range(rows):
            d.closing_free[row] += W[row, k] * along[k]
    weight = change.copy()
    backward(L, change)
    for c in range(nu):
        d.v_free[u[c]] += change[c]
        for i in range(c, nu):
            weight[c] += L[i, c] * inertial[i]
    C[:] = 0.0
    copy_rows(d.J, d.bound)
    for row in range(len(Y)):
        J, y = d.J[row], Y[row]
        for c in range(nu):
            d.b[row] += J[u[c]] * change[c]
        for k in range(rank):
            share = np.dot(Q[k], y)
            for c in range(nu):
                y[c] -= share * Q[k, c]
            for other in range(rows):
                C[row, other] -= share * W[other, k]
        for other in range(rows):
            for j in range(len(J)):
                d.bound[row, j] += C[row, other] * d.G[other, j]
        d.energy[row] = np.dot(y, weight)


@compiled
def _span(d):
    """An orthonormal basis Q (r, nu) of the rows of Y_G = T Q, and W = T (Tᵀ T)⁻¹ (3m, r)  [D15 Alg. 2]."""
    G, L, u = d.G, d.L, d.u
    Y_G = np.empty((len(G), len(u)))
    for row in range(len(G)):
        for i in range(len(u)):
            Y_G[row, i] = G[row, u[i]]
        forward(L, Y_G[row])
    Q = row_basis(Y_G, NEW)
    W, rank = np.empty((len(G), len(Q))), len(Q)
    for row in range(len(G)):
        for k in range(rank):
            W[row, k] = np.dot(Q[k], Y_G[row])
    F = np.zeros((rank, rank))
    for row in range(len(G)):
        for k in range(rank):
            for j in range(rank):
                F[k, j] += W[row, k] * W[row, j]
    cholesky(F)
    for row in range(len(G)):
        forward(F, W[row])
        backward(F, W[row])
    return Q, W


@compiled
def press_back(d, p):
    """Fills `closing`, λ = λ₀ + Cᵀ p."""
    copy(d.closing_free, d.closing)
    for row in range(len(p)):
        if p[row] != 0.0:
            for k in range(len(d.closing)):
                d.closing[k] += d.C[row, k] * p[row]
