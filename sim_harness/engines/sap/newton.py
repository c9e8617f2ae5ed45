"""The convex problem of `sap`, its gradient and Hessian, and Newton's method with a line search  [SAP §IV, App. D and E].

    ℓ(v) = ½ ‖v − v*‖²_A + ½ ‖P_F(y(v))‖²_R         ∇ℓ = A (v − v*) − Jᵀγ         H = A + Jᵀ G J
ℓ is strongly convex and once differentiable: it has one minimum, and Newton's method converges from every start. Only active
constraints contribute to H.

Differences from the paper: the line search is always exact and may extend beyond the full step. The factorisation uses the
profile of H instead of a junction tree. An iteration stalled by rounding, |Δℓ| < 10⁻¹⁵ ℓ, is accepted up to e_m = `FLOOR`.
"""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.status import NOT_CERTIFIED, SOLVED
from idyn.types import Array
from sim_harness.engines.engine import NON_FINITE
from sim_harness.engines.sap.cone import R_N, R_T, V_HAT, cone_slope, project_cone
from sim_harness.engines.sap.islands import backward_within, cholesky_within, forward_within
from sim_harness.engines.sparse import sparse_pushed, speeds

ABSOLUTE = 1e-14
"""ε_a, absolute tolerance of the scaled momentum error [√J]."""

FLOOR = 1e-6
"""Largest e_m that is accepted when rounding stops the iteration: the paper's value for its largest scene."""

STALLED = 1e-15
"""The iteration stalls when a step reduces ℓ by less than this share."""

FLAT = 1e-14
"""The exact line search ends when the slope is below this share of its initial value."""


class Convex(NamedTuple):
    """Convex problem of one island with m degrees of freedom and k constraints.

    A: Hessian of the cost of the bodies, symmetric (m, m)
    M: inertia, scales the momentum error (m, m)
    first: first non-zero column of each row of H (m)
    v_star: velocity of the free motion (m)
    begin, columns, rows: J as a `Sparse` matrix
    laws: μ, R_t, R_n, v̂_n of each constraint, columns as in `sap.cone` (k, 4)
    """

    A: Array
    M: Array
    first: Array
    v_star: Array
    begin: Array
    columns: Array
    rows: Array
    laws: Array


class Rules(NamedTuple):
    """Termination of Newton's method: relative tolerance ε_r and largest number of iterations."""

    tolerance: float
    max_iterations: int


@compiled
def symmetric_times(A: Array, first: Array, x: Array) -> Array:
    """Return A x for a symmetric A whose row i is 0 before column first[i]."""
    out = np.zeros(len(x))
    for i in range(len(x)):
        s = A[i, i] * x[i]
        for j in range(first[i], i):
            s += A[i, j] * x[j]
            out[j] += A[i, j] * x[i]
        out[i] += s
    return out


@compiled
def impulses(c: Convex, u: Array) -> Array:
    """Return γ = P_F(R⁻¹ (v̂ − u)) at contact velocities u (k, 3)."""
    gamma = np.zeros_like(u)
    for i in range(len(u)):
        law = c.laws[i]
        gamma[i, 0], gamma[i, 1], gamma[i, 2], _ = project_cone(
            -u[i, 0] / law[R_T], -u[i, 1] / law[R_T], (law[V_HAT] - u[i, 2]) / law[R_N], law
        )
    return gamma


@compiled
def hessian(c: Convex, u: Array) -> Array:
    """Return the lower triangle of H = A + Jᵀ G J at contact velocities u (m, m)."""
    m = len(c.v_star)
    H, G, GJ = np.zeros((m, m)), np.zeros((3, 3)), np.zeros(3)
    for i in range(m):
        for j in range(c.first[i], i + 1):
            H[i, j] = c.A[i, j]
    for i in range(len(u)):  # H += J_iᵀ G_i J_i for active constraints
        law = c.laws[i]
        y_s, y_t = -u[i, 0] / law[R_T], -u[i, 1] / law[R_T]
        _, _, normal, region = project_cone(y_s, y_t, (law[V_HAT] - u[i, 2]) / law[R_N], law)
        if region == 0:
            continue
        cone_slope(y_s, y_t, law, normal, region, G)
        for x in range(c.begin[i], c.begin[i + 1]):
            for e in range(3):
                GJ[e] = G[e, 0] * c.rows[x, 0] + G[e, 1] * c.rows[x, 1] + G[e, 2] * c.rows[x, 2]
            row = c.columns[x]
            for z in range(c.begin[i], c.begin[i + 1]):
                if c.columns[z] <= row:
                    H[row, c.columns[z]] += GJ[0] * c.rows[z, 0] + GJ[1] * c.rows[z, 1] + GJ[2] * c.rows[z, 2]
    return H


