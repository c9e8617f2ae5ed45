"""The choice among many contacts, or within torque limits: the nearest point of the friction cones that obeys a few equations.

    forces       min ½‖f − f₀‖²                                  E f = E f*,   f ∈ face
    torque       min ½‖τ(f) − τ₀‖² + ½σ‖f − f'‖²  with σ falling      likewise, f' being the answer before

E = Yᵀ has nu rows and τ(f) = τ* − J_aᵀ (f − f*) na, however many contacts there are, and that is all that couples them
(`idyn.solvers.cones`). The first f' is 0, so of the forces with the same torque small ones are taken.

Torque limits bound the rows of τ. When they cannot be met, the sum of the squares of what is beyond them is made as small as it
can be.
"""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.laws.law import Face, is_free
from idyn.selection.aim import Aim
from idyn.solvers.cones import FREE, NOT_FOUND, NOTHING, RAYS, ROUND, TOO_DEAR, nearest_in_cones
from idyn.solvers.linalg import row_basis
from idyn.terms.reduction import recover
from idyn.terms.stages import ReducedProblem
from idyn.types import Array

SOFTNESS = (1e-1, 1e-3, 1e-4, 1e-5)
"""σ of the steps towards the least torque, relative to the largest lever squared. Where friction has no bounds f' stays 0: feet
would press against one another with kilonewtons for the last mN·m."""

OF_TORQUES = 1e10
"""The same where forces are the aim and torques hardly count, but for their limits."""

LAST = (1e4, 1e3, 1e2)
"""Where torque limits cannot be met, they get the softness that torques have otherwise, and torques so many times more; less,
when that is too stiff."""

WORTH = 1e3
"""So many times what the law's own forces cost is too much for torque limits or real friction cones."""

NEW = 1e-9
"""A row of E counts when more than this share of the longest is new."""

INWARDS = 1e-9
"""Limits are met with this share to spare, so that rounding does not exceed them."""


class Rows(NamedTuple):
    """What couples the contacts, in rows of order one: E of the motion (nu, 3n), K = −J_aᵀ/lever of the torques (na, 3n);
    f* [N] (3n), τ* [N·m] (na), the lever [m], the cones of the face, and whether its friction has no bounds."""

    E: Array
    K: Array
    force: Array
    tau: Array
    lever: float
    kinds: Array
    rays: Array
    unlimited: bool


@compiled
def choose(problem: ReducedProblem, face: Face, p: Array, aim: Aim) -> tuple[Array, bool]:
    """Contact forces [N] (3n) that come nearest to the aim within the torque limits; where those cannot be met, or cost `WORTH`
    times as much, beyond them by as little as can be. And whether any were found."""
    rows, limits = _rows(problem, face, p), problem.dynamics.given.model.tau_max
    force, status = _nearest(rows, aim, limits, 0.0)
    for last in LAST:
        if status >= 0:
            break
        force, status = _nearest(rows, aim, limits, last)
        if status == TOO_DEAR:
            return force, False
    dear = aim.inside and _torque2(rows, force) > _torque2(rows, rows.force)
    return force, status >= 0 and not dear


@compiled
def _torque2(rows: Rows, force: Array) -> float:
    """‖τ(f)‖² [N²·m²]"""
    tau = rows.tau + rows.lever * (rows.K @ (force - rows.force))
    return tau @ tau


@compiled
def _nearest(rows: Rows, aim: Aim, limits: Array, last: float) -> tuple[Array, int]:
    """The program with limits that are kept, or, where `last` is not 0, exceeded as little as can be before anything else.
    Forces, and the steps of the last program solved; with none, why, as `nearest_in_cones` says it."""
    nu, na, strict = len(rows.E), len(rows.K), last == 0.0
    # K f = τ(f)/lever + offset
    offset = rows.K @ rows.force - rows.tau / rows.lever
    allowed = limits * (1.0 - INWARDS) / rows.lever
    # rules: E f = E f*; the torques' parabola about τ₀ inside the limits
    A, rules = np.vstack((rows.E, rows.K)), np.zeros((nu + na, 5))
    rules[:nu, 0] = rows.E @ rows.force
    rules[:nu, 3], rules[:nu, 4] = -np.inf, np.inf
    rules[nu:, 0] = offset if aim.of_forces else offset + aim.target / rows.lever
    rules[nu:, 3], rules[nu:, 4] = offset - allowed, offset + allowed
    # σ falls; each answer is the next center, f', but where friction has no bounds
    center = aim.target.copy() if aim.of_forces else np.zeros(len(rows.force))
    multipliers, before, force, status = np.zeros(nu + na), SOFTNESS[0], center, NOT_FOUND
    for softness in SOFTNESS:
        torques = OF_TORQUES if aim.of_forces else softness if strict else last * softness
        rules[nu:, 1], rules[nu:, 2] = torques, 0.0 if strict else softness
        multipliers *= before / softness  # where they would be if the center were the answer already
        worth = _worth(rows, rules[nu:], center)
        nearer, multipliers, steps = nearest_in_cones(center, A, rules, rows.kinds, rows.rays, multipliers, worth)
        before = softness
        if steps < 0:
            return force, status if status >= 0 else steps  # what was found so far is feasible
        force, status = nearer, steps
        if aim.of_forces and strict:
            break
        if not (aim.of_forces or rows.unlimited):
            center = force
    return force, status


