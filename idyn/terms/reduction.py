"""The stages reduced problem and torque: contact in the unactuated space for prescribed joint motion  [ZD §3, §4.2, §6.2.2;
MATHEMATICS §2], closed chains eliminated (§2.1). When rows of G are linearly dependent, as in a plane linkage, λ is the
smallest solution. If the demands contradict a closed chain of actuated joints only, the certificate fails."""

import numpy as np

from idyn.contact.ground import allowance
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Vector
from idyn.solvers.linalg import backward, cholesky, copy, copy_rows, dot, fill, fill_rows, forward, forward_rows, row_basis
from idyn.terms.stages import Dynamics, ReducedProblem
from idyn.types import Array, Record

INDEPENDENT = 1e-7  # a row is independent of earlier rows if its orthogonal part is longer than this share of the longest row


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


NOTHING = np.zeros(0)


class Reduced(Record, frozen=True):
    """Arrays of a `ReducedProblem` for the Python rungs of laws."""

    Y: Array  # see `ReducedProblem` (3n, nu)
    b: Array  # see `ReducedProblem` (3n)
    energy: Array  # see `ReducedProblem` (3n)
    mu: Array  # friction coefficients of the contacts; a rung (solver attempt) may change them (n)
    last: Array = NOTHING  # p⁻ [N·s] (3n)
    independent: float = 1e-3  # see `idyn.contact.ground.Ground`


def view(problem: ReducedProblem) -> Reduced:
    """Return views of the problem's arrays, valid until the problem is filled again."""
    given = problem.dynamics.given
    p, g = problem.own, given.own
    return Reduced(Y=p["Y"], b=p["b"], energy=p["energy"], mu=g["mu"], last=g["last"], independent=given.independent)


def reduce(problem: ReducedProblem, q_ddot: Array) -> Reduced:
    """Call `reduce_problem` from Python. Return views of the problem's arrays, valid until it is filled again."""
    reduce_problem(problem, q_ddot)
    return view(problem)


@entry(ReducedProblem, Vector)
def reduce_problem(problem: ReducedProblem, q_ddot: Array) -> None:
    """Fill a `ReducedProblem` for demanded joint accelerations [rad/s²] (na)."""
    free_motion(problem, q_ddot)
    g, v_free = problem.dynamics.given, problem.v_free
    u, a = g.model.u, g.model.a
    # v̂ without contact impulses, and v̂_u + M_uu⁻¹ M_ua v̂_a
    hat, inertial = stack_array(len(v_free)), stack_array(len(u))
    for j in range(len(v_free)):
        hat[j] = v_free[j] - g.keep * g.v[j]
    for i in range(len(u)):
        inertial[i] = 0.0
        for k in range(len(a)):
            inertial[i] += g.M[u[i], a[k]] * hat[a[k]]
    forward(problem.L, inertial)
    backward(problem.L, inertial)
    for i in range(len(u)):
        inertial[i] += hat[u[i]]
    _project(problem, hat, inertial)
    if len(problem.dynamics.G) > 0:
        close_loops(problem, inertial)
    if g.rho > 0.0:
        _remember(problem)


@compiled
def free_motion(problem: ReducedProblem, q_ddot: Array) -> None:
    """Fill q_ddot, L and v_free, the motion without contact impulses, and load = 0."""
    copy(q_ddot, problem.q_ddot)
    fill(problem.load, 0.0)
    g, L, v_free = problem.dynamics.given, problem.L, problem.v_free
    M, v, dt, u, a = g.M, g.v, g.dt, g.model.u, g.model.a
    free = stack_array(len(u))
    # v_a⁺ = v_a + dt q̈
    for k in range(len(a)):
        v_free[a[k]] = v[a[k]] + dt * q_ddot[k]
    # v_u⁰ = v_u − M_uu⁻¹ dt (M_ua q̈ + h_u)
    for i in range(len(u)):
        for j in range(len(u)):
            L[i, j] = M[u[i], u[j]]
        change = 0.0
        for k in range(len(a)):
            change += M[u[i], a[k]] * q_ddot[k]
        free[i] = dt * (change + g.h[u[i]])
    cholesky(L)
    forward(L, free)
    backward(L, free)
    for i in range(len(u)):
        v_free[u[i]] = v[u[i]] - free[i]


