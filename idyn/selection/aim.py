"""What a choice of forces is to come near to: a table of objectives ½‖τ − target‖² or ½‖f − target‖²."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

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
    """Whether forces are its aim, or torques; and the target for a problem, as in `Aim`."""

    of_forces: bool
    target: Callable[[Problem], Array]


@lru_cache(maxsize=16)
def _zeros(n: int) -> Array:
    return np.zeros(n)


def _last_torque(problem: Problem) -> Array:
    return _zeros(problem.robot.na) if problem.guess is None else problem.guess.tau


OBJECTIVES = {
    Selection.TORQUE: Objective(False, lambda problem: _zeros(problem.robot.na)),
    Selection.TORQUE_CHANGE: Objective(False, _last_torque),
    Selection.IMPULSE_CHANGE: Objective(True, lambda problem: problem.dynamics.last / problem.dt),
    Selection.FORCE: Objective(True, lambda problem: problem.preferred / problem.dt),
}
"""A new one is a member of `Selection` and a row here."""