@compiled
def cost_of_impulses(c: Convex, gamma: Array) -> float:
    """Return ½ ‖γ‖²_R [J]."""
    s = 0.0
    for i in range(len(gamma)):
        s += c.laws[i, R_T] * (gamma[i, 0] ** 2 + gamma[i, 1] ** 2) + c.laws[i, R_N] * gamma[i, 2] ** 2
    return 0.5 * s


@compiled
def minimise(c: Convex, v: Array, rules: Rules) -> tuple[Array, Array, int, int]:
    """Minimise ℓ from the initial guess v (m): return the velocity (m), γ (k, 3), status, Newton steps."""
    before, status = np.inf, NOT_CERTIFIED
    u = speeds(c, v)
    for step in range(rules.max_iterations + 1):
        gamma = impulses(c, u)
        away = v - c.v_star
        pull = symmetric_times(c.A, c.first, away)
        gradient = pull - sparse_pushed(c, gamma)
        cost = 0.5 * np.dot(away, pull) + cost_of_impulses(c, gamma)
        if not np.isfinite(cost):
            return v, gamma, NON_FINITE, step
        # converged: e_m ≤ ε_r; stalled: rounding keeps ℓ from falling
        error, scale = momentum_error(c, v, gamma, gradient)
        if error <= ABSOLUTE + rules.tolerance * scale:
            return v, gamma, SOLVED, step
        if abs(before - cost) <= STALLED * cost:
            return v, gamma, SOLVED if error <= FLOOR * scale else status, step
        if step == rules.max_iterations:
            break
        # Newton direction −H⁻¹ ∇ℓ and the minimum of ℓ along it
        before = cost
        H = hessian(c, u)
        cholesky_within(H, c.first)
        direction = -gradient
        forward_within(H, c.first, direction)
        backward_within(H, c.first, direction)
        curvature = np.dot(direction, symmetric_times(c.A, c.first, direction))
        line = Line(u, speeds(c, direction), np.dot(direction, pull), curvature)
        v = v + exact_share(c, line) * direction
        u = speeds(c, v)
    return v, gamma, status, rules.max_iterations


@compiled
def momentum_error(c: Convex, v: Array, gamma: Array, gradient: Array) -> tuple[float, float]:
    """Return ‖D ∇ℓ‖ and max(‖D p‖, ‖D Jᵀγ‖) with p = M v and D = diag(M)^-½ [√J]  [SAP (25), (26)]."""
    p, j = symmetric_times(c.M, c.first, v), sparse_pushed(c, gamma)
    g2 = p2 = j2 = 0.0
    for d in range(len(v)):
        g2 += gradient[d] ** 2 / c.M[d, d]
        p2 += p[d] ** 2 / c.M[d, d]
        j2 += j[d] ** 2 / c.M[d, d]
    return np.sqrt(g2), np.sqrt(max(p2, j2))


class Line(NamedTuple):
    """The cost ℓ along a line v + α Δv.

    u: contact velocities at α = 0 (k, 3)
    du: derivative of the contact velocities, J Δv (k, 3)
    slope, curvature: first derivative at α = 0 and second derivative of ½ ‖v − v*‖²_A
    """

    u: Array
    du: Array
    slope: float
    curvature: float


@compiled
def slope_along(c: Convex, line: Line, share: float) -> tuple[float, float]:
    """Return dℓ/dα and d²ℓ/dα² at α = share."""
    first, second = line.slope + share * line.curvature, line.curvature
    G = np.zeros((3, 3))
    for i in range(len(line.u)):
        law, du = c.laws[i], line.du[i]
        y_s = -(line.u[i, 0] + share * du[0]) / law[R_T]
        y_t = -(line.u[i, 1] + share * du[1]) / law[R_T]
        y_n = (law[V_HAT] - line.u[i, 2] - share * du[2]) / law[R_N]
        s, t, n, region = project_cone(y_s, y_t, y_n, law)
        if region == 0:
            continue
        first -= du[0] * s + du[1] * t + du[2] * n
        cone_slope(y_s, y_t, law, n, region, G)
        for e in range(3):
            second += du[e] * (G[e, 0] * du[0] + G[e, 1] * du[1] + G[e, 2] * du[2])
    return first, second


@compiled
def exact_share(c: Convex, line: Line) -> float:
    """Return the α that minimises ℓ, by safeguarded Newton iteration in a bracket to rounding precision (rtsafe)."""
    flat = FLAT * abs(slope_along(c, line, 0.0)[0])
    low, high, share = 0.0, np.inf, 1.0
    for _ in range(200):
        first, second = slope_along(c, line, share)
        if abs(first) <= flat:
            break
        if first < 0.0:
            low = share
        else:
            high = share
        following = share - first / second  # Newton step; outside the bracket: bisection, or doubling without upper bound
        if not low < following < high:
            following = 2.0 * share if high == np.inf else 0.5 * (low + high)
        if abs(following - share) <= 2e-16 * share:
            break
        share = following
    return share
