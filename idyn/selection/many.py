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

from idyn.compiled import compiled
from idyn.laws.law import Face, is_free
from idyn.problem import Problem
from idyn.reduction import Motion, Reduced, jacobian, recover
from idyn.selection.aim import Aim
from idyn.solvers.cones import FREE, NOTHING, RAYS, nearest_in_cones
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

    def cost(self, force: Array) -> float:
        """‖τ(f)‖² [N²·m²]"""
        tau = self.tau + self.lever * (self.K @ (force - self.force))
        return float(tau @ tau)


def choose(problem: Problem, reduced: Reduced, motion: Motion, face: Face, p: Array, aim: Aim) -> Array | None:
    """Contact forces [N] (3n) that come nearest to the aim within the torque limits; where those cannot be met, beyond them by
    as little as can be. None when nothing was found."""
    rows = _rows(problem, reduced, motion, face, p, inside=aim.inside)
    limits = problem.robot.limits.tau_max
    force = None
    for last in (0.0, *LAST):
        force = _nearest(rows, aim, limits, last) if force is None else force
    if force is None or (aim.inside and rows.cost(force) > rows.cost(rows.force)):
        return None
    return force


def _nearest(rows: Rows, aim: Aim, limits: Array, last: float) -> Array | None:
    """The program with limits that are kept, or, where `last` is not 0, exceeded as little as can be before anything else."""
    strict = last == 0.0
    offset = rows.K @ rows.force - rows.tau / rows.lever  # K f = τ(f)/lever + offset
    allowed = limits * (1.0 - INWARDS) / rows.lever
    of_motion, of_torques = slice(0, len(rows.E)), slice(len(rows.E), None)
    A, rules = np.vstack([rows.E, rows.K]), np.zeros((len(rows.E) + len(rows.K), 5))
    rules[of_motion, 0], rules[of_motion, 3:] = rows.E @ rows.force, (-np.inf, np.inf)
    rules[of_torques, 0] = offset if aim.of_forces else offset + aim.target / rows.lever
    rules[of_torques, 3], rules[of_torques, 4] = offset - allowed, offset + allowed
    center = aim.target if aim.of_forces else np.zeros(len(rows.force))
    multipliers, before, force = np.zeros(len(A)), SOFTNESS[0], None
    for softness in (OF_TORQUES,) if aim.of_forces and strict else SOFTNESS:
        torques = OF_TORQUES if aim.of_forces else softness if strict else last * softness
        rules[of_torques, 1], rules[of_torques, 2] = torques, 0.0 if strict else softness
        multipliers = multipliers * (before / softness)  # where they would be if the center were the answer already
        worth = _worth(rows, A, rules, center) if strict else np.inf
        nearer, multipliers, steps = nearest_in_cones(center, A, rules, rows.kinds, rows.rays, multipliers, worth)
        before = softness
        if steps < 0:
            break  # what was found so far is feasible
        force = nearer
        if not (aim.of_forces or rows.unlimited):
            center = force
    return force


def _worth(rows: Rows, A: Array, rules: Array, center: Array) -> float:
    """A multiple of what the law's own forces cost without limits: what costs more is as good as impossible."""
    torques, away = slice(len(rows.E), None), rows.force - center
    off = A[torques] @ rows.force - rules[torques, 0]
    return WORTH * float(away @ away + off @ (off / rules[torques, 1]) + 1.0)


def _rows(problem: Problem, reduced: Reduced, motion: Motion, face: Face, p: Array, *, inside: bool) -> Rows:
    """All that couples the contacts of a face, at the law's own impulses p (3n)."""
    robot, terms, contacts = problem.robot, problem.terms, problem.contacts
    _, tau = recover(
        terms.M, terms.h, terms.axes, robot.parents, robot.dof_joint, robot.u, robot.a,
        contacts.bodies, contacts.others, motion.maps, motion.L, motion.v_free, problem.state.v, p, problem.dt,
    )  # fmt: skip
    levers = jacobian(motion.maps, terms.axes, robot.support, contacts.bodies, contacts.others, robot.a)
    lever, size = float(np.abs(levers).max(initial=0.0)) or 1.0, float(np.abs(reduced.Y).max(initial=0.0)) or 1.0
    kinds, rays = _cones(face.flags, face.directions, face.mu, face.unlimited and not inside)
    return Rows(reduced.Y.T / size, -levers / lever, p / problem.dt, tau, lever, kinds, rays, face.unlimited and not inside)


@compiled
def _cones(flags, directions, mu, unlimited):
    """Kinds (n) and unit rays (n, k, 3) of the contacts' parts of a face, in the order of `idyn.solvers.cones`."""
    n, k = len(flags), len(directions)
    kinds, rays = np.full(n, NOTHING), np.zeros((n, k, 3))
    for i in range(n):
        if not flags[i, 0]:
            continue
        if is_free(mu[i], unlimited) and flags[i, 2]:
            kinds[i] = FREE
            continue
        kinds[i], count = RAYS, 0
        if is_free(mu[i], unlimited) or mu[i] == 0.0:
            rays[i, 0, 2] = 1.0
            continue
        for j in range(k):
            if flags[i, 2 + j] or not flags[i, 1]:
                length = np.sqrt(1.0 + mu[i] ** 2 * (directions[j, 0] ** 2 + directions[j, 1] ** 2))
                rays[i, count, 0], rays[i, count, 1] = mu[i] * directions[j, 0] / length, mu[i] * directions[j, 1] / length
                rays[i, count, 2] = 1.0 / length
                count += 1
    return kinds, rays
