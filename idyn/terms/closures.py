"""Closures (closed chains) in the dynamics: eliminated before any law is asked  (MATHEMATICS §2.1).

    G v⁺ = −rate       G: velocity of the first point relative to the second, three rows for each closure, world axes
    G_u L⁻ᵀ = T Q,     Q orthonormal rows, as many as are independent;  W = T (Tᵀ T)⁻¹
    C = −J_u L⁻ᵀ Qᵀ Wᵀ,    J̃ = J + C G           contacts press on the closures too, and these press back
    λ₀ = −W Wᵀ (G v_free + rate),    λ = λ₀ + Cᵀ p

With J̃ in J's place and λ₀ among the known forces everything else stays what it is without closures: D = J̃_u M_uu⁻¹ J̃_uᵀ.
Where rows depend on one another, as in a plane linkage, λ is the smallest that does it, whichever way the robot faces.

It takes joints without a motor to close a chain: where motors alone do, Y_G has no row for it, and the certificate says so when
their demands contradict one another.
"""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.solvers.linalg import backward, cholesky, copy, copy_rows, forward, row_basis
from idyn.terms.stages import Dynamics, ReducedProblem
from idyn.types import Array

NEW = 1e-7
"""A row says something new when more than this share of the longest is."""


@compiled
def closure_rows(d: Dynamics) -> None:
    """Fill G (3m, nv), about the middle of the two points, and the speeds at which they come together again (3m) [m/s]."""
    g, G = d.given, d.G
    axes, ends, loops, support = g.axes, g.ends, g.model.loops, g.model.support
    for k in range(len(ends)):
        first, second = support[loops[k, 0]], support[loops[k, 1]]
        one, other = ends[k, 0], ends[k, 1]
        x, y, z = 0.5 * (one[0] + other[0]), 0.5 * (one[1] + other[1]), 0.5 * (one[2] + other[2])
        for j in range(len(axes)):
            sign, e = int(first[j]) - int(second[j]), axes[j]
            G[3 * k, j] = sign * (e[0] + e[4] * z - e[5] * y)
            G[3 * k + 1, j] = sign * (e[1] + e[5] * x - e[3] * z)
            G[3 * k + 2, j] = sign * (e[2] + e[3] * y - e[4] * x)
        gap = np.sqrt((one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2 + (one[2] - other[2]) ** 2)
        share = min(1.0 / g.dt, g.recovery_speed / gap) if gap > g.noise else 0.0
        for c in range(3):
            d.rate[3 * k + c] = share * (one[c] - other[c])


@compiled
def close_loops(problem: ReducedProblem, inertial: Array) -> None:
    """Change v_free, Y, b and energy, eliminated without closures, to those of closed chains; fill C, J̃ and λ₀.

    inertial: v̂_u + M_uu⁻¹ M_ua v̂_a before (nu): M_uu times it is the momentum of which `energy` is the gradient
    """
    d, L, Y, C = problem.dynamics, problem.L, problem.Y, problem.C
    G, u, free = d.G, d.given.model.u, problem.closing_free
    Q, W = _span(problem)
    rank, nu, rows = len(Q), len(u), len(G)
    along, change = np.zeros(rank), np.zeros(nu)  # of what λ₀ does to v_u, in Q; Lᵀ of it
    # λ₀ = −W Wᵀ (G v_free + rate)
    for row in range(rows):
        lacking = -d.rate[row] - np.dot(G[row], problem.v_free)
        for k in range(rank):
            along[k] += W[row, k] * lacking
    free[:] = 0.0
    for k in range(rank):
        for c in range(nu):
            change[c] += Q[k, c] * along[k]
        for row in range(rows):
            free[row] += W[row, k] * along[k]
    # v_free with λ₀ among the known forces
    weight = change.copy()
    backward(L, change)
    for c in range(nu):
        problem.v_free[u[c]] += change[c]
        for i in range(c, nu):
            weight[c] += L[i, c] * inertial[i]
    # Y without its part in the span of Y_G;  C = −J_u L⁻ᵀ Qᵀ Wᵀ,  J̃ = J + C G
    C[:] = 0.0
    copy_rows(d.J, problem.bound)
    for row in range(len(Y)):
        J, y = d.J[row], Y[row]
        for c in range(nu):
            problem.b[row] += J[u[c]] * change[c]
        for k in range(rank):
            share = np.dot(Q[k], y)
            for c in range(nu):
                y[c] -= share * Q[k, c]
            for other in range(rows):
                C[row, other] -= share * W[other, k]
        for other in range(rows):
            for j in range(len(J)):
                problem.bound[row, j] += C[row, other] * G[other, j]
        problem.energy[row] = np.dot(y, weight)


@compiled
def _span(problem: ReducedProblem) -> tuple[Array, Array]:
    """An orthonormal basis Q (r, nu) of the rows of Y_G = T Q, and W = T (Tᵀ T)⁻¹ (3m, r)  [D15 Alg. 2]."""
    G, L, u = problem.dynamics.G, problem.L, problem.dynamics.given.model.u
    Y_G = np.empty((len(G), len(u)))
    for row in range(len(G)):
        for i in range(len(u)):
            Y_G[row, i] = G[row, u[i]]
        forward(L, Y_G[row])
    Q = row_basis(Y_G, NEW)
    W, rank = np.empty((len(G), len(Q))), len(Q)  # T first
    for row in range(len(G)):
        for k in range(rank):
            W[row, k] = np.dot(Q[k], Y_G[row])
    F = np.zeros((rank, rank))  # Tᵀ T
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
def press_back(problem: ReducedProblem, p: Array, closing: Array) -> None:
    """Fill the closures' impulses λ = λ₀ + Cᵀ p (3m)."""
    copy(problem.closing_free, closing)
    for row in range(len(p)):
        if p[row] != 0.0:
            for k in range(len(closing)):
                closing[k] += problem.C[row, k] * p[row]
