"""Objectives of the selection: ½‖τ − target‖² or ½‖f − target‖²."""

from enum import IntEnum
from typing import NamedTuple

from idyn.contact.ground import in_contact_rows
from idyn.jit.compiled import compiled
from idyn.solvers.vectors import fill
from idyn.terms.inputs import finite
from idyn.terms.stages import Given
from idyn.types import Array, Selection


class Aim(NamedTuple):
    """Objective of one selection, with the values of its target.

    target: of the torques τ [N·m] (na), or, if `of_forces`, of the contact forces in rows S, T, N of each contact [N] (3n)
    inside: for unlimited friction: whether impulses must be inside the friction cones of μ; they are accepted only if their
        torque does not exceed that of the law's impulses
    """

    target: Array
    of_forces: bool
    inside: bool


class Near(IntEnum):
    """Target of an objective: zero, the last tick, or the preferred forces."""

    ZERO = 0
    LAST = 1
    PREFERRED = 2


class Objective(NamedTuple):
    """An objective: distance of forces (`of_forces`) or torques from a target. near: the target; zero is used if it does not
    exist"""

    of_forces: bool
    near: Near


OBJECTIVES = {
    Selection.TORQUE: Objective(False, Near.ZERO),
    Selection.TORQUE_CHANGE: Objective(False, Near.LAST),
    Selection.IMPULSE_CHANGE: Objective(True, Near.LAST),
    Selection.FORCE: Objective(True, Near.PREFERRED),
}
"""Objectives by option. A new objective is a member of `Selection` and a row of this table."""


@compiled
def aim_at_forces(force: Array, given: Given, target: Array) -> None:
    """Fill `target`, rows S, T, N of each contact [N] (3n), from forces in the world [N] (n, 3); zero if these are empty (0, 3)
    or not finite."""
    in_contact_rows(force, given.tangents, given.normals, 1.0, target)
    if len(force) == 0 or not finite(target):
        fill(target, 0.0)
