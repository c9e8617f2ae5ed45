"""The iteration of the engine `newton` for fixed constraint rows: non-smooth Newton in v and p together  [Macklin §6].

    (J_α M⁻¹ J_αᵀ + C + ε) Δp = −φ + J_α M⁻¹ g        Δv = M⁻¹ (J_αᵀ Δp − g)        g = M (v − v_free) − J_αᵀ p
C: ∂φ/∂p of normals, W of tangents. In the paper's form (`weighted`) the row and the force of a normal are multiplied by
α = ∂φ/∂a. Otherwise the row of the normal is divided by α, which has the same roots and an exact derivative in the force.

Differences from the paper:
- ε is a share of each row's diagonal.
- Friction is projected onto its cone after every step.
- The result is the iterate with the smallest residual of the natural map, after projection and with its own velocity.
- With `exact`, exact steps (`refine`) are tried from the first iterate on. After a failure they are tried again when the
  violation is a tenth of its value at that failure. They continue to rounding precision.
- If all of this fails, sweeps over the contacts provide further starting points.
- At p = 0, rounding errors decide which contacts of a body at rest are closed, and so how redundant contacts share its load.
  `solve_evenly` therefore first solves with u = J v⁺ + SOFT w p, whose impulses are unique.

Linear solvers  [Macklin §8.2] start at x = 0. The iterative ones stop after a given number of products A x, or when the
residual is rounding error. With PCR neither the residual in the metric of diag(A)⁻¹ nor the error ever grows.
"""

from typing import NamedTuple

import numpy as np

from idyn.library.kernels import compiled, entry
from idyn.library.kinds import MATRIX, REAL, VECTOR, WHOLE, written
from idyn.library.records import named
from idyn.solvers.linalg import apply, backward, cholesky, copy, forward
from idyn.types import Array
from sim_harness.engines.linalg import add, add_pushed, dot
from sim_harness.engines.newton_exact import (
    clamp_friction,
    complementarity,
    friction_compliance,
    motion,
    natural_residual,
    project_feasible,
    refine,
    speeds_of,
    sweep,
)
from sim_harness.engines.newton_rows import Constraints, normal_row, softened

DENSE, PCR, PCG, JACOBI, GAUSS_SEIDEL = range(5)

NOTHING = 1e-30  # a squared norm below this share of its initial value is rounding error


@entry(WHOLE, written(MATRIX), VECTOR, WHOLE)
def solve_linear(solver: int, A: Array, b: Array, iterations: int) -> Array:
    """Return x (m) with A x = b. A (m, m) has a positive diagonal and is overwritten if the solver is `dense`."""
    if solver == DENSE:
        x = b.copy()
        cholesky(A)
        forward(A, x)
        backward(A, x)
        return x
    if solver == PCR:
        return conjugate_residuals(A, b, iterations)
    if solver == PCG:
        return conjugate_gradients(A, b, iterations)
    return relaxed(A, b, iterations, solver == JACOBI)


@compiled
def conjugate_residuals(A: Array, b: Array, iterations: int) -> Array:
    """Return x (m) by the conjugate residual method with diagonal preconditioner."""
    diagonal = np.diag(A).copy()
    x, z, y = np.zeros(len(b)), b / diagonal, np.empty(len(b))
    apply(A, z, y)
    # z = diag⁻¹ (b − A x), y = A z; p directions, q = A p, conjugate in the metric of diag⁻¹
    p, q, rho = z.copy(), y.copy(), dot(0.0, z, y)
    least = NOTHING * rho
    for _ in range(iterations):
        w = q / diagonal
        curvature = dot(0.0, q, w)
        if not (rho > least and curvature > 0.0):
            break
        a = rho / curvature
        x += a * p
        z -= a * w
        apply(A, z, y)
        following = dot(0.0, z, y)
        beta = following / rho
        rho = following
        p, q = z + beta * p, y + beta * q
    return x


@compiled
def conjugate_gradients(A: Array, b: Array, iterations: int) -> Array:
    """Return x (m) by the conjugate gradient method with diagonal preconditioner."""
    diagonal = np.diag(A).copy()
    x, r, z, q = np.zeros(len(b)), b.copy(), b / diagonal, np.empty(len(b))
    p, rho = z.copy(), dot(0.0, r, z)  # r = b − A x, z = diag⁻¹ r; p directions, q = A p
    least = NOTHING * rho
    for _ in range(iterations):
        apply(A, p, q)
        curvature = dot(0.0, p, q)
        if not (rho > least and curvature > 0.0):
            break
        a = rho / curvature
        x += a * p
        r -= a * q
        z = r / diagonal
        following = dot(0.0, r, z)
        beta = following / rho
        rho = following
        p = z + beta * p
    return x


