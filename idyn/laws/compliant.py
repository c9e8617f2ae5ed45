"""Compliant contact as a convex program in nu unknowns, by Newton's method with exact line search: laws `sap` and `mujoco`.

    min ½ ‖x‖² + Σ s_i(Y x + b)        p = −∂s,   gradient x − Yᵀ p,   Hessian 1 + Yᵀ G Y,   G = −∂p/∂u

x = Lᵀ (v_u⁺ − v_u⁰), u = Y x + b. The law of a contact is a row (n, 6): μ, R_t, R_n [1/kg], v̂_n [m/s], c, s. Without force:
R_n = inf.

(c, s) = 0: round cone F, p = argmin_{γ ∈ F} ‖γ − R⁻¹(v̂ − u)‖_R.
μ < 0: dry friction along n, p_n = (v̂_n − u_n)/R_n limited to ±(−μ).
Otherwise: pyramid with the edges n ± μ t_k, with t_1 = (c, s), t_2 = (−s, c) in the coordinates (s, t) of the contact. Each
edge is a spring with R_n alone: p = Σ max(0, (v̂_n − u_n ∓ μ t_k·u_T)/R_n) (n ± μ t_k).
"""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.solvers.linalg import backward, cholesky, forward
from idyn.status import NOT_CERTIFIED, SOLVED
from idyn.terms.stages import ReducedProblem
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
def minimise(laws: Array, Y: Array, b: Array, x: Array) -> tuple[Array, int, int]:
    """Minimise the cost over x (nu), in place. Return impulses (3n), status, and the number of Newton steps.

    laws: see above (n, 6); Y (3n, nu), b (3n): contact velocities are u = Y x + b
    """
    rows, nu = Y.shape
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
    """Fill p = γ(u) (3n) and G = −∂γ/∂u, a block for each contact (3n, 3). laws: see above (n, 6)"""
    G[:] = 0.0
    for i in range(len(laws)):
        mu, soft_t, soft_n, aim, c1, s1 = laws[i]
        s, t, n = 3 * i, 3 * i + 1, 3 * i + 2
        if soft_n == np.inf:
            p[s] = p[t] = p[n] = 0.0
            continue
        if mu < 0.0:
            p[s], p[t], p[n] = 0.0, 0.0, min(max((aim - u[n]) / soft_n, mu), -mu)
            G[n, 2] = 1.0 / soft_n if abs(p[n]) < -mu else 0.0
            continue
        if c1 != 0.0 or s1 != 0.0:
            _pyramid(laws[i], u[s : s + 3], p[s : s + 3], G[s : s + 3])
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
def _pyramid(law: Array, u: Array, p: Array, G: Array) -> None:
    """Fill p (3) and add to G (3, 3) for one contact with a pyramid. law: row of `laws`; u: contact velocity (3)"""
    mu, soft, aim = law[0], law[2], law[3]
    p[0] = p[1] = p[2] = 0.0
    for edge in range(4):
        # direction (a, c, 1) of the edge: n ± μ t_k
        sign = mu if edge % 2 == 0 else -mu
        a, c = (sign * law[4], sign * law[5]) if edge < 2 else (-sign * law[5], sign * law[4])
        load = (aim - u[2] - a * u[0] - c * u[1]) / soft
        if load <= 0.0:
            continue
        p[0], p[1], p[2] = p[0] + load * a, p[1] + load * c, p[2] + load
        for i, one in enumerate((a, c, 1.0)):
            for k, other in enumerate((a, c, 1.0)):
                G[i, k] += one * other / soft
