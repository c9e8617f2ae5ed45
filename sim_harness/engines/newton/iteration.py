"""The iteration of the engine `newton` for rows that stay as they are: non-smooth Newton in v and p together  [Macklin §6].

    (J_α M⁻¹ J_αᵀ + C + ε) Δp = −φ + J_α M⁻¹ g        Δv = M⁻¹ (J_αᵀ Δp − g)        g = M (v − v_free) − J_αᵀ p
C: ∂φ/∂p of normals, W of tangents. `weighted` is the paper's form, a normal's row and force multiplied with α = ∂φ/∂a;
otherwise its row is divided by α, which is the same at a root, and whose slope in the force is exact.

Different from the paper: ε is a share of each row's own diagonal; friction is shortened to its cone after every step; of all
iterates, each made allowed and with the velocity that belongs to it, the best by the natural map is answered; where
`exact` asks for it, exact steps are tried from the first iterate on, and again whenever the distance is a tenth of what it
was when they failed; they go on to rounding. Where all that leads nowhere, sweeps over the contacts find other beginnings.
"""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.solvers.linalg import copy
from idyn.types import Array
from sim_harness.engines.newton.exact import finish, make_allowed, natural_residual, shorten_friction, speeds_of
from sim_harness.engines.newton.functions import complementarity, friction_compliance
from sim_harness.engines.newton.linear import solve_linear
from sim_harness.engines.newton.rows import Constraints, normal_row
from sim_harness.engines.newton.sweeps import sweep
from sim_harness.engines.vectors import add, add_pushed, dot

LEAST_ALPHA = 1e-8
"""By what a row is divided at the least."""

EXACT_STEPS = 80
"""At one trial, at the most. Usual: 2 to 4."""

WORTH = 0.1
"""Share of the distance of the last failed trial at which the next is worth its while."""

AT_ONCE = 1e-10
"""What is as near as this when it is begun is left as it is."""

PAPERS, SWEEPS = 20, 20
"""The paper's steps that are tried before sweeps over the contacts, and how many sweeps at first."""


class Rules(NamedTuple):
    """Which iteration it is; the engine's own, or in `sim_harness.studies` the paper's and its variants.

    function: φ of complementarity and of friction, a constant of `functions`; the smooth one spreads redundant forces evenly
    weighted: the paper's form, or rows divided by ∂φ/∂a
    solver: of the paper's linear system, a constant of `linear`; iterative ones take `linear_iterations`
    damping: t, share of each of the paper's steps that is taken; 0.75 is the paper's
    regularisation: ε, share of each row's diagonal that is added to it
    exact: exact steps on the natural map as soon as they gain, always dense
    tolerance: largest distance of what counts as solved, of the fastest row's speed
    """

    function: int
    weighted: bool
    solver: int
    linear_iterations: int
    damping: float
    regularisation: float
    exact: bool
    tolerance: float


class Root(NamedTuple):
    """p: the best impulses (m); error: their distance from the law [m/s]; iterations, with exact ones and sweeps; history: the
    distance after each iteration of the paper's."""

    p: Array
    error: float
    iterations: int
    history: Array


@compiled
def iterate(c: Constraints, rules: Rules, p: Array, z: Array, limit: int) -> Root:
    """From impulses p (m) and z (nv), both changed; until the distance is `tolerance` times `scale`."""
    best, candidate = np.empty(len(p)), np.empty(len(p))
    enough, total, last_trial = rules.tolerance * c.scale, 0, np.inf
    least = judged(c, p, best)
    count = min(limit, PAPERS) if rules.exact else limit
    history = np.empty(count)
    if least <= min(rules.tolerance, AT_ONCE) * c.scale:
        return Root(best, least, 0, history[:0])
    # the paper's steps, and exact ones from where they have led as soon as these gain
    for k in range(count):
        step(c, rules, p, z)
        total += 1
        error = judged(c, p, candidate)
        if rules.exact and error <= WORTH * last_trial:
            before = error
            error, taken = finish(c, candidate, error, EXACT_STEPS)
            total += taken
            last_trial = error if error > enough else np.inf
            if error < before:
                go_on_from(c, candidate, p, z)
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
def judged(c: Constraints, p: Array, candidate: Array) -> float:
    """candidate ← p made allowed; its distance from the law [m/s]."""
    copy(p, candidate)
    make_allowed(c, candidate)
    u, F = np.empty(len(p)), np.empty(len(p))
    speeds_of(c, candidate, u)
    return natural_residual(c, candidate, u, F)


@compiled
def rescue(c: Constraints, best: Array, least: float, limit: int, enough: float) -> tuple[float, int]:
    """Sweeps over the contacts, from nothing, ever more of them, and exact steps from where they have led; best: changed."""
    sweeps, total, p, candidate = SWEEPS, 0, np.zeros(len(best)), np.empty(len(best))
    while least > enough and total < limit:  # twice as many sweeps each time
        sweep(c, p, sweeps)
        error = judged(c, p, candidate)
        if not np.isfinite(error):
            break
        before = error
        error, taken = finish(c, candidate, error, EXACT_STEPS)
        total += sweeps + taken
        sweeps *= 2
        if error < 0.1 * before:
            copy(candidate, p)
        if error < least:
            least = error
            copy(candidate, best)
    return least, total


@compiled
def go_on_from(c: Constraints, candidate: Array, p: Array, z: Array) -> None:
    """p and z ← the candidate and its velocity."""
    copy(c.z_free, z)
    copy(candidate, p)
    add_pushed(c.Y, p, z)


@compiled
def step(c: Constraints, rules: Rules, p: Array, z: Array) -> None:
    """One iteration of the paper's, in place."""
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
    shorten_friction(c, p)


@compiled
def linearise(c: Constraints, rules: Rules, p: Array, z: Array, phi: Array, diagonal: Array, weight: Array) -> None:
    """Residuals, C and α at p and z (m each), filled in."""
    plan, u = c.plan, np.empty(len(p))
    for i in range(len(p)):
        u[i] = dot(0.0, c.Y[i], z)
    for i in range(plan.ties):  # a
        phi[i] = u[i] + plan.offset[i] + plan.softness[i] * p[i]
        diagonal[i] = plan.softness[i]
    for i in range(plan.stops + len(plan.mu)):
        row = normal_row(plan, i)
        a = u[row] + plan.offset[row] + plan.softness[row] * p[row]
        # φ(a, r p), weighted with α or divided by it
        value, alpha, beta = complementarity(rules.function, a, p[row], c.r[row])
        if rules.weighted:
            phi[row], diagonal[row], weight[row] = value, beta + alpha * plan.softness[row], alpha
        else:
            alpha = max(alpha, LEAST_ALPHA)
            phi[row], diagonal[row] = value / alpha, beta / alpha + plan.softness[row]
        if i < plan.stops:
            continue
        # v_T + W p_T of what presses, or p_T = 0
        s, mu = row - 2, plan.mu[i - plan.stops]
        if mu > 0.0 and p[row] > 0.0:
            speed, impulse = np.hypot(u[s], u[s + 1]), np.hypot(p[s], p[s + 1])
            W = friction_compliance(rules.function, speed, impulse, mu * p[row], c.r[s])
            for e in range(2):
                phi[s + e], diagonal[s + e] = u[s + e] + W * p[s + e], W
        else:
            for e in range(2):
                phi[s + e], diagonal[s + e], weight[s + e] = c.w[s] * p[s + e], c.w[s], 0.0
