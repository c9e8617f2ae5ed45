"""From a step's rows where they are to rows where the bodies end up: linearise, iterate, look again  [Macklin Alg. 1].

Constraints hold at the end of the step, at the level of positions, so nothing drifts and nothing is stabilised; forces act
along Jacobians there. Different from the paper: rows stay linearised until the iteration has found their impulses, unless
the paper's own scheme is asked for, which looks again after each of its steps.
"""

from typing import NamedTuple

import numpy as np

from idyn.compiled import compiled
from idyn.solvers.linalg import backward, cholesky, forward
from idyn.types import Array, Record
from sim_harness.engines.newton_iteration import Rules, iterate
from sim_harness.engines.newton_rows import Constraints, constraints
from sim_harness.engines.newton_stack import Stack

PASSES = 20
"""How often rows are linearised anew. Usual: 2 or 3 times."""

AGREED = 1e-7
"""Share of the fastest velocity by which two passes differ that agree: what is left to move is of second order in it."""


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


def settle(stack: Stack, free: Free, rules: Rules, preconditioner: int, limit: int, elsewhere: bool) -> Found:
    """limit: of iterations, at one place or, of the paper's, in all; elsewhere: whether to look where the bodies end up."""
    looks = elsewhere and stack.problem.system is not None and len(stack.tau) > 0
    before = stack.problem.v
    plan, J = stack.plan(before if looks else None)
    p, z = np.zeros(len(J)), np.zeros(len(free.z))
    at_once = limit if rules.exact or not looks else 1
    passes = 1 if not looks else PASSES if rules.exact else limit
    total = 0
    for _ in range(passes):
        c = constraints(plan, J, free.L, free.z, preconditioner)
        root = iterate(c, rules, p, z, at_once)
        total += root.iterations
        v = velocity_after(c, free.L, root.p)
        enough = root.error <= rules.tolerance * c.scale
        met = enough and (not looks or np.abs(v - before).max() <= AGREED * np.abs(v).max())
        if met or not np.isfinite(root.error):
            break
        if rules.exact:
            p, z = root.p, c.z_free + c.Y.T @ root.p
            before = v
        else:
            before = velocity_of(free.L, z)
        if looks:
            plan, J = stack.plan(before)
    return Found(v=v, p=root.p, J=J, error=root.error, met=met, iterations=total)


@compiled
def free_motion(M: Array, v: Array, drive: Array) -> tuple[Free, bool]:
    """Without impulses, and whether M is positive definite; drive: dt (f − h) (nv)."""
    L, z = M.copy(), drive.copy()
    cholesky(L)
    for d in range(len(v)):
        if not 0.0 < L[d, d] < np.inf:
            return Free(L, z), False
    forward(L, z)
    for d in range(len(v)):
        for r in range(d, len(v)):
            z[d] += L[r, d] * v[r]
    return Free(L, z), True


@compiled
def velocity_after(c: Constraints, L: Array, p: Array) -> Array:
    """v⁺ that impulses p lead to (nv)"""
    z = c.z_free.copy()
    for i in range(len(p)):
        for d in range(len(z)):
            z[d] += c.Y[i, d] * p[i]
    backward(L, z)
    return z


@compiled
def velocity_of(L: Array, z: Array) -> Array:
    """L⁻ᵀ z (nv)"""
    v = z.copy()
    backward(L, v)
    return v
