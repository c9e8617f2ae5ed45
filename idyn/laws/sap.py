"""Compliant contact of known stiffness, dissipation and friction, as a convex program in nu unknowns  [SAP §III–§V;
MATHEMATICS §3.4], solved by Newton's method with exact line search from the present velocity. The law `mujoco` uses the same
method.

    min ½ ‖x‖² + Σ s_i(Y x + b)        p = −∂s,   gradient x − Yᵀ p,   Hessian 1 + Yᵀ G Y,   G = −∂p/∂u

A contact has a block of rows: S, T, N, and in blocks of six also the angular velocities about s, t, n, scaled such that the
friction cone is round. Its law is a row (n, 7): μ, R_t, R_n [1/kg], v̂_n [m/s], c, s, edges. Without force: R_n = inf. edges
= 0: round cone F, p = argmin_{γ ∈ F} ‖γ − R⁻¹(v̂ − u)‖_R.  μ < 0: dry friction along n, (v̂_n − u_n)/R_n limited to ±(−μ).
Otherwise: pyramid with the edges n ± μ t_k, with t_1 = (c, s), t_2 = (−s, c) in the coordinates (s, t) of the contact; with
6 edges also n ± μ times the row about n, with 10 also those about t_1 and t_2: p = Σ max(0, (v̂_n − e·u)/R_n) e.
"""

import numpy as np

from idyn.certificate.certify import Conditions
from idyn.contact.ground import MOST_FRICTION, Material
from idyn.laws.law import Attempt, Face, Law, LawData, Rung, Start
from idyn.library.kernels import compiled
from idyn.solvers.linalg import affine, apply, apply_transposed, axpy, backward, cholesky, dot, fill_rows, forward
from idyn.status import NOT_CERTIFIED, SOLVED
from idyn.terms.stages import Dynamics, ReducedProblem
from idyn.types import Array

Block = tuple[int, ...]

THREE, SIX = (0, 1, 2), (0, 1, 2, 3, 4, 5)  # rows of a contact
MOST_STEPS = 100  # maximum number of Newton steps. Usual: 2 to 5

CONVERGED = 1e-13  # Newton's method has converged when the gradient is below this share of its largest term
STALLED = 1e-8  # the method also ends when the gradient is below this share and does not decrease: rounding errors
FLAT = 1e-10  # the line search ends when the slope is below this share of the initial one


@compiled
def start(problem: ReducedProblem) -> tuple[Array, Array]:
    """Return Y = J_u L⁻ᵀ, and x = Lᵀ (v_u − v_u⁰) of the present velocity (nu)."""
    g = problem.dynamics.given
    u, nu = g.model.u, len(g.model.u)
    x = np.zeros(nu)
    for i in range(nu):
        for k in range(i, nu):
            x[i] += problem.L[k, i] * (g.v[u[k]] - problem.v_free[u[k]])
    return problem.Y / np.sqrt(1.0 + g.rho), x  # without √(1 + T_p/dt)


@compiled
def minimise(laws: Array, Y: Array, b: Array, x: Array, block: Block) -> tuple[Array, int, int]:
    """Minimise the cost over x (nu), in place. Return impulses (rows), status, and the number of Newton steps.

    laws: see above (n, 7); Y (rows, nu), b (rows): contact velocities are u = Y x + b
    block: rows of a contact, `THREE` or `SIX`; their number is known to the compiler
    """
    (rows, nu), width = Y.shape, len(block)
    p, G, line, before = np.zeros(rows), np.zeros((rows, width)), np.empty(nu), np.inf
    u, du, push, gradient = np.empty(rows), np.empty(rows), np.empty(nu), np.empty(nu)
    for step in range(MOST_STEPS):
        # gradient x − Yᵀ γ(u)
        affine(Y, x, b, u)
        _impulses(laws, u, p, G, block)
        apply_transposed(Y, p, push)
        H, steepest, largest = np.eye(nu), 0.0, 0.0
        for i in range(nu):
            gradient[i] = x[i] - push[i]
            steepest, largest = max(steepest, abs(gradient[i])), max(largest, abs(x[i]), abs(push[i]))
        if steepest <= CONVERGED * largest or before <= min(steepest, STALLED * largest):
            return p, SOLVED, step
        before = steepest
        # H = 1 + Yᵀ G Y, G = −∂γ/∂u
        for first in range(0, rows, width):
            for row in range(first, first + width):
                used = False
                for e in range(width):
                    if G[row, e] != 0.0:
                        for k in range(nu):
                            line[k] = G[row, e] * Y[first + e, k] + (line[k] if used else 0.0)
                        used = True
                if used:
                    for i in range(nu):
                        axpy(Y[row, i], line, H[i])
        # x ← x − share H⁻¹ gradient
        cholesky(H)
        forward(H, gradient)
        backward(H, gradient)
        apply(Y, gradient, du)
        axpy(-_step_length(laws, u, du, x, gradient, block), gradient, x)
    return p, NOT_CERTIFIED, MOST_STEPS


