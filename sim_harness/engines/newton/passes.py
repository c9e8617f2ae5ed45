"""From a step's rows where they are to rows where the bodies end up: linearise, iterate, look again  [Macklin Alg. 1].

Constraints hold at the end of the step, at the level of positions, so nothing drifts and nothing is stabilised; forces act
along Jacobians there. Different from the paper: rows stay linearised until the iteration has found their impulses, unless
the paper's own scheme is asked for, which looks again after each of its steps.
"""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.solvers.linalg import backward
from idyn.types import Array, Record
from sim_harness.engines.contact_space import unconstrained
from sim_harness.engines.newton.exact import motion
from sim_harness.engines.newton.iteration import Rules, iterate
from sim_harness.engines.newton.rows import Constraints, constraints
from sim_harness.engines.newton.stack import Stack

PASSES = 60
"""How often rows are linearised anew at the most. Usual: 2 or 3 times; strips that are stretched far take more."""

AGREED = 1e-6
"""Share of the fastest velocity by which two passes differ that agree: what that leaves is of second order in dt v."""


STILL = 1e-6
"""Share of the largest change of a velocity below which a degree of freedom says nothing of how forces turn."""


class Free(NamedTuple):
    """L with M = L Lᵀ (nv, nv), and z = Lᵀ v of the motion without impulses (nv)."""

    L: Array
    z: Array


class Found(Record, frozen=True):
    """What a step ends with.

    v: velocity (nv); p: impulses of the stack (m); J: along which they act (m, nv)
    error: distance from the law [m/s]; met: whether that is little enough, and all passes agree
    """

    v: Array
    p: Array
    J: Array
    error: float
    met: bool
    iterations: int


class Way(NamedTuple):
    """How a step is solved.

    preconditioner: as the constants of `newton_rows`
    limit: of iterations, at one place or, of the paper's, in all
    elsewhere: whether to look where the bodies end up
    stiffens: whether the turning of forces is taken into the inertia
    """

    preconditioner: int
    limit: int
    elsewhere: bool
    stiffens: bool


def settle(stack: Stack, free: Free, rules: Rules, way: Way) -> Found:
    a, total = stack.problem, 0
    looks = way.elsewhere and a.system is not None and (stack.contacts_too or len(stack.order) > 0)
    before, now = a.v, free
    plan, J = stack.plan(before if looks else None)
    p, z, stiffness = np.zeros(len(J)), np.zeros(len(free.z)), np.zeros(len(free.z))
    for _ in range(1 if not looks else PASSES if rules.exact else way.limit):
        used = J
        c = constraints(plan, J, now.L, now.z, way.preconditioner)
        root = iterate(c, rules, p, z, way.limit if rules.exact or not looks else 1)
        total += root.iterations
        v = velocity_after(c, now.L, root.p)
        enough = root.error <= rules.tolerance * c.scale
        met = enough and (not looks or np.abs(v - before).max() <= AGREED * max(c.scale, np.abs(v).max()))
        if met or not looks or not np.isfinite(root.error) or (rules.exact and not enough):
            break
        if rules.exact:
            p, there = root.p, v
        else:
            there = velocity_of(now.L, z)
        plan, J_there = stack.plan(there)
        if way.stiffens:
            stiffness = turning(J, J_there, p, there - before, stiffness)
            now = stiffened(a.M, free, stiffness, there)
        before, J = there, J_there
        z = now.L.T @ before
    return Found(v=v, p=root.p, J=used, error=root.error, met=met, iterations=total)


def turning(J: Array, J_there: Array, p: Array, change: Array, last: Array) -> Array:
    """Stiffness of forces that turn with their bodies, −min(0, ΔJᵀ p / Δv) [kg] (nv)  [Macklin §8.3 (73), its sign mended].

    change: Δv (nv); last: what it was (nv), half of which is kept at the least, and all of it for what did not move: without
    that a rope whose tension is 100 times that of its weight is not found
    """
    moved = np.abs(change) > STILL * np.abs(change).max(initial=0.0)
    secant = (J_there - J).T @ p / np.where(moved, change, 1.0)
    return np.where(moved, np.maximum(-secant, 0.5 * last), last)


def stiffened(M: Array, free: Free, stiffness: Array, v: Array) -> Free:
    """The same motion near v (nv) with M + diag(stiffness) for M: what is added presses back to v, and vanishes there."""
    A = M + np.diag(stiffness)
    L = np.linalg.cholesky(A)
    momentum = M @ velocity_of(free.L, free.z) + stiffness * v
    return Free(L, np.linalg.solve(L, momentum))


@compiled
def free_motion(M: Array, v: Array, drive: Array) -> tuple[Free, bool]:
    """Without impulses, and whether M is positive definite; drive: dt (f − h) (nv)."""
    L, z, regular = unconstrained(M, v, drive)
    return Free(L, z), regular


@compiled
def velocity_after(c: Constraints, L: Array, p: Array) -> Array:
    """v⁺ that impulses p lead to (nv)"""
    return velocity_of(L, motion(c, p))


@compiled
def velocity_of(L: Array, z: Array) -> Array:
    """L⁻ᵀ z (nv)"""
    v = z.copy()
    backward(L, v)
    return v
