"""Limits of one tick: their numbers, their values at a motion with its forces, and their rows on the coordinates of the levels.

Limits are numbered: of each contact the least normal force, then the facets of its friction polygon; of each joint the largest
torque, the least one, the least and the largest acceleration; then the least distances between links. Facets bind contacts
that stick, the least normal force all that are not open. The slack of a limit is
how far the motion keeps off it, negative beyond it.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from idyn.library.kernels import compiled, stack_array
from idyn.model.robot import Robot
from idyn.solvers.linalg import axpy, copy, dot, fill, long_dot
from idyn.solvers.rows import reflect, unreflect
from idyn.tasks.held import OPEN, STICK, Closing, Held, fill_factors, fill_forces, solve_base
from idyn.tasks.levels import Levels
from idyn.tasks.plan import TIME_CONSTANT, Plan, approach
from idyn.tasks.stack import TaskLimits
from idyn.terms.stages import Dynamics
from idyn.types import Array, Kinematics

FLAT = 1e-4
"""1 minus the cosine of the angle between normals below which contacts are those of one flat sole."""


class LinkDistances(NamedTuple):
    """Bounds rows · v̇ ≥ least [m/s²] that keep links apart. rows (k, nv), least (k); links: names of the two links (k)"""

    rows: Array
    least: Array
    links: tuple[tuple[str, str], ...]


class Limits(NamedTuple):
    """Limits of one tick."""

    plan: Plan
    kinds: Array  # of the contact modes (n)
    apart: Array  # rows on v̇ of distances between links, and their least values: see `LinkDistances`
    nearest: Array
    limited: bool  # whether those of forces and torques hold


class Answer(NamedTuple):
    """A motion with its forces and torques: v̇ (nv), f (3n), τ (na)."""

    motion: Array
    force: Array
    torque: Array


@compiled
def count_limits(limits: Limits) -> int:
    """Return the number of limits."""
    return len(limits.kinds) * (1 + len(limits.plan.corners)) + 4 * len(limits.plan.most) + len(limits.nearest)


@compiled
def of_forces(limits: Limits, number: int) -> bool:
    """Return whether a limit is one of contact forces or torques."""
    number -= len(limits.kinds) * (1 + len(limits.plan.corners))
    return number < 0 or (number < 4 * len(limits.plan.most) and number % 4 < 2)


@compiled
def fill_slacks(d: Dynamics, limits: Limits, answer: Answer, out: Array) -> None:
    """Fill the slack of each limit in units of `limit_size`; ∞ where the modes set none."""
    plan, a, number, row = limits.plan, d.given.model.a, 0, stack_array(len(answer.force))
    corners, least = plan.corners, plan.least
    for i in range(len(limits.kinds)):
        s, t, normal, reach = answer.force[3 * i], answer.force[3 * i + 1], answer.force[3 * i + 2], plan.reach[i]
        fill(row, 0.0)
        _fill_normal_row(d, limits, i, row)
        off = dot(row, answer.force) - (1.0 - plan.smaller) * least
        out[number] = off / max(1.0, least) if limits.limited and limits.kinds[i] != OPEN else np.inf
        limited = limits.limited and limits.kinds[i] == STICK and 0.0 < reach < np.inf
        for c in range(len(corners)):
            x, y, z = _facet(corners, c)
            out[number + 1 + c] = reach * z * normal - x * s - y * t if limited else np.inf
        number += 1 + len(corners)
    for k in range(len(plan.most)):
        most, slowest, fastest, moved = plan.most[k], plan.slowest[k], plan.fastest[k], answer.motion[a[k]]
        unit, limited = max(1.0, most), limits.limited and most < np.inf
        out[number] = (most - answer.torque[k]) / unit if limited else np.inf
        out[number + 1] = (most + answer.torque[k]) / unit if limited else np.inf
        out[number + 2] = (moved - slowest) / max(1.0, abs(slowest))
        out[number + 3] = (fastest - moved) / max(1.0, abs(fastest))
        number += 4
    for k in range(len(limits.nearest)):
        out[number + k] = (dot(limits.apart[k], answer.motion) - limits.nearest[k]) / max(1.0, abs(limits.nearest[k]))


@compiled
def _fill_normal_row(d: Dynamics, limits: Limits, i: int, row: Array) -> None:
    """Fill the row on f (3n) of the least normal force l of contact i: f_i − s/k Σ f_j, over the k contacts of its sole, is at
    least (1 − s) l. Then f_i ≥ l, and the centre of pressure is Σ (s/k + (1 − s) w_j) x_j, w_j ≥ 0, Σ w_j = 1."""
    count, some = 0, len(limits.kinds) if limits.plan.smaller > 0.0 else 0
    for j in range(some):
        count += _of_a_sole(d, limits, i, j)
    for j in range(some):
        if _of_a_sole(d, limits, i, j):
            row[3 * j + 2] = -limits.plan.smaller / count
    row[3 * i + 2] += 1.0


@compiled
def _of_a_sole(d: Dynamics, limits: Limits, i: int, j: int) -> bool:
    """Return whether contact j is closed, and between the same bodies as contact i, with the same normal."""
    g = d.given
    same = g.bodies[j] == g.bodies[i] and g.others[j] == g.others[i]
    return bool(limits.kinds[j] != OPEN and same and dot(g.normals[i], g.normals[j]) > 1.0 - FLAT)


@compiled
def _facet(corners: Array, c: int) -> tuple[float, float, float]:
    """Return x, y, z of facet c of a friction polygon, x f_S + y f_T ≤ μ z f_N: between corners d and d′ that is
    (d + d′) · f_T ≤ μ (d + d′) · d f_N."""
    e, f = corners[c], corners[c + 1 if c + 1 < len(corners) else 0]
    x, y = e[0] + f[0], e[1] + f[1]
    return x, y, x * e[0] + y * e[1]


@compiled
def limit_size(limits: Limits, number: int) -> float:
    """Return the unit of a slack."""
    plan, per, na = limits.plan, 1 + len(limits.plan.corners), len(limits.plan.most)
    if number < len(limits.kinds) * per:
        return max(1.0, plan.least) if number % per == 0 else 1.0
    number -= len(limits.kinds) * per
    if number < 4 * na:
        k, which = number // 4, number % 4
        return max(1.0, plan.most[k] if which < 2 else abs(plan.slowest[k] if which == 2 else plan.fastest[k]))
    return max(1.0, abs(limits.nearest[number - 4 * na]))


@compiled
def fill_limit(d: Dynamics, limits: Limits, closed: Closing, number: int, rows: tuple[Array, Array]) -> None:
    """Fill the rows of a slack, times its unit, on v̇ (nv) and on f (3n)."""
    (by_motion, by_force), per, na, a = rows, 1 + len(limits.plan.corners), len(limits.plan.most), d.given.model.a
    fill(by_motion, 0.0)
    fill(by_force, 0.0)
    if number < len(limits.kinds) * per:
        i, c = number // per, number % per - 1
        if c < 0:
            _fill_normal_row(d, limits, i, by_force)
            return
        x, y, z = _facet(limits.plan.corners, c)
        by_force[3 * i], by_force[3 * i + 1], by_force[3 * i + 2] = -x, -y, limits.plan.reach[i] * z
        return
    number -= len(limits.kinds) * per
    if number >= 4 * na:
        copy(limits.apart[number - 4 * na], by_motion)
    elif number % 4 >= 2:
        by_motion[a[number // 4]] = 1.0 if number % 4 == 2 else -1.0
    else:
        _fill_torque_row(d, closed, number // 4, -1.0 if number % 4 == 0 else 1.0, rows)


@compiled
def _fill_torque_row(d: Dynamics, closed: Closing, k: int, sign: float, rows: tuple[Array, Array]) -> None:
    """Fill the rows of ± τ_k on v̇_a and on f: of M_au v̇_u + M_aa v̇_a + h_a − J_aᵀ f − G_aᵀ λ with v̇_u and λ from the unactuated
    rows and the closures."""
    (by_motion, by_force), g = rows, d.given
    u, a, joint = g.model.u, g.model.a, g.model.a[k]
    # weights of J_uᵀ f − h_u − M_ua v̇_a, and of the closures
    omega, gamma = stack_array(len(u)), stack_array(len(d.G))
    fill(gamma, 0.0)
    for i in range(len(u)):
        omega[i] = g.M[u[i], joint]
    solve_base(closed.L, omega)
    for c in range(len(d.G)):
        s = d.G[c, joint]
        for i in range(len(u)):
            s -= d.G[c, u[i]] * omega[i]
        axpy(s, closed.inverse[c], gamma)
    for c in range(len(d.G)):
        axpy(gamma[c], closed.moved[c], omega)
    for j in range(len(a)):
        s = g.M[joint, a[j]]
        for i in range(len(u)):
            s -= omega[i] * g.M[u[i], a[j]]
        for c in range(len(d.G)):
            s += gamma[c] * d.G[c, a[j]]
        by_motion[a[j]] = sign * s
    for row in range(len(d.J)):
        s = -d.J[row, joint]
        for i in range(len(u)):
            s += d.J[row, u[i]] * omega[i]
        by_force[row] = sign * s


@compiled
def fill_coordinates(d: Dynamics, held: Held, levels: Levels, rows: tuple[Array, Array], out: Array) -> None:
    """Fill the row on the coordinates c (D) of a row on v̇ (nv) and f (3n)."""
    (by_motion, row), g, nu = rows, d.given, len(held.base)
    u, a, (kept, rank, rank_i) = g.model.u, g.model.a, levels.counts
    na, line, push, moves, acts = len(a), stack_array(len(a)), stack_array(nu), False, False
    for j in range(na):
        line[j] = by_motion[a[j]]
        moves = moves or line[j] != 0.0
    for i in range(nu):
        if by_motion[u[i]] != 0.0:
            axpy(-by_motion[u[i]], held.base[i, :na], line)
            moves = True
    if moves:
        for j in range(na):
            line[j] *= levels.stretch[j]
        reflect(levels.H, rank, line)
    copy(line[kept:], out[: na - kept])
    inner = out[na - kept :]
    fill(inner, 0.0)
    for value in row:
        acts = acts or value != 0.0
    if acts:
        fill_factors(held, row, push, inner)
        reflect(levels.H_i, rank_i, inner)
        for i in range(nu):
            axpy(push[i], levels.pushes[i, : na - kept], out[: na - kept])


@compiled
def fill_answer(d: Dynamics, held: Held, levels: Levels, closed: Closing, c: Array, answer: Answer) -> None:
    """Fill motion, forces and torques at coordinates c (D)."""
    g, nu, (kept, rank, rank_i), D = d.given, len(held.base), levels.counts, len(c)
    u, a, na, motion = g.model.u, g.model.a, len(g.model.a), answer.motion
    y, inner, load = stack_array(na), stack_array(D - na + kept), stack_array(nu)
    copy(c[na - kept :], inner)
    copy(levels.fixed, y[:kept])
    copy(c[: na - kept], y[kept:])
    unreflect(levels.H, rank, y)
    for j in range(na):
        y[j] = levels.middle[j] + levels.stretch[j] * y[j]
        motion[a[j]] = y[j]
    for i in range(nu):
        motion[u[i]] = held.base[i, na] - dot(held.base[i, :na], y)
        load[i] = levels.pushes[i, D] + dot(levels.pushes[i, : na - kept], c[: na - kept])
    unreflect(levels.H_i, rank_i, inner)
    fill_forces(held, load, inner, answer.force)
    _fill_torque(d, closed, y, answer)


@compiled
def _fill_torque(d: Dynamics, closed: Closing, motion: Array, answer: Answer) -> None:
    """Fill τ = M_au v̇_u + M_aa v̇_a + h_a − J_aᵀ f − G_aᵀ λ, with v̇_u and λ from the unactuated rows and the closures. motion:
    v̇_a"""
    g, nv = d.given, len(d.given.v)
    u, a = g.model.u, g.model.a
    push, moved, closes, free = stack_array(nv), stack_array(nv), stack_array(len(d.G)), stack_array(len(u))
    fill(moved, 0.0)
    fill(closes, 0.0)
    for j in range(nv):
        push[j] = -g.h[j]
    for row in range(len(d.J)):
        if answer.force[row] != 0.0:
            axpy(answer.force[row], d.J[row], push)
    for j in range(len(a)):
        moved[a[j]] = motion[j]
    for i in range(len(u)):
        free[i] = push[u[i]] - dot(g.M[u[i]], moved)
    solve_base(closed.L, free)
    for i in range(len(u)):
        moved[u[i]] = free[i]
    for c in range(len(d.G)):
        axpy(closed.asked[c] - dot(d.G[c], moved), closed.inverse[c], closes)
    for c in range(len(d.G)):
        axpy(closes[c], d.G[c], push)
        for i in range(len(u)):
            moved[u[i]] += closes[c] * closed.moved[c, i]
    for k in range(len(a)):
        answer.torque[k] = long_dot(g.M[a[k]], moved) - push[a[k]]


def distance_bounds(robot: Robot, state: Kinematics, dt: float, limits: TaskLimits) -> LinkDistances:
    """Return bounds that keep the distances of `limits.self_collision`, as those of joint positions, see
    `idyn.tasks.plan.approach`. Links that are too near move apart in the same manner, with the deceleration c at most."""
    kept = limits.self_collision
    if kept is None:
        return _no_distances(robot.nv)
    links, distances, rows = kept.near(robot, state)
    room = distances - kept.distance
    fastest = np.copysign(approach(np.abs(room), kept.braking, TIME_CONSTANT, dt), room)
    return LinkDistances(rows, np.minimum((-fastest - rows @ state.v) / max(TIME_CONSTANT, dt), kept.braking), links)


@lru_cache(maxsize=16)
def _no_distances(nv: int) -> LinkDistances:
    return LinkDistances(np.zeros((0, nv)), np.zeros(0), ())