@compiled
def relaxed(A: Array, b: Array, iterations: int, simultaneous: bool) -> Array:
    """Return x (m) by Jacobi's method (`simultaneous`) or the Gauss–Seidel method."""
    m = len(b)
    x, new = np.zeros(m), np.zeros(m)
    for _ in range(iterations):
        for i in range(m):
            s = b[i]
            for j in range(m):
                s -= A[i, j] * x[j]
            new[i] = x[i] + s / A[i, i]
            if not simultaneous:
                x[i] = new[i]
        for i in range(m):
            x[i] = new[i]
    return x


LEAST_ALPHA = 1e-8  # lower bound of α as a divisor of a row
EXACT_STEPS = 80  # largest number of exact steps per trial. Typical: 2 to 4
RETRY = 0.1  # exact steps are tried again when the violation is below this share of its value after the last failed trial
ACCEPTED = 1e-10  # an initial guess with a violation below this share of `scale` is accepted unchanged

SOFT, SOFT_TOLERANCE = 1e-5, 1e-10
"""Yield of rows in `solve_evenly`, as a share of w; largest violation with yield, relative to `Constraints.scale`. The ratio of
both limits the error of redundant impulses."""

PAPER_STEPS, SWEEPS = 20, 20  # number of the paper's steps before sweeps over the contacts; number of sweeps in the first round


class Rules(NamedTuple):
    """Variant of the iteration: the engine's own, or the paper's and its variants in `sim_harness.studies`."""

    function: int  # φ of complementarity and friction, see `newton_exact`; the smooth one distributes redundant forces evenly
    weighted: bool  # true for the paper's form, false for rows divided by ∂φ/∂a
    solver: int  # solver of the paper's linear system, a constant of this file
    linear_iterations: int  # number of iterations of an iterative linear solver
    damping: float  # t, step length of the paper's steps; 0.75 in the paper
    regularisation: float  # ε, share of each row's diagonal that is added to the diagonal
    exact: bool  # whether to use exact steps on the natural map, always with dense factorisation
    tolerance: float  # largest violation of a solution, relative to `Constraints.scale`
    preconditioner: int  # constant of `newton_rows`
    limit: int  # largest number of iterations per pass; in the paper's scheme, in all passes together
    relinearise: bool  # whether to linearise again at the end of the step
    geometric_stiffness: bool  # whether to add the geometric stiffness to the inertia


class Root(NamedTuple):
    """Result of the iteration."""

    p: Array  # best impulses (m)
    error: float  # violation of the law by p [m/s]
    iterations: int  # steps of the paper, exact steps and sweeps
    history: Array  # violation after each step of the paper [m/s]


@entry(named(Constraints), named(Rules), written(VECTOR), written(VECTOR))
def solve_evenly(c: Constraints, rules: Rules, p: Array, z: Array) -> Root:
    """Solve with rows that yield a little, then take the yield back by exact steps; if either fails, iterate without it.

    Arguments as of `iterate`. Exact steps hardly change redundant impulses, so these stay as even as with yield.
    """
    first = np.empty(len(p))
    error, total = evaluate(c, p, first), 0
    if error > min(rules.tolerance, ACCEPTED) * c.scale:
        soft = iterate(softened(c, SOFT), rules, SOFT_TOLERANCE, p.copy(), z.copy(), PAPER_STEPS)
        total = soft.iterations
        if soft.error <= rules.tolerance * c.scale:
            error, taken = refine(c, soft.p, evaluate(c, soft.p, first), EXACT_STEPS)
            total += taken
            if error <= rules.tolerance * c.scale:
                return Root(soft.p, error, total, soft.history)
    root = iterate(c, rules, rules.tolerance, p, z, rules.limit)
    return Root(root.p, root.error, total + root.iterations, root.history)


@entry(named(Constraints), named(Rules), REAL, written(VECTOR), written(VECTOR), WHOLE)
def iterate(c: Constraints, rules: Rules, tolerance: float, p: Array, z: Array, limit: int) -> Root:
    """Iterate from impulses p (m) and velocity z (nv), both changed in place, until the violation is ≤ tolerance · scale.

    limit: largest number of iterations
    """
    best, candidate = np.empty(len(p)), np.empty(len(p))
    enough, total, last_trial = tolerance * c.scale, 0, np.inf
    least = evaluate(c, p, best)
    count = min(limit, PAPER_STEPS) if rules.exact else limit
    history = np.empty(count)
    if least <= min(tolerance, ACCEPTED) * c.scale:
        return Root(best, least, 0, history[:0])
    # steps of the paper, each followed by exact steps while these are promising
    for k in range(count):
        step(c, rules, p, z)
        total += 1
        error = evaluate(c, p, candidate)
        if rules.exact and error <= RETRY * last_trial:
            before = error
            error, taken = refine(c, candidate, error, EXACT_STEPS)
            total += taken
            last_trial = error if error > enough else np.inf
            if error < before:
                copy(candidate, p)
                copy(motion(c, p), z)
        history[k] = error
        if error < least:
            least = error
            copy(candidate, best)
        if least <= enough or not np.isfinite(error):
            return Root(best, least, total, history[: k + 1])
    if rules.exact and total < limit:
        least, more = rescue(c, best, least, limit - total, enough)
        total += more
    return Root(best, least, total, history)


