"""What a choice of forces is to come near to: a table of objectives ½‖τ − target‖² or ½‖f − target‖²."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from idyn.ground import in_contact_rows
from idyn.inputs import finite
from idyn.problem import Problem
from idyn.types import Array, Selection

NO_TARGET = np.zeros(0)


class Aim(NamedTuple):
    """target: of τ [N·m] (na), or, when `of_forces`, of the contact forces in rows S, T, N for each contact [N] (3n)
    inside: friction within the real cones, where the law's own has no bounds, at no more torque than the law's own impulses
    """

    target: Array
    of_forces: bool
    inside: bool


class Objective(NamedTuple):
    """Whether forces are its aim, or torques; and the target for a problem, as in `Aim`."""

    of_forces: bool
    target: Callable[[Problem], Array]


def _no_torque(problem: Problem) -> Array:
    return np.zeros(problem.robot.na)


def _last_torque(problem: Problem) -> Array:
    return _no_torque(problem) if problem.guess is None else problem.guess.tau


def _last_force(problem: Problem) -> Array:
    guess = problem.guess
    return _in_rows(problem, None if guess is None else guess.carried_over(guess.force, problem.contacts.keys))


def _preferred_force(problem: Problem) -> Array:
    return _in_rows(problem, problem.preferred)


def _in_rows(problem: Problem, force: Array | None) -> Array:
    """Forces in the world [N] (n, 3), none: zero, in rows S, T, N (3n); zero when they are no numbers."""
    contacts = problem.contacts
    rows = np.zeros(3 * len(contacts.keys))
    if force is not None:
        in_contact_rows(force, contacts.tangents, contacts.normals, 1.0, rows)
        if not finite(rows):
            rows[:] = 0.0
    return rows


OBJECTIVES = {
    Selection.TORQUE: Objective(False, _no_torque),
    Selection.TORQUE_CHANGE: Objective(False, _last_torque),
    Selection.IMPULSE_CHANGE: Objective(True, _last_force),
    Selection.FORCE: Objective(True, _preferred_force),
}
"""A new one is a member of `Selection` and a row here."""


def target_of(problem: Problem) -> Array:
    """What the problem's selection aims at, as in `Aim`; without a selection nothing (0)."""
    objective = OBJECTIVES.get(problem.options.selection)
    return NO_TARGET if objective is None else objective.target(problem)
