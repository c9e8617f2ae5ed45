"""The iteration of the engine `newton` for fixed constraint rows: non-smooth Newton in v and p together  [Macklin §6].

    (J_α M⁻¹ J_αᵀ + C + ε) Δp = −φ + J_α M⁻¹ g        Δv = M⁻¹ (J_αᵀ Δp − g)        g = M (v − v_free) − J_αᵀ p
C: ∂φ/∂p of normals, W of tangents.

Differences from the paper:
- ε is a share of each row's diagonal.
- The row of a normal is divided by α = ∂φ/∂a. The paper multiplies its row and force by α, which has the same roots but an
  inexact derivative in the force.
- Full steps, a dense factorisation, and impulses scaled by the effective mass of their row.
- Friction is projected onto its cone after every step.
- The result is the iterate with the smallest residual of the natural map, after projection and with its own velocity.
- Exact steps (`refine`) are tried from the first iterate on. After a failure they are tried again when the
  violation is a tenth of its value at that failure. They continue to rounding precision.
- If all of this fails, sweeps over the contacts provide further starting points.
- At p = 0, rounding errors decide which contacts of a body at rest are closed, and so how redundant contacts share its load.
  `solve_evenly` therefore first solves with u = J v⁺ + SOFT w p, whose impulses are unique.
"""

from typing import NamedTuple

import numpy as np

from idyn.library.kernels import compiled, entry
from idyn.library.records import Vector, written
from idyn.solvers.linalg import backward, cholesky, copy, forward
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

MOST_ITERATIONS = 10000  # largest number of Newton steps plus sweeps over the contacts
REGULARISATION = 1e-6  # ε, share of each row's diagonal that is added to the diagonal
LEAST_ALPHA = 1e-8  # lower bound of α as a divisor of a row
EXACT_STEPS = 80  # largest number of exact steps per trial. Typical: 2 to 4
RETRY = 0.1  # exact steps are tried again when the violation is below this share of its value after the last failed trial
ACCEPTED = 1e-10  # an initial guess with a violation below this share of `scale` is accepted unchanged

SOFT, SOFT_TOLERANCE = 1e-5, 1e-10
"""Yield of rows in `solve_evenly`, as a share of w; largest violation with yield, relative to `Constraints.scale`. The ratio of
both limits the error of redundant impulses."""

PAPER_STEPS, SWEEPS = 20, 20  # number of the paper's steps before sweeps over the contacts; number of sweeps in the first round


class Root(NamedTuple):
    """Result of the iteration."""

    p: Array  # best impulses (m)
    error: float  # violation of the law by p [m/s]
    iterations: int  # steps of the paper, exact steps and sweeps


@entry(Constraints, float, written(Vector), written(Vector))
def solve_evenly(c: Constraints, tolerance: float, p: Array, z: Array) -> Root:
    """Solve with rows that yield a little, then take the yield back by exact steps; if either fails, iterate without it.

    Arguments as of `iterate`. Exact steps hardly change redundant impulses, so these stay as even as with yield.
    """
    first = np.empty(len(p))
    error, total = evaluate(c, p, first), 0
    if error > min(tolerance, ACCEPTED) * c.scale:
        soft = iterate(softened(c, SOFT), SOFT_TOLERANCE, p.copy(), z.copy(), PAPER_STEPS)
        total = soft.iterations
        if soft.error <= tolerance * c.scale:
            error, taken = refine(c, soft.p, evaluate(c, soft.p, first), EXACT_STEPS)
            total += taken
            if error <= tolerance * c.scale:
                return Root(soft.p, error, total)
    root = iterate(c, tolerance, p, z, MOST_ITERATIONS)
    return Root(root.p, root.error, total + root.iterations)