@compiled
def evaluate(c: Constraints, p: Array, candidate: Array) -> float:
    """candidate ← p projected onto p_N ≥ 0 and the friction cones; return its violation of the law [m/s]."""
    copy(p, candidate)
    project_feasible(c, candidate)
    u, F = np.empty(len(p)), np.empty(len(p))
    speeds_of(c, candidate, u)
    return natural_residual(c, candidate, u, F)


@compiled
def rescue(c: Constraints, best: Array, least: float, limit: int, enough: float) -> tuple[float, int]:
    """Sweep over the contacts from p = 0, with exact steps after each round; `best` changes in place.

    Returns the least violation [m/s] and the iterations. The number of sweeps doubles in each round.
    """
    sweeps, total, p, candidate = SWEEPS, 0, np.zeros(len(best)), np.empty(len(best))
    while least > enough and total < limit:
        sweep(c, p, sweeps)
        error = evaluate(c, p, candidate)
        if not np.isfinite(error):
            break
        before = error
        error, taken = refine(c, candidate, error, EXACT_STEPS)
        total += sweeps + taken
        sweeps *= 2
        if error < 0.1 * before:
            copy(candidate, p)
        if error < least:
            least = error
            copy(candidate, best)
    return least, total


@compiled
def step(c: Constraints, rules: Rules, p: Array, z: Array) -> None:
    """Update p (m) and z (nv) in place by one iteration of the paper."""
    m = len(p)
    phi, diagonal, weight = np.empty(m), np.zeros(m), np.ones(m)
    linearise(c, rules, p, z, phi, diagonal, weight)
    # lag = L⁻¹ g = z − z_free − Yᵀ α p
    lag = z - c.z_free
    add_pushed(c.Y, -(weight * p), lag)
    # (α D α + C + ε) Δp = −φ + α Y lag
    A = np.empty((m, m))
    for i in range(m):
        phi[i] = weight[i] * dot(0.0, c.Y[i], lag) - phi[i]
        for j in range(m):
            A[i, j] = weight[i] * weight[j] * c.D[i, j]
        A[i, i] += diagonal[i] + rules.regularisation * c.w[i]
        if A[i, i] <= 0.0:
            A[i, i] = c.w[i]
    change = solve_linear(rules.solver, A, phi, rules.linear_iterations)
    # Δz = Yᵀ α Δp − lag
    add(z, -rules.damping, lag)
    add(p, rules.damping, change)
    for i in range(m):
        add(z, rules.damping * weight[i] * change[i], c.Y[i])
    clamp_friction(c, p)


@compiled
def linearise(c: Constraints, rules: Rules, p: Array, z: Array, phi: Array, diagonal: Array, weight: Array) -> None:
    """Set the residuals phi, the diagonal of C and the weights α at p and z (m each)."""
    plan, u = c.plan, np.empty(len(p))
    for i in range(len(p)):
        u[i] = dot(c.soft * c.w[i] * p[i], c.Y[i], z)
    for i in range(plan.ties):  # a
        phi[i] = u[i] + plan.offset[i] + plan.softness[i] * p[i]
        diagonal[i] = plan.softness[i]
    for i in range(plan.stops + len(plan.mu)):
        row = normal_row(plan, i)
        a = u[row] + plan.offset[row] + plan.softness[row] * p[row]
        # φ(a, r p), multiplied by α or divided by it
        value, alpha, beta = complementarity(rules.function, a, p[row], c.r[row])
        if rules.weighted:
            phi[row], diagonal[row], weight[row] = value, beta + alpha * plan.softness[row], alpha
        else:
            alpha = max(alpha, LEAST_ALPHA)
            phi[row], diagonal[row] = value / alpha, beta / alpha + plan.softness[row]
        if i < plan.stops:
            continue
        # pressing: v_T + W p_T = 0, else p_T = 0
        s, mu = row - 2, plan.mu[i - plan.stops]
        if mu > 0.0 and p[row] > 0.0:
            speed, impulse = np.hypot(u[s], u[s + 1]), np.hypot(p[s], p[s + 1])
            W = friction_compliance(rules.function, speed, impulse, mu * p[row], c.r[s])
            for e in range(2):
                phi[s + e], diagonal[s + e] = u[s + e] + W * p[s + e], W
        else:
            for e in range(2):
                phi[s + e], diagonal[s + e], weight[s + e] = c.w[s] * p[s + e], c.w[s], 0.0
