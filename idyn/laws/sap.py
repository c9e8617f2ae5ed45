"""Compliant contact with known stiffness, dissipation and friction, as a convex program  [SAP §III–§V].

    min ½ ‖x‖² + ½ ‖γ(u)‖²_R        u = Y x + J v_free,  x = Lᵀ (v_u⁺ − v_u⁰)        γ(u) = argmin_{γ ∈ F} ‖γ − R⁻¹(v̂ − u)‖_R
    R_n = max(β² w / 4π², 1 / (dt k (dt + τ_d))),    R_t = σ w,    v̂_n = −φ / (dt + τ_d)

F is the round cone of μ, w = ‖J_i M⁻¹ J_iᵀ‖_F / 3. The joint motion is prescribed, so the program has nu unknowns for any
number of contacts. It is strongly convex: every demand is feasible and has one solution, with impulses γ(u), so projection and
selection are not needed. Newton's method with exact line search starts from the present velocity.

The law has its own ground material and applies to v⁺: the `Ground` of the options does not change it.

Modelling errors: k, τ_d and σ must be those of the ground, and gaps must be measured: forces depend stiffly on foot positions
(10 µm: 1 N at 10⁵ N/m). The normal force of a sliding contact is that of a gap smaller by (dt + τ_d) μ ‖v_T‖; a
sticking contact creeps at R_t f_T dt. Friction coefficients above `MOST_FRICTION`, including μ = ∞, are reduced to it.
"""

import numpy as np

from idyn.contact.ground import MOST_FRICTION, Material
from idyn.jit.compiled import compiled
from idyn.laws.law import Attempt, Face, LawData, Rung, Start, polygon
from idyn.solvers.linalg import backward, cholesky, forward
from idyn.status import NOT_CERTIFIED, SOLVED, Conditions
from idyn.terms.stages import Dynamics, ReducedProblem
from idyn.types import Array

MOST_STEPS = 100
"""Maximum number of Newton steps. Usual: 2 to 5."""

CONVERGED = 1e-13
"""Newton's method has converged when the gradient is below this share of its largest term."""

STALLED = 1e-8
"""Newton's method also ends when the gradient is below this share and does not decrease: it then consists of rounding errors.
The certificate checks the result."""

FLAT = 1e-10
"""The line search ends when the slope is below this share of the initial one."""


class Sap:
    """Compliant contact. material: stiffness, dissipation and friction of the ground"""

    name = "sap"
    conditions = Conditions.COMPLIANT
    unlimited_friction = False
    max_pivots = 0
    directions = polygon(4)
    basis_width = 0
    basis_type: np.dtype = np.dtype(np.bool_)

    rungs = (Rung("newton", Start.VELOCITY, 0),)

    def __init__(self, material: Material) -> None:
        self.material, self.kernel = material, sap_kernel

    def sticking(self, mu: Array) -> Array:
        return np.zeros(len(mu))


@compiled
def sap_kernel(problem: ReducedProblem, law: LawData, basis: Array, rung: int) -> Attempt:
    """Return p = γ(u) at the minimum, the only solution."""
    material = Material(law.stiffness, law.dissipation, law.beta, law.sigma, law.touching_only)
    p, status, steps = solve_compliant(problem, material)
    mu = problem.dynamics.given.mu
    return Attempt(p, Face(basis, law.directions, mu, False, law.directions[:0]), mu[:0], status, steps)


@compiled
def solve_compliant(problem: ReducedProblem, material: Material) -> tuple[Array, int, int]:
    """Minimise the cost over x. Return impulses (3n), status, and the number of Newton steps."""
    d, g = problem.dynamics, problem.dynamics.given
    u, nu, rows = g.model.u, len(g.model.u), len(problem.b)
    # Y = J_u L⁻ᵀ without √(1 + T_p/dt), b = J v_free
    stretch = 1.0 / np.sqrt(1.0 + g.rho)
    Y, b, laws, x = stretch * problem.Y, d.J @ problem.v_free, contact_laws(d, material), np.zeros(nu)
    # start: x = Lᵀ (v_u − v_u⁰)
    for i in range(nu):
        for k in range(i, nu):
            x[i] += problem.L[k, i] * (g.v[u[k]] - problem.v_free[u[k]])
    p, G, before = np.zeros(rows), np.zeros((rows, 3)), np.inf
    for step in range(MOST_STEPS):
        # gradient x − Yᵀ γ(u)
        _impulses(laws, Y @ x + b, p, G)
        push = Y.T @ p
        gradient, steepest, largest = x - push, 0.0, 0.0
        H = np.eye(nu)
        for i in range(nu):
            steepest, largest = max(steepest, abs(gradient[i])), max(largest, abs(x[i]), abs(push[i]))
        if steepest <= CONVERGED * largest or before <= min(steepest, STALLED * largest):
            return p, SOLVED, step
        before = steepest
        # H = 1 + Yᵀ G Y, G = −∂γ/∂u
        for row in range(rows):
            first = row - row % 3
            for e in range(3):
                if G[row, e] != 0.0:
                    for i in range(nu):
                        for k in range(nu):
                            H[i, k] += Y[row, i] * G[row, e] * Y[first + e, k]
        # x ← x − share H⁻¹ gradient
        cholesky(H)
        forward(H, gradient)
        backward(H, gradient)
        x -= _step_length(laws, Y, b, x, gradient) * gradient
    return p, NOT_CERTIFIED, MOST_STEPS


