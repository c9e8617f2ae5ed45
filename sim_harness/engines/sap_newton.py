"""The convex problem of `sap`, its gradient and Hessian, and Newton's method with a line search  [SAP §IV, App. D and E].

    ℓ(v) = ½ ‖v − v*‖²_A + ½ ‖P_F(y(v))‖²_R         ∇ℓ = A (v − v*) − Jᵀγ         H = A + Jᵀ G J
ℓ is strongly convex and once differentiable: it has one minimum, and Newton's method converges from every start. Only active
constraints contribute to H.

Differences from the paper: the line search is always exact and may extend beyond the full step. The factorisation uses the
profile of H instead of a junction tree. An iteration stalled by rounding, |Δℓ| < 10⁻¹⁵ ℓ, is accepted up to e_m = `FLOOR`.

One contact [SAP §V]: its regularisation R, its impulse as a function of velocity, and the derivative.
    y = R⁻¹ (v̂ − v_c)      γ = P_F(y), the nearest point of the friction cone F in the metric R = diag(R_t, R_t, R_n)
Contact coordinates are (s, t, n); impulses and y in N·s, R in 1/kg.

A contact with μ = 0 and zero tangents is a stop. A contact with μ = ∞ is bilateral: γ = y for all y.
"""

from typing import NamedTuple

import numpy as np

from idyn.library.kernels import compiled
from idyn.library.records import Indices, Matrix, Vector
from idyn.status import NOT_CERTIFIED, SOLVED
from idyn.types import Array
from sim_harness.engines.engine import NON_FINITE
from sim_harness.engines.linalg import (
    Sparse,
    backward_within,
    cholesky_within,
    compressed,
    dot,
    forward_within,
    profile,
    sparse_pushed,
    speeds,
)

APART, STICKING, SLIDING = 0, 1, 2  # regions of the projection: III, I and II of the paper
MU, R_T, R_N, V_HAT = 0, 1, 2, 3  # columns of the array of contact parameters: μ, R_t and R_n [1/kg], v̂_n [m/s]


@compiled
def project_cone(y_s: float, y_t: float, y_n: float, law: Array) -> tuple[float, float, float, int]:
    """Return γ = P_F(y) and its region  [SAP §V-A, App. C].

    On the boundary of the cone the region is sticking, on the boundary of its polar cone sliding, as `cone_slope` requires. The
    condition y_n ≥ 0 is added to y_r ≤ μ y_n, because without it a frictionless contact could pull.
    """
    mu = law[MU]
    if mu == np.inf:
        return y_s, y_t, y_n, STICKING
    y_r = np.sqrt(y_s * y_s + y_t * y_t)
    if y_n >= 0.0 and y_r <= mu * y_n:
        return y_s, y_t, y_n, STICKING
    ratio = mu * law[R_T] / law[R_N]  # μ̂; μ̃² = μ μ̂
    if y_n < -ratio * y_r:
        return 0.0, 0.0, 0.0, APART
    normal = max((y_n + ratio * y_r) / (1.0 + mu * ratio), 0.0)
    # slides: γ_t = μ γ_n t̂
    share = mu * normal / y_r
    return share * y_s, share * y_t, normal, SLIDING


@compiled
def cone_slope(y_s: float, y_t: float, law: Array, normal: float, region: int, G: Array) -> None:
    """G ← −∂γ/∂v_c [kg] (3, 3), symmetric and ⪰ 0; normal, region: γ_n and region from `project_cone`  [SAP App. D].

    Sliding: G = a aᵀ / (R_n (1 + μ̃²)) + μ γ_n / (R_t y_r) P⊥ with a = (μ t̂, 1) and P⊥ across t̂ in the tangent plane.
    """
    for i in range(3):
        for j in range(3):
            G[i, j] = 0.0
    if region == STICKING:
        G[0, 0] = G[1, 1] = 1.0 / law[R_T]
        G[2, 2] = 1.0 / law[R_N]
    elif region == SLIDING:  # along a = (μ t̂, 1), and across t̂
        mu, y_r = law[MU], np.sqrt(y_s * y_s + y_t * y_t)
        a, b = y_s / y_r, y_t / y_r
        along = 1.0 / (law[R_N] + mu * mu * law[R_T])
        across = mu * normal / (law[R_T] * y_r)
        pull = along * mu * mu
        G[0, 0], G[1, 1] = pull * a * a + across * b * b, pull * b * b + across * a * a
        G[0, 1] = G[1, 0] = (pull - across) * a * b
        G[0, 2] = G[2, 0] = along * mu * a
        G[1, 2] = G[2, 1] = along * mu * b
        G[2, 2] = along


@compiled
def regularisation(w: float, stiffness: float, dissipation: float, dt: float, beta: float) -> float:
    """Return R_n = max(β² w / 4π², 1 / (dt k (dt + τ_d))) [1/kg]  [SAP (29)].

    The first term limits the stiffness to that of a spring with period β dt.

    w: effective inverse mass of the constraint [1/kg]
    stiffness: k [N/m], may be inf
    dissipation: τ_d [s]
    """
    return max(beta * beta / (4.0 * np.pi * np.pi) * w, 1.0 / (dt * stiffness * (dt + dissipation)))


