"""Elimination of closures (closed chains) from the reduced problem, before the law is solved  (MATHEMATICS §2.1).

    G v⁺ = −rate       G: velocity of the first point relative to the second, three rows for each closure, world axes
    G_u L⁻ᵀ = T Q,     Q: orthonormal rows, as many as G_u L⁻ᵀ has independent rows;  W = T (Tᵀ T)⁻¹
    C = −J_u L⁻ᵀ Qᵀ Wᵀ,    J̃ = J + C G           contact impulses p change the closure impulses by Cᵀ p
    λ₀ = −W Wᵀ (G v_free + rate),    λ = λ₀ + Cᵀ p

With J̃ instead of J and λ₀ among the known forces, all other formulas are those without closures: D = J̃_u M_uu⁻¹ J̃_uᵀ.
When rows of G are linearly dependent, as in a plane linkage, λ is the smallest solution, independent of the robot's heading.

Closures are enforced by the motion of unactuated joints. A closed chain that has actuated joints only has zero rows in
Y_G = G_u L⁻ᵀ; if the demands contradict such a closure, the certificate fails.
"""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.solvers.linalg import backward, cholesky, forward, row_basis
from idyn.solvers.vectors import copy, copy_rows, dot, fill, fill_rows
from idyn.terms.stages import Dynamics, ReducedProblem
from idyn.types import Array

INDEPENDENT = 1e-7
"""A row is independent of earlier rows if its orthogonal part is longer than this share of the longest row."""


@compiled
def closure_rows(d: Dynamics) -> None:
    """Fill G (3m, nv), evaluated at the midpoint of the two points of each closure, and `rate`, the velocity at which their
    difference is reduced (3m) [m/s]."""
    g, G = d.given, d.G
    axes, ends, loops, support = g.axes, g.ends, g.model.loops, g.model.support
    for k in range(len(ends)):
        # G: v_O + ω × x of each degree of freedom at the midpoint x, first body minus second
        first, second = support[loops[k, 0]], support[loops[k, 1]]
        one, other = ends[k, 0], ends[k, 1]
        x, y, z = 0.5 * (one[0] + other[0]), 0.5 * (one[1] + other[1]), 0.5 * (one[2] + other[2])
        for j in range(len(axes)):
            sign, e = int(first[j]) - int(second[j]), axes[j]
            G[3 * k, j] = sign * (e[0] + e[4] * z - e[5] * y)
            G[3 * k + 1, j] = sign * (e[1] + e[5] * x - e[3] * z)
            G[3 * k + 2, j] = sign * (e[2] + e[3] * y - e[4] * x)
        # rate = g/dt, limited by the recovery speed; 0 within the noise
        gap = np.sqrt((one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2 + (one[2] - other[2]) ** 2)
        share = min(1.0 / g.dt, g.recovery_speed / gap) if gap > g.noise else 0.0
        for c in range(3):
            d.rate[3 * k + c] = share * (one[c] - other[c])


@compiled
def close_loops(problem: ReducedProblem, inertial: Array) -> None:
    """Update v_free, Y, b and energy for closed chains (before the call they are those without closures); fill C, J̃ and λ₀.

    inertial: v̂_u + M_uu⁻¹ M_ua v̂_a without closures (nu); energy = J_u inertial
    """
    d, L, Y, C = problem.dynamics, problem.L, problem.Y, problem.C
    G, u, free = d.G, d.given.model.u, problem.closing_free
    Q, W = _span(problem)
    rank, nu, rows = len(Q), len(u), len(G)
    along, change = np.zeros(rank), np.zeros(nu)  # effect of λ₀ on v_u, as coordinates in Q; Lᵀ Δv_u, then Δv_u
    # λ₀ = −W Wᵀ (G v_free + rate)
    for row in range(rows):
        lacking = -d.rate[row] - dot(G[row], problem.v_free)
        for k in range(rank):
            along[k] += W[row, k] * lacking
    fill(free, 0.0)
    for k in range(rank):
        for c in range(nu):
            change[c] += Q[k, c] * along[k]
        for row in range(rows):
            free[row] += W[row, k] * along[k]
    # v_free with λ₀ among the known forces; weight = Lᵀ (inertial + Δv_u)
    weight = change.copy()
    backward(L, change)
    for c in range(nu):
        problem.v_free[u[c]] += change[c]
        for i in range(c, nu):
            weight[c] += L[i, c] * inertial[i]
    # Y minus its part in the span of Y_G;  C = −J_u L⁻ᵀ Qᵀ Wᵀ,  J̃ = J + C G
    fill_rows(C, 0.0)
    copy_rows(d.J, problem.bound)
    for row in range(len(Y)):
        J, y = d.J[row], Y[row]
        for c in range(nu):
            problem.b[row] += J[u[c]] * change[c]
        for k in range(rank):
            share = dot(Q[k], y)
            for c in range(nu):
                y[c] -= share * Q[k, c]
            for other in range(rows):
                C[row, other] -= share * W[other, k]
        for other in range(rows):
            for j in range(len(J)):
                problem.bound[row, j] += C[row, other] * G[other, j]
        problem.energy[row] = dot(y, weight)


@compiled
def _span(problem: ReducedProblem) -> tuple[Array, Array]:
    """Return an orthonormal basis Q (r, nu) of the rows of Y_G = T Q, and W = T (Tᵀ T)⁻¹ (3m, r)  [D15 Alg. 2]."""
    G, L, u = problem.dynamics.G, problem.L, problem.dynamics.given.model.u
    # Y_G = G_u L⁻ᵀ
    Y_G = np.empty((len(G), len(u)))
    for row in range(len(G)):
        for i in range(len(u)):
            Y_G[row, i] = G[row, u[i]]
        forward(L, Y_G[row])
    Q = row_basis(Y_G, INDEPENDENT)
    # T = Y_G Qᵀ, stored in W
    W, rank = np.empty((len(G), len(Q))), len(Q)
    for row in range(len(G)):
        for k in range(rank):
            W[row, k] = dot(Q[k], Y_G[row])
    # W = T (Tᵀ T)⁻¹
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
def closure_impulses(problem: ReducedProblem, p: Array, closing: Array) -> None:
    """Fill `closing` with the closure impulses λ = λ₀ + Cᵀ p (3m) for contact impulses p (3n)."""
    copy(problem.closing_free, closing)
    for row in range(len(p)):
        if p[row] != 0.0:
            for k in range(len(closing)):
                closing[k] += problem.C[row, k] * p[row]