@compiled
def _worth(rows: Rows, rules: Array, center: Array) -> float:
    """A multiple of what the law's own forces cost: what costs more is as good as impossible. Limits that must be kept bound
    the torques' share."""
    # ‖f* − center‖²
    at, cost = rows.K @ rows.force, 1.0
    for k in range(len(center)):
        cost += (rows.force[k] - center[k]) ** 2
    # 2 h_k of K f*, beyond the limits with the steeper parabola
    for k in range(len(at)):
        b, inside, beyond, low, high = rules[k]
        edge = min(max(at[k], low), high)
        if beyond > 0.0:
            over = abs(at[k] - edge)
            cost += (edge - b) ** 2 / inside + over * over / beyond + 2.0 * abs(edge - b) * over / inside
        else:
            most = max(abs(low - b), abs(high - b))
            cost += (most if most < np.inf else at[k] - b) ** 2 / inside / WORTH
    return WORTH * cost


@compiled
def _rows(problem: ReducedProblem, face: Face, p: Array) -> Rows:
    """All that couples the contacts of a face, at the law's own impulses p (3n)."""
    given, Y, bound = problem.dynamics.given, problem.Y, problem.bound
    a, nu, na, size = given.model.a, len(given.model.u), len(given.model.a), len(p)
    v_plus, tau, closing, dt = np.empty(len(given.v)), np.empty(na), np.empty(len(problem.closing_free)), given.dt
    # τ*
    recover(problem, p, v_plus, tau, closing)
    # E = Yᵀ and K = −J_aᵀ, in units of their largest entries
    E, K, largest, lever = np.empty((nu, size)), np.empty((na, size)), 0.0, 0.0
    for row in range(size):
        for k in range(nu):
            largest = max(largest, abs(Y[row, k]))
        for k in range(na):
            lever = max(lever, abs(bound[row, a[k]]))
    largest, lever = largest if largest > 0.0 else 1.0, lever if lever > 0.0 else 1.0
    for row in range(size):
        for k in range(nu):
            E[k, row] = Y[row, k] / largest
        for k in range(na):
            K[k, row] = -bound[row, a[k]] / lever
    if len(problem.dynamics.G) > 0:  # closed chains leave less motion than there are joints
        E = row_basis(E, NEW)
    kinds, rays = _cones(face)
    return Rows(E, K, p / dt, tau, lever, kinds, rays, face.unlimited)


@compiled
def _cones(face: Face) -> tuple[Array, Array]:
    """Kinds (n) and unit rays (n, k, 3) of the contacts' parts of a face, in the order of `idyn.solvers.cones`."""
    flags, directions, mu = face.flags, face.directions, face.mu
    n, k = len(flags), len(directions)
    kinds, rays = np.full(n, NOTHING), np.zeros((n, k, 3))
    for i in range(n):
        # parts; unlimited friction
        if not flags[i, 0]:
            continue
        if is_free(mu[i], face.unlimited) and flags[i, 2]:
            kinds[i] = FREE
            continue
        # the normal alone
        kinds[i], count = RAYS, 0
        if is_free(mu[i], face.unlimited) or mu[i] == 0.0:
            rays[i, 0, 2] = 1.0
            continue
        # round cone: all of it when it sticks, (μ friction, 1) when it slides
        if len(face.friction) > 0:
            length, sticks = np.sqrt(1.0 + mu[i] ** 2), not flags[i, 1]
            kinds[i] = ROUND if sticks else RAYS
            rays[i, 0, 0] = mu[i] / length * (1.0 if sticks else face.friction[i, 0])
            rays[i, 0, 1] = mu[i] / length * (0.0 if sticks else face.friction[i, 1])
            rays[i, 0, 2] = 1.0 / length
            continue
        # polygon: (μ corner, 1) of the loaded directions, of all when it sticks
        for j in range(k):
            if flags[i, 2 + j] or not flags[i, 1]:
                length = np.sqrt(1.0 + mu[i] ** 2 * (directions[j, 0] ** 2 + directions[j, 1] ** 2))
                rays[i, count, 0], rays[i, count, 1] = mu[i] * directions[j, 0] / length, mu[i] * directions[j, 1] / length
                rays[i, count, 2] = 1.0 / length
                count += 1
    return kinds, rays
