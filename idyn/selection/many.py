"""Selection for many contacts or with torque limits: the nearest point of the friction cones subject to a few equations.

    forces       min ½‖f − f₀‖²                              s.t.  E f = E f*,   f ∈ face
    torque       min ½‖τ(f) − τ₀‖² + ½σ‖f − f'‖²             s.t.  E f = E f*,   f ∈ face

f*, τ*: those of the law's solution, f₀, τ₀: the targets. The torque program is solved for decreasing σ; f' is the previous
solution, at first 0. Only E = Yᵀ and τ(f) = τ* − J_aᵀ (f − f*) couple the contacts (`idyn.solvers.cones`). Torque limits are
bounds on the rows of τ. If they cannot be met, the sum of the squared excesses is minimised.
"""

from typing import NamedTuple

import numpy as np

from idyn.laws.law import Face, is_free
from idyn.library.kernels import compiled
from idyn.selection.aim import Aim, choice_dimension, has_impulses_in_cones
from idyn.solvers.cones import FREE, NOT_FOUND, RAYS, ROUND, TOO_COSTLY, ZERO, nearest_in_cones
from idyn.solvers.linalg import apply, copy_rows, dot, fill, row_basis
from idyn.terms.reduction import recover
from idyn.terms.stages import ReducedProblem
from idyn.types import Array

SOFTNESS = (1e-1, 1e-3, 1e-4, 1e-5)
"""Values of σ, relative to the largest squared lever, in the order in which they are used. With unlimited friction f' stays 0;
otherwise feet would press against each other with kilonewtons to save the last mN·m of torque."""

SOFT_TORQUES = 1e10  # value of σ for objectives of forces: torques have no weight, only limits

SOFTENING = (1e4, 1e3, 1e2)
"""If torque limits cannot be met, their excess is minimised with the usual weight of torques, and the weight of torques is
divided by one of these factors. The factors are tried in turn, as large ones are numerically stiff."""

MAX_COST_RATIO = 1e3  # torque limits and cones are given up if the cost exceeds that of the forces of the law by this factor
INDEPENDENT = 1e-9  # a row of E is independent if its orthogonal part is longer than this share of the longest row
MARGIN = 1e-9  # torque limits are reduced by this share, so that rounding errors do not exceed them


class Rows(NamedTuple):
    """Coupling of the contacts, in rows of order one, and the face."""

    E: Array  # rows of the motion (nu, 3n)
    K: Array  # rows of the torques, −J_aᵀ/lever (na, 3n)
    force: Array  # f* [N] (3n)
    tau: Array  # τ* [N·m] (na)
    lever: float  # largest entry of J_a [m]
    # kinds, rays: cones of the face, see `idyn.solvers.cones`
    kinds: Array
    rays: Array
    unlimited: bool  # whether friction is unlimited


@compiled
def _choose(problem: ReducedProblem, face: Face, p: Array, aim: Aim) -> tuple[Array, bool]:
    """Return contact forces [N] (3n) that minimise the objective within the torque limits, and whether they were found. If the
    limits cannot be met, or only at more than `MAX_COST_RATIO` times the cost, the excess over them is minimised first."""
    rows, limits = _rows(problem, face, p), problem.dynamics.given.model.tau_max
    force, status = _nearest(rows, aim, limits, 0.0)
    for last in SOFTENING:
        if status >= 0:
            break
        force, status = _nearest(rows, aim, limits, last)
        if status == TOO_COSTLY:
            return force, False
    costly = aim.inside and _torque2(rows, force) > _torque2(rows, rows.force)
    return force, status >= 0 and not costly


@compiled
def _torque2(rows: Rows, force: Array) -> float:
    change, square = force - rows.force, 0.0
    for k in range(len(rows.tau)):
        square += (rows.tau[k] + rows.lever * dot(rows.K[k], change)) ** 2
    return square


@compiled
def _nearest(rows: Rows, aim: Aim, limits: Array, last: float) -> tuple[Array, int]:
    """Solve the program. Return forces (3n), and the number of steps of the last program or an error of `nearest_in_cones`.

    last: 0: torque limits are enforced; otherwise a factor of `SOFTENING`: the excess over them is minimised first
    """
    nu, na, strict = len(rows.E), len(rows.K), last == 0.0
    # rules: E f = E f*; parabola of the torques about τ₀, within the limits, with K f = τ(f)/lever + offset
    A, rules = np.empty((nu + na, rows.E.shape[1])), np.zeros((nu + na, 5))
    copy_rows(rows.E, A[:nu])
    copy_rows(rows.K, A[nu:])
    apply(A, rows.force, rules[:, 0])
    fill(rules[:nu, 3], -np.inf)
    fill(rules[:nu, 4], np.inf)
    for k in range(na):
        offset, allowed = rules[nu + k, 0] - rows.tau[k] / rows.lever, limits[k] * (1.0 - MARGIN) / rows.lever
        rules[nu + k, 0] = offset if aim.of_forces else offset + aim.target[k] / rows.lever
        rules[nu + k, 3], rules[nu + k, 4] = offset - allowed, offset + allowed
    # decreasing σ; each solution is the next center f', except with unlimited friction
    center = aim.target.copy() if aim.of_forces else np.zeros(len(rows.force))
    multipliers, before, force, status = np.zeros(nu + na), SOFTNESS[0], center, NOT_FOUND
    for softness in SOFTNESS:
        torques = SOFT_TORQUES if aim.of_forces else softness if strict else last * softness
        fill(rules[nu:, 1], torques)
        fill(rules[nu:, 2], 0.0 if strict else softness)
        multipliers *= before / softness  # the multipliers if the center were the solution
        cost_limit = _cost_limit(rows, rules[nu:], center)
        nearer, multipliers, steps = nearest_in_cones(center, A, rules, rows.kinds, rows.rays, multipliers, cost_limit)
        before = softness
        if steps < 0:
            return force, status if status >= 0 else steps  # the last solution is feasible
        force, status = nearer, steps
        if aim.of_forces and strict:
            break
        if not (aim.of_forces or rows.unlimited):
            center = force
    return force, status


