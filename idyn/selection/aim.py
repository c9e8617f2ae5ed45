"""What a choice of forces is to come near to: a table of objectives ½‖τ − target‖² or ½‖f − target‖²."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from idyn.compiled import compiled
from idyn.ground import in_contact_rows
from idyn.inputs import finite
from idyn.problem import Problem
from idyn.types import Array, Selection


class Aim(NamedTuple):
    """target: of τ [N·m] (na), or, when `of_forces`, of the contact forces in rows S, T, N for each contact [N] (3n)
    inside: friction within the real cones, where the law's own has no bounds, at no more torque than the law's own impulses
    """

    target: Array
    of_forces: bool
    inside: bool


class Objective(NamedTuple):
    """Whether forces are its aim, or torques; and what they are to be near to for a problem: torques [N·m] (na), forces in the
    world [N] (n, 3), or None, which is zero."""

    of_forces: bool
    wanted: Callable[[Problem], Array | None]


def _no_torque(_: Problem) -> None:
    return None


def _last_torque(problem: Problem) -> Array | None:
    return None if problem.guess is None else problem.guess.tau


def _last_force(problem: Problem) -> Array | None:
    guess = problem.guess
    return None if guess is None else guess.carried_over(guess.force, problem.contacts.keys)


def _preferred_force(problem: Problem) -> Array | None:
    return problem.preferred


OBJECTIVES = {
    Selection.TORQUE: Objective(False, _no_torque),
    Selection.TORQUE_CHANGE: Objective(False, _last_torque),
    Selection.IMPULSE_CHANGE: Objective(True, _last_force),
    Selection.FORCE: Objective(True, _preferred_force),
}
"""A new one is a member of `Selection` and a row here."""


def aim_of(problem: Problem) -> Aim:
    """What the problem's selection aims at, inside or not; its record of dynamics is filled."""
    objective, contacts = OBJECTIVES[problem.options.selection], problem.contacts
    wanted = objective.wanted(problem)
    if not objective.of_forces:
        return Aim(np.zeros(problem.robot.na) if wanted is None else wanted, False, False)
    target = np.zeros(3 * len(contacts.keys))
    if wanted is not None:
        aim_at_forces(np.ascontiguousarray(wanted), problem.dynamics.fields, target)
    return Aim(target, True, False)


@compiled
def aim_at_forces(force, d, target):
    """Fills rows S, T, N for each contact [N] (3n) with forces in the world [N] (n, 3) or none (0, 3); zero where they are no
    numbers."""
    in_contact_rows(force, d.tangents, d.normals, 1.0, target)
    if len(force) == 0 or not finite(target):
        target[:] = 0.0
