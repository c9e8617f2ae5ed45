"""Passes of the engine `newton`: linearise constraints, iterate, linearise again at the new configuration  [Macklin Alg. 1].

Constraints are satisfied at position level at the end of the step, so there is no drift and no stabilisation. Forces act along
the Jacobians at the end of the step. Difference from the paper: the linearisation is fixed until the iteration has converged.
Only the paper's own scheme (`Rules.exact` false) linearises again after each of its steps.
"""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.solvers.linalg import backward
from idyn.types import Array, Record
from sim_harness.engines.contact_space import unconstrained
from sim_harness.engines.newton.exact import motion
from sim_harness.engines.newton.iteration import Rules, iterate, solve_evenly
from sim_harness.engines.newton.stack import Constraints, Stack, constraints

PASSES = 60
"""Largest number of passes. Typical: 2 or 3; strips under large strain need more."""

AGREED = 1e-6
"""Passes have converged when the velocity changes by less than this share of its largest entry. The remaining error is of
second order in dt v."""


STILL = 1e-6
"""Degrees of freedom whose velocity changes by less than this share of the largest change get no new geometric stiffness."""


class Free(NamedTuple):
    """Motion without impulses: L with M = L Lᵀ (nv, nv), and z = Lᵀ v (nv)."""

    L: Array
    z: Array


class Outcome(Record, frozen=True):
    """Result of a step.

    v: velocity after the step (nv)
    p: impulses of the stack (m)
    J: Jacobian along which the impulses act (m, nv)
    error: violation of the law [m/s]
    met: whether the violation is within the tolerance and the passes have converged
    iterations: sum over all passes
    """

    v: Array
    p: Array
    J: Array
    error: float
    met: bool
    iterations: int


class PassSettings(NamedTuple):
    """Settings of the passes.

    preconditioner: constant of `rows`
    limit: largest number of iterations per pass; in the paper's scheme, in all passes together
    relinearise: whether to linearise again at the end of the step
    geometric_stiffness: whether to add the geometric stiffness to the inertia
    """

    preconditioner: int
    limit: int
    relinearise: bool
    geometric_stiffness: bool


def solve_passes(stack: Stack, free: Free, rules: Rules, settings: PassSettings) -> Outcome:
    """Solve the step: iterate and linearise again until the velocity agrees between passes."""
    a, total = stack.problem, 0
    relinearise = settings.relinearise and a.system is not None and (stack.contacts_too or len(stack.order) > 0)
    before, now = a.v, free
    plan, J = stack.plan(before if relinearise else None)
    p, z, stiffness = np.zeros(len(J)), np.zeros(len(free.z)), np.zeros(len(free.z))
    for _ in range(1 if not relinearise else PASSES if rules.exact else settings.limit):
        used = J
        c = constraints(plan, J, now.L, now.z, settings.preconditioner)
        if rules.exact:
            root = solve_evenly(c, rules, p, z, settings.limit)
        else:
            root = iterate(c, rules, p, z, 1 if relinearise else settings.limit)
        total += root.iterations
        v = velocity_after(c, now.L, root.p)
        enough = root.error <= rules.tolerance * c.scale
        met = enough and (not relinearise or np.abs(v - before).max() <= AGREED * max(c.scale, np.abs(v).max()))
        if met or not relinearise or not np.isfinite(root.error) or (rules.exact and not enough):
            break
        if rules.exact:
            p, there = root.p, v
        else:
            there = velocity_of(now.L, z)
        plan, J_there = stack.plan(there)
        if settings.geometric_stiffness:
            stiffness = geometric_stiffness(J, J_there, p, there - before, stiffness)
            now = stiffened(a.M, free, stiffness, there)
        before, J = there, J_there
        z = now.L.T @ before
    return Outcome(v=v, p=root.p, J=used, error=root.error, met=met, iterations=total)


def geometric_stiffness(J: Array, J_there: Array, p: Array, change: Array, last: Array) -> Array:
    """Return the geometric stiffness −min(0, ΔJᵀ p / Δv) of forces that turn with their bodies [kg] (nv).

    [Macklin §8.3 (73)] with corrected sign. The result is at least half of the last value. For degrees of freedom that did not
    move it is the last value. Otherwise a rope with a tension of 100 times its weight does not converge.

    change: Δv (nv)
    last: last geometric stiffness [kg] (nv)
    """
    moved = np.abs(change) > STILL * np.abs(change).max(initial=0.0)
    secant = (J_there - J).T @ p / np.where(moved, change, 1.0)
    return np.where(moved, np.maximum(-secant, 0.5 * last), last)


def stiffened(M: Array, free: Free, stiffness: Array, v: Array) -> Free:
    """Return the free motion with the inertia M + diag(stiffness). The added term pulls the velocity towards v (nv)."""
    A = M + np.diag(stiffness)
    L = np.linalg.cholesky(A)
    momentum = M @ velocity_of(free.L, free.z) + stiffness * v
    return Free(L, np.linalg.solve(L, momentum))


@compiled
def free_motion(M: Array, v: Array, drive: Array) -> tuple[Free, bool]:
    """Return the motion without impulses, and whether M is positive definite; drive: dt (f − h) (nv)."""
    L, z, regular = unconstrained(M, v, drive)
    return Free(L, z), regular


@compiled
def velocity_after(c: Constraints, L: Array, p: Array) -> Array:
    """Return v⁺ = L⁻ᵀ (z_free + Yᵀ p) (nv)."""
    return velocity_of(L, motion(c, p))


@compiled
def velocity_of(L: Array, z: Array) -> Array:
    """Return L⁻ᵀ z (nv)."""
    v = z.copy()
    backward(L, v)
    return v