@compiled
def _cost_limit(rows: Rows, rules: Array, center: Array) -> float:
    """Return the cost above which a solution is abandoned: a multiple of the cost of the law's forces and, if torque limits are
    enforced, the cost of torques at these limits."""
    # ‖f* − center‖²
    cost = 1.0
    for k in range(len(center)):
        cost += (rows.force[k] - center[k]) ** 2
    # 2 h_k of K f*, outside the limits with the parabola of the excess
    for k in range(len(rules)):
        b, inside, beyond, low, high = rules[k]
        at = dot(rows.K[k], rows.force)
        edge = min(max(at, low), high)
        if beyond > 0.0:
            over = abs(at - edge)
            cost += (edge - b) ** 2 / inside + over * over / beyond + 2.0 * abs(edge - b) * over / inside
        else:
            most = max(abs(low - b), abs(high - b))
            cost += (most if most < np.inf else at - b) ** 2 / inside / MAX_COST_RATIO
    return MAX_COST_RATIO * cost


@compiled
def _rows(problem: ReducedProblem, face: Face, p: Array) -> Rows:
    """Return the coupling of the contacts of a face, for a law's impulses p (3n)."""
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
    if len(problem.dynamics.G) > 0:  # with closures the rows of E are dependent
        E = row_basis(E, INDEPENDENT)
    kinds, rays = _cones(face)
    return Rows(E, K, p / dt, tau, lever, kinds, rays, face.unlimited)


@compiled
def _cones(face: Face) -> tuple[Array, Array]:
    """Return kinds (n) and unit rays (n, k, 3) of the cones of a face, see `idyn.solvers.cones`."""
    flags, directions, mu = face.flags, face.directions, face.mu
    n, k = len(flags), len(directions)
    kinds, rays = np.full(n, ZERO), np.zeros((n, k, 3))
    for i in range(n):
        # separating; unlimited friction
        if not flags[i, 0]:
            continue
        if is_free(mu[i], face.unlimited) and flags[i, 2]:
            kinds[i] = FREE
            continue
        # normal only
        kinds[i], count = RAYS, 0
        if is_free(mu[i], face.unlimited) or mu[i] == 0.0:
            rays[i, 0, 2] = 1.0
            continue
        # round cone: sticking: the whole cone; sliding: the ray (μ friction, 1)
        if len(face.friction) > 0:
            length, sticks = np.sqrt(1.0 + mu[i] ** 2), not flags[i, 1]
            kinds[i] = ROUND if sticks else RAYS
            rays[i, 0, 0] = mu[i] / length * (1.0 if sticks else face.friction[i, 0])
            rays[i, 0, 1] = mu[i] / length * (0.0 if sticks else face.friction[i, 1])
            rays[i, 0, 2] = 1.0 / length
            continue
        # polygon: rays (μ corner, 1); sliding: of the loaded directions; sticking: of all
        for j in range(k):
            if flags[i, 2 + j] or not flags[i, 1]:
                length = np.sqrt(1.0 + mu[i] ** 2 * (directions[j, 0] ** 2 + directions[j, 1] ** 2))
                rays[i, count, 0], rays[i, count, 1] = mu[i] * directions[j, 0] / length, mu[i] * directions[j, 1] / length
                rays[i, count, 2] = 1.0 / length
                count += 1
    return kinds, rays


@compiled
def choose_thoroughly(problem: ReducedProblem, face: Face, of_forces: bool, target: Array, p: Array) -> tuple[Array, bool, int]:
    """Select impulses with the arguments and results of `choose_among_few`, for any number of contacts, in time linear in it.

    Torque limits are satisfied if the face permits this at reasonable cost; otherwise the excess is minimised.
    """
    for inside in (True, False):
        if inside and not has_impulses_in_cones(face):
            continue
        restricted = Face(face.flags, face.directions, face.mu, face.unlimited and not inside, face.friction)
        force, found = _choose(problem, restricted, p, Aim(target, of_forces, inside))
        if found:
            return problem.dynamics.given.dt * force, True, choice_dimension(problem.Y, face)
    return p, False, 0