@compiled
def _step_length(laws: Array, u: Array, du: Array, x: Array, direction: Array, block: Block) -> float:
    """Return the step length from x against `direction` (nu) to the minimum of the cost, by Newton's method in a bracket.

    u, du: Y x + b and Y `direction` (rows)
    """
    width = len(block)
    p, G, moved = np.zeros(len(u)), np.zeros((len(u), width)), np.empty(len(u))
    low, high, share, flat = 0.0, np.inf, 1.0, -1.0
    for _ in range(60):
        at = 0.0 if flat < 0.0 else share  # first the slope at the start
        for row in range(len(u)):
            moved[row] = u[row] - at * du[row]
        _impulses(laws, moved, p, G, block)
        # slope and curvature of ½‖x‖² + ½‖γ‖²_R along −direction
        slope, curvature = 0.0, 0.0
        for i in range(len(x)):
            slope -= direction[i] * (x[i] - at * direction[i])
            curvature += direction[i] * direction[i]
        for first in range(0, len(u), width):
            for row in range(first, first + width):
                slope += du[row] * p[row]
                for e in range(width):
                    curvature += du[row] * G[row, e] * du[first + e]
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
def _impulses(laws: Array, u: Array, p: Array, G: Array, block: Block) -> None:
    """Fill p = γ(u) (rows) and G = −∂γ/∂u, a block for each contact (rows, width). laws: see above (n, 7)"""
    width = len(block)
    fill_rows(G, 0.0)
    for i in range(len(laws)):
        first, mu, soft_n, aim = width * i, laws[i, 0], laws[i, 2], laws[i, 3]
        n = first + 2
        for row in range(first, first + width):
            p[row] = 0.0
        if soft_n == np.inf:
            continue
        if mu < 0.0:
            p[n] = min(max((aim - u[n]) / soft_n, mu), -mu)
            G[n, 2] = 1.0 / soft_n if abs(p[n]) < -mu else 0.0
        elif laws[i, 6] > 0.0:
            _pyramid(laws, i, u, p, G, block)
        else:
            _round_cone(laws, i, u, p, G, block)


@compiled
def _round_cone(laws: Array, i: int, u: Array, p: Array, G: Array, block: Block) -> None:
    """Fill the rows of contact i, which are zero before, for a round cone."""
    width, mu, soft_t, soft_n, aim = len(block), laws[i, 0], laws[i, 1], laws[i, 2], laws[i, 3]
    first, n, square = width * i, width * i + 2, 0.0
    for j in range(width):
        square += u[first + j] * u[first + j] if j != 2 else 0.0
    speed, push = np.sqrt(square), (aim - u[n]) / soft_n
    # sticking, if inside the cone: γ = R⁻¹ (v̂ − u)
    if push >= 0.0 and speed <= mu * push * soft_t:
        for j in range(width):
            p[first + j], G[first + j, j] = -u[first + j] / soft_t, 1.0 / soft_t
        p[n], G[n, 2] = push, 1.0 / soft_n
        return
    # sliding: γ_n = (v̂_n − u_n + μ ‖u_T‖) / (R_n + μ² R_t); separating if negative
    along = 1.0 / (soft_n + mu * mu * soft_t)
    pressure = (aim - u[n] + mu * speed) * along
    if pressure <= 0.0:
        return
    p[n], G[n, 2] = pressure, along
    if speed == 0.0:  # frictionless without sliding
        return
    # γ_T = −μ γ_n u_T/‖u_T‖, and its slopes
    across, pull, per = mu * pressure / speed, mu * mu * along, 1.0 / speed
    for j in range(width):
        if j == 2:
            continue
        row, a = first + j, u[first + j] * per
        p[row], G[row, 2], G[n, j] = -mu * pressure * a, -mu * along * a, -mu * along * a
        for k in range(width):
            if k != 2:
                G[row, k] = (pull - across) * a * u[first + k] * per
        G[row, j] += across