ABSOLUTE = 1e-14  # ε_a, absolute tolerance of the scaled momentum error [√J]
FLOOR = 1e-6  # largest e_m that is accepted when rounding stops the iteration: the paper's value for its largest scene
STALLED = 1e-15  # the iteration stalls when a step reduces ℓ by less than this share
FLAT = 1e-14  # the exact line search ends when the slope is below this share of its initial value


class Convex(NamedTuple):
    """Convex problem of one island with m degrees of freedom and k constraints."""

    A: Array  # Hessian of the cost of the bodies, symmetric (m, m)
    M: Array  # inertia, scales the momentum error (m, m)
    v_star: Array  # velocity of the free motion (m)
    J: Sparse  # contact Jacobian; `first`: first non-zero column of each row of H (m)
    laws: Array  # μ, R_t, R_n, v̂_n of each constraint, columns `MU` to `V_HAT` (k, 4)


class Motion(NamedTuple):
    """Bodies of the step."""

    M: Matrix  # inertia (nv, nv)
    L: Matrix  # Cholesky factor of M (nv, nv)
    first: Indices  # first non-zero column of each row of M (nv)
    A: Matrix  # Hessian of the cost of the bodies, ½ ‖v − v*‖²_A (nv, nv)
    v: Vector  # velocity before the step (nv)
    v_star: Vector  # v*, velocity after the step without contacts (nv)


@compiled
def convex_problem(motion: Motion, J: Array, laws: Array, dofs: Array, members: Array) -> Convex:
    """Return the convex problem of the degrees of freedom `dofs` (m) in this order and the constraints `members` (k)."""
    A, M = motion.A[dofs][:, dofs], motion.M[dofs][:, dofs]
    sparse = compressed(J, members, dofs, np.minimum(profile(A), profile(M)))
    return Convex(A, M, motion.v_star[dofs], sparse, laws[members])


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
        for j in range(c.J.first[i], i + 1):
            H[i, j] = c.A[i, j]
    for i in range(len(u)):  # H += J_iᵀ G_i J_i for active constraints
        law = c.laws[i]
        y_s, y_t = -u[i, 0] / law[R_T], -u[i, 1] / law[R_T]
        _, _, normal, region = project_cone(y_s, y_t, (law[V_HAT] - u[i, 2]) / law[R_N], law)
        if region == 0:
            continue
        cone_slope(y_s, y_t, law, normal, region, G)
        for x in range(c.J.begin[i], c.J.begin[i + 1]):
            for e in range(3):
                GJ[e] = G[e, 0] * c.J.rows[x, 0] + G[e, 1] * c.J.rows[x, 1] + G[e, 2] * c.J.rows[x, 2]
            row = c.J.columns[x]
            for z in range(c.J.begin[i], c.J.begin[i + 1]):
                if c.J.columns[z] <= row:
                    H[row, c.J.columns[z]] += GJ[0] * c.J.rows[z, 0] + GJ[1] * c.J.rows[z, 1] + GJ[2] * c.J.rows[z, 2]
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
    u = speeds(c.J, v)
    for step in range(rules.max_iterations + 1):
        gamma = impulses(c, u)
        away = v - c.v_star
        pull = symmetric_times(c.A, c.J.first, away)
        gradient = pull - sparse_pushed(c.J, gamma)
        cost = 0.5 * dot(0.0, away, pull) + cost_of_impulses(c, gamma)
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
        cholesky_within(H, c.J.first)
        direction = -gradient
        forward_within(H, c.J.first, direction)
        backward_within(H, c.J.first, direction)
        curvature = dot(0.0, direction, symmetric_times(c.A, c.J.first, direction))
        line = Line(u, speeds(c.J, direction), dot(0.0, direction, pull), curvature)
        v = v + exact_share(c, line) * direction
        u = speeds(c.J, v)
    return v, gamma, status, rules.max_iterations


@compiled
def momentum_error(c: Convex, v: Array, gamma: Array, gradient: Array) -> tuple[float, float]:
    """Return ‖D ∇ℓ‖ and max(‖D p‖, ‖D Jᵀγ‖) with p = M v and D = diag(M)^-½ [√J]  [SAP (25), (26)]."""
    p, j = symmetric_times(c.M, c.J.first, v), sparse_pushed(c.J, gamma)
    g2 = p2 = j2 = 0.0
    for d in range(len(v)):
        g2 += gradient[d] ** 2 / c.M[d, d]
        p2 += p[d] ** 2 / c.M[d, d]
        j2 += j[d] ** 2 / c.M[d, d]
    return np.sqrt(g2), np.sqrt(max(p2, j2))


class Line(NamedTuple):
    """The cost ℓ along a line v + α Δv."""

    u: Array  # contact velocities at α = 0 (k, 3)
    du: Array  # derivative of the contact velocities, J Δv (k, 3)
    slope: float  # first derivative of ½ ‖v − v*‖²_A at α = 0
    curvature: float  # second derivative of ½ ‖v − v*‖²_A


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