@compiled
def _project(problem: ReducedProblem, hat: Array, inertial: Array) -> None:
    """Fill b = J v̂ + dt J̇ v + φ/dt, energy = J_u (v̂_u + M_uu⁻¹ M_ua v̂_a) and Y = J_u L⁻ᵀ."""
    d, Y, b, energy = problem.dynamics, problem.Y, problem.b, problem.energy
    J, u = d.J, d.given.model.u
    for row in range(len(b)):
        velocity, slope = allowance(d.given, row // 3) if row % 3 == 2 else 0.0, 0.0
        for j in range(len(hat)):
            velocity += J[row, j] * hat[j]
        for k in range(len(u)):
            Y[row, k] = J[row, u[k]]
            slope += Y[row, k] * inertial[k]
        b[row], energy[row] = velocity + d.drift[row], slope
    forward_rows(problem.L, Y)


@compiled
def _remember(problem: ReducedProblem) -> None:
    """Add the memory term ρ D (p − p⁻) to û = D p + b: scale Y by √(1 + ρ), subtract ρ Y Yᵀ p⁻ from b and energy."""
    Y, given = problem.Y, problem.dynamics.given
    (rows, nu), rho, last = Y.shape, given.rho, given.last
    held, stretch = np.zeros(nu), np.sqrt(1.0 + rho)  # Yᵀ p⁻
    for row in range(rows):
        y = Y[row]
        for k in range(nu):
            held[k] += y[k] * last[row]
    for row in range(rows):
        y, share = Y[row], 0.0
        for k in range(nu):
            share += rho * y[k] * held[k]
            y[k] *= stretch
        problem.b[row] -= share
        problem.energy[row] -= share


@compiled
def recover(problem: ReducedProblem, p: Array, v_plus: Array, tau: Array, closing: Array) -> None:
    """The torque stage: fill v⁺ (nv), τ (na) [N·m] and the closure impulses λ (3m) for contact impulses p (3n)."""
    d, g = problem.dynamics, problem.dynamics.given
    v, u, a, dt = g.v, g.model.u, g.model.a, g.dt
    nu, nv = len(u), len(v)
    # force = Jᵀ p + Gᵀ λ;  change = M_uu⁻¹ (J_uᵀ p + dt load_u + G_uᵀ (λ − λ₀)), as v_free contains λ₀
    force, change, gain = stack_array(nv), stack_array(nu), stack_array(nv)
    fill(force, 0.0)
    for row in range(len(p)):
        if p[row] != 0.0:
            J = d.J[row]
            for j in range(nv):
                force[j] += J[j] * p[row]
    closure_impulses(problem, p, closing)
    for i in range(nu):
        change[i] = force[u[i]] + dt * problem.load[u[i]]
    for row in range(len(d.G)):
        G, more, before = d.G[row], closing[row], problem.closing_free[row]
        for i in range(nu):
            change[i] += G[u[i]] * (more - before)
        for j in range(nv):
            force[j] += G[j] * more
    forward(problem.L, change)
    backward(problem.L, change)
    # v⁺
    copy(problem.v_free, v_plus)
    for i in range(nu):
        v_plus[u[i]] += change[i]
    for j in range(nv):
        gain[j] = v_plus[j] - v[j]
    # τ = [M_a (v⁺ − v) + dt (h_a − load_a) − J_aᵀ p − G_aᵀ λ] / dt
    for k in range(len(a)):
        M, s = g.M[a[k]], dt * (g.h[a[k]] - problem.load[a[k]]) - force[a[k]]
        for j in range(nv):
            s += M[j] * gain[j]
        tau[k] = s / dt