@compiled
def _step_length(laws: Array, Y: Array, b: Array, x: Array, direction: Array) -> float:
    """Return the step length from x against `direction` (nu) to the minimum of the cost, by Newton's method in a bracket."""
    u, du = Y @ x + b, Y @ direction
    p, G = np.zeros(len(u)), np.zeros((len(u), 3))
    low, high, share, flat = 0.0, np.inf, 1.0, -1.0
    for _ in range(60):
        at = 0.0 if flat < 0.0 else share  # first the slope at the start
        _impulses(laws, u - at * du, p, G)
        # slope and curvature of ½‖x‖² + ½‖γ‖²_R along −direction
        slope, curvature = 0.0, 0.0
        for i in range(len(x)):
            slope -= direction[i] * (x[i] - at * direction[i])
            curvature += direction[i] * direction[i]
        for row in range(len(u)):
            slope += du[row] * p[row]
            for e in range(3):
                curvature += du[row] * G[row, e] * du[row - row % 3 + e]
        if flat < 0.0:
            flat = FLAT * abs(slope)
            continue
        if abs(slope) <= flat:
            break
        # Newton's step, or bisection if that leaves the bracket
        if slope < 0.0:
            low = share
        else:
            high = share
        share -= slope / curvature
        if not low < share < high:
            share = 2.0 * low if high == np.inf else 0.5 * (low + high)
    return share


@compiled
def _impulses(laws: Array, u: Array, p: Array, G: Array) -> None:
    """Fill p = γ(u) (3n) and G = −∂γ/∂u, a block for each contact (3n, 3). laws: see `contact_laws`"""
    G[:] = 0.0
    for i in range(len(laws)):
        mu, soft_t, soft_n, aim = laws[i]
        s, t, n = 3 * i, 3 * i + 1, 3 * i + 2
        if soft_n == np.inf:
            p[s] = p[t] = p[n] = 0.0
            continue
        # sticking, if inside the cone: γ = R⁻¹ (v̂ − u)
        p[s], p[t], p[n] = -u[s] / soft_t, -u[t] / soft_t, (aim - u[n]) / soft_n
        speed = np.hypot(u[s], u[t])
        if p[n] >= 0.0 and speed <= mu * p[n] * soft_t:
            G[s, 0] = G[t, 1] = 1.0 / soft_t
            G[n, 2] = 1.0 / soft_n
            continue
        # sliding: γ_n = (v̂_n − u_n + μ ‖u_T‖) / (R_n + μ² R_t); separating if negative
        along = 1.0 / (soft_n + mu * mu * soft_t)
        pressure = max((aim - u[n] + mu * speed) * along, 0.0)
        p[s] = p[t] = p[n] = 0.0
        if pressure == 0.0:
            continue
        if speed == 0.0:  # frictionless without sliding
            p[n] = pressure
            G[n, 2] = along
            continue
        # γ_T = −μ γ_n u_T/‖u_T‖, and its slopes
        a, c, across = u[s] / speed, u[t] / speed, mu * pressure / speed
        p[s], p[t], p[n] = -mu * pressure * a, -mu * pressure * c, pressure
        pull = mu * mu * along
        G[s, 0], G[t, 1] = pull * a * a + across * c * c, pull * c * c + across * a * a
        G[s, 1] = G[t, 0] = (pull - across) * a * c
        G[s, 2] = G[n, 0] = -mu * along * a
        G[t, 2] = G[n, 1] = -mu * along * c
        G[n, 2] = along


@compiled
def contact_laws(d: Dynamics, material: Material) -> Array:
    """Return μ, R_t, R_n [1/kg] and v̂_n [m/s] of each contact (n, 4). R_n = inf disables a contact: one with φ > 0 if
    `material.touching_only`, or one that no degree of freedom moves."""
    g = d.given
    n, nv, dt = len(g.mu), len(g.v), g.dt
    L, row, laws = g.M.copy(), np.empty((3, nv)), np.empty((n, 4))
    cholesky(L)
    for i in range(n):
        # ‖J_i M⁻¹ J_iᵀ‖_F², with the rows of J_i L⁻ᵀ
        square = 0.0
        for r in range(3):
            for j in range(nv):
                row[r, j] = d.J[3 * i + r, j]
            forward(L, row[r])
            for e in range(r + 1):
                s = 0.0
                for j in range(nv):
                    s += row[r, j] * row[e, j]
                square += s * s if e == r else 2.0 * s * s
        # μ, R_t, R_n, v̂_n
        w, settle = np.sqrt(square) / 3.0, dt + material.dissipation
        laws[i, 0] = min(g.mu[i], MOST_FRICTION)
        laws[i, 1] = material.sigma * w
        laws[i, 2] = max(material.beta**2 * w / (4.0 * np.pi**2), 1.0 / (dt * material.stiffness * settle))
        laws[i, 3] = -g.gaps[i] / settle
        if w == 0.0 or (material.touching_only and g.gaps[i] > 0.0):
            laws[i, 2] = np.inf
    return laws
