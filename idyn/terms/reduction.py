"""The stages reduced problem and torque: contact in the unactuated space for prescribed joint motion  [ZD §3, §4.2, §6.2.2].

M (v⁺ − v) = Jᵀ p + dt (Pᵀ τ − h),     P v⁺ = v_a + dt q̈_des          closed chains: `idyn.terms.closures`

v_u⁰ = v_u − M_uu⁻¹ dt (M_ua q̈_des + h_u)          M_uu = L Lᵀ,   Y = J_u L⁻ᵀ
J v⁺ = D p + b,     D = Y Yᵀ,     b = J_u v_u⁰ + J_a v_a⁺
τ    = [ M_au (v_u⁺ − v_u) + M_aa dt q̈_des + dt h_a − J_aᵀ p ] / dt

With a contact compliance model (`idyn.contact.ground`) the problem is stated for

v̂ = v⁺ − (1 − dt/T_r) v + ρ M_uu⁻¹ J_uᵀ (p − p⁻),     ρ = T_p/dt

instead of v⁺: the relaxation time T_r (`Given.keep` = 1 − dt/T_r) changes b, the memory ρ changes Y and b. With closed chains Y
is orthogonal to the rows of the closures.
"""

import numpy as np

from idyn.contact.ground import allowance
from idyn.jit.compiled import compiled
from idyn.jit.stack import stack_array
from idyn.solvers.linalg import backward, cholesky, forward, forward_rows
from idyn.solvers.vectors import copy, fill
from idyn.terms.closures import close_loops, closure_impulses
from idyn.terms.stages import ReducedProblem
from idyn.types import Array, Record

NOTHING = np.zeros(0)


class Reduced(Record, frozen=True):
    """Arrays of a `ReducedProblem` for the Python rungs of laws.

    Y (3n, nu), b (3n), energy (3n): see `ReducedProblem`
    mu: friction coefficients of the contacts; a rung (solver attempt) may change them (n)
    last: p⁻ [N·s] (3n)
    independent: see `idyn.contact.ground.Ground`
    """

    Y: Array
    b: Array
    energy: Array
    mu: Array
    last: Array = NOTHING
    independent: float = 1e-3


def view(problem: ReducedProblem) -> Reduced:
    """Return views of the problem's arrays, valid until the problem is filled again."""
    given = problem.dynamics.given
    p, g = problem.own, given.own
    return Reduced(Y=p["Y"], b=p["b"], energy=p["energy"], mu=g["mu"], last=g["last"], independent=given.independent)


def reduce(problem: ReducedProblem, q_ddot: Array) -> Reduced:
    """Call `reduce_problem` from Python. Return views of the problem's arrays, valid until it is filled again."""
    reduce_problem(problem.fields, q_ddot)
    return view(problem)


@compiled
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
    for j in range(nv):
        force[j] = 0.0
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