@compiled
def iterate(c: Constraints, tolerance: float, p: Array, z: Array, limit: int) -> Root:
    """Iterate from impulses p (m) and velocity z (nv), both changed in place, until the violation is ≤ tolerance · scale.

    limit: largest number of iterations
    """
    best, candidate = np.empty(len(p)), np.empty(len(p))
    enough, total, last_trial = tolerance * c.scale, 0, np.inf
    least = evaluate(c, p, best)
    if least <= min(tolerance, ACCEPTED) * c.scale:
        return Root(best, least, 0)
    # steps of the paper, each followed by exact steps while these are promising
    for _ in range(min(limit, PAPER_STEPS)):
        step(c, p, z)
        total += 1
        error = evaluate(c, p, candidate)
        if error <= RETRY * last_trial:
            before = error
            error, taken = refine(c, candidate, error, EXACT_STEPS)
            total += taken
            last_trial = error if error > enough else np.inf
            if error < before:
                copy(candidate, p)
                copy(motion(c, p), z)
        if error < least:
            least = error
            copy(candidate, best)
        if least <= enough or not np.isfinite(error):
            return Root(best, least, total)
    if total < limit:
        least, more = rescue(c, best, least, limit - total, enough)
        total += more
    return Root(best, least, total)


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
def step(c: Constraints, p: Array, z: Array) -> None:
    """Update p (m) and z (nv) in place by one iteration of the paper."""
    m = len(p)
    phi, diagonal, weight = np.empty(m), np.zeros(m), np.ones(m)
    linearise(c, p, z, phi, diagonal, weight)
    # lag = L⁻¹ g = z − z_free − Yᵀ α p
    lag = z - c.z_free
    add_pushed(c.Y, -(weight * p), lag)
    # (α D α + C + ε) Δp = −φ + α Y lag
    A = np.empty((m, m))
    for i in range(m):
        phi[i] = weight[i] * dot(0.0, c.Y[i], lag) - phi[i]
        for j in range(m):
            A[i, j] = weight[i] * weight[j] * c.D[i, j]
        A[i, i] += diagonal[i] + REGULARISATION * c.w[i]
        if A[i, i] <= 0.0:
            A[i, i] = c.w[i]
    cholesky(A)
    forward(A, phi)
    backward(A, phi)
    # Δz = Yᵀ α Δp − lag
    add(z, -1.0, lag)
    add(p, 1.0, phi)
    for i in range(m):
        add(z, weight[i] * phi[i], c.Y[i])
    clamp_friction(c, p)


@compiled
def linearise(c: Constraints, p: Array, z: Array, phi: Array, diagonal: Array, weight: Array) -> None:
    """Set residuals phi, the diagonal of C, and weights, 0 for tangents without friction, else 1, at p and z (m each)."""
    plan, u = c.plan, np.empty(len(p))
    for i in range(len(p)):
        u[i] = dot(c.soft * c.w[i] * p[i], c.Y[i], z)
    for i in range(plan.ties):  # a
        phi[i] = u[i] + plan.offset[i] + plan.softness[i] * p[i]
        diagonal[i] = plan.softness[i]
    for i in range(plan.stops + len(plan.mu)):
        row = normal_row(plan, i)
        a = u[row] + plan.offset[row] + plan.softness[row] * p[row]
        # φ(a, w p) divided by α
        value, alpha, beta = complementarity(a, p[row], c.w[row])
        alpha = max(alpha, LEAST_ALPHA)
        phi[row], diagonal[row] = value / alpha, beta / alpha + plan.softness[row]
        if i < plan.stops:
            continue
        # pressing: v_T + W p_T = 0, else p_T = 0
        s, mu = row - 2, plan.mu[i - plan.stops]
        if mu > 0.0 and p[row] > 0.0:
            speed, impulse = np.hypot(u[s], u[s + 1]), np.hypot(p[s], p[s + 1])
            W = friction_compliance(speed, impulse, mu * p[row], c.w[s])
            for e in range(2):
                phi[s + e], diagonal[s + e] = u[s + e] + W * p[s + e], W
        else:
            for e in range(2):
                phi[s + e], diagonal[s + e], weight[s + e] = c.w[s] * p[s + e], c.w[s], 0.0