@compiled
def _pyramid(laws: Array, i: int, u: Array, p: Array, G: Array, block: Block) -> None:
    """Fill the rows of contact i, which are zero before, for a pyramid."""
    mu, soft, aim, c1, s1, first = laws[i, 0], laws[i, 2], laws[i, 3], laws[i, 4], laws[i, 5], len(block) * i
    for edge in range(int(laws[i, 6])):
        # edge (a, c, 1) in the rows (k, k + 1, n): n ± μ along t_1, t_2, about n, about t_1, t_2
        pair, sign = edge // 2, mu if edge % 2 == 0 else -mu
        if pair == 2:
            k, a, c = 4, 0.0, sign
        elif pair % 3 == 0:
            k, a, c = pair, sign * c1, sign * s1
        else:
            k, a, c = pair - 1, -sign * s1, sign * c1
        load = (aim - u[first + 2] - a * u[first + k] - c * u[first + k + 1]) / soft
        if load <= 0.0:
            continue
        for row, one in ((k, a), (k + 1, c), (2, 1.0)):
            p[first + row] += load * one
            for column, other in ((k, a), (k + 1, c), (2, 1.0)):
                G[first + row, column] += one * other / soft


class Sap(Law):
    """Compliant contact. material: stiffness, dissipation and friction of the ground"""

    name = "sap"
    conditions = Conditions.COMPLIANT
    round_cones = compliant = True

    rungs = (Rung("newton", Start.VELOCITY, 0),)

    def __init__(self, material: Material) -> None:
        self.material, self.kernel = material, sap_kernel


@compiled
def sap_kernel(problem: ReducedProblem, law: LawData, basis: Array, rung: int) -> Attempt:
    """Return p = γ(u) at the minimum, the only solution."""
    material = Material(law.stiffness, law.dissipation, law.beta, law.sigma, law.touching_only)
    p, status, steps = solve_compliant(problem, material)
    mu = problem.dynamics.given.mu
    return Attempt(p, Face(basis, law.directions, mu, False, law.directions[:0]), status, steps, basis, mu[:0], 0.0)


@compiled
def solve_compliant(problem: ReducedProblem, material: Material) -> tuple[Array, int, int]:
    """Minimise the cost over x. Return impulses (3n), status, and the number of Newton steps."""
    d = problem.dynamics
    Y, x = start(problem)
    b = np.empty(len(d.J))
    affine(d.J, problem.v_free, d.drift, b)
    return minimise(contact_laws(d, material), Y, b, x, THREE)


@compiled
def contact_laws(d: Dynamics, material: Material) -> Array:
    """Return the law of each contact, see `idyn.laws.sap` (n, 7). R_n = inf disables a contact: one with φ > 0 if
    `material.touching_only`, or one that no degree of freedom moves."""
    g = d.given
    n, nv, dt = len(g.mu), len(g.v), g.dt
    L, row, laws = g.M.copy(), np.empty((3, nv)), np.zeros((n, 7))
    cholesky(L)
    for i in range(n):
        # ‖J_i M⁻¹ J_iᵀ‖_F², with the rows of J_i L⁻ᵀ
        square = 0.0
        for r in range(3):
            for j in range(nv):
                row[r, j] = d.J[3 * i + r, j]
            forward(L, row[r])
            for e in range(r + 1):
                s = dot(row[r], row[e])
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
