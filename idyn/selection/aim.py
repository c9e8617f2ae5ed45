"""What a choice of forces is to come near to: a table of objectives ½‖τ − target‖² or ½‖f − target‖²."""

from enum import IntEnum
from typing import NamedTuple

from idyn.contact.ground import in_contact_rows
from idyn.jit.compiled import compiled
from idyn.terms.inputs import finite
from idyn.terms.stages import Given
from idyn.types import Array, Selection


class Aim(NamedTuple):
    """target: of τ [N·m] (na), or, when `of_forces`, of the contact forces in rows S, T, N for each contact [N] (3n)
    inside: friction within the real cones, where the law's own has no bounds, at no more torque than the law's own impulses
    """

    target: Array
    of_forces: bool
    inside: bool


class Near(IntEnum):
    """What torques or forces are to be near to."""

    ZERO = 0
    LAST = 1
    PREFERRED = 2


class Objective(NamedTuple):
    """Whether forces are its aim, or torques; and which they are to be near to, zero where there are none."""

    of_forces: bool
    near: Near


OBJECTIVES = {
    Selection.TORQUE: Objective(False, Near.ZERO),
    Selection.TORQUE_CHANGE: Objective(False, Near.LAST),
    Selection.IMPULSE_CHANGE: Objective(True, Near.LAST),
    Selection.FORCE: Objective(True, Near.PREFERRED),
}
"""A new one is a member of `Selection` and a row here."""


@compiled
def aim_at_forces(force: Array, given: Given, target: Array) -> None:
    """Fill rows S, T, N for each contact [N] (3n) with forces in the world [N] (n, 3) or none (0, 3); zero where they are not
    finite."""
    in_contact_rows(force, given.tangents, given.normals, 1.0, target)
    if len(force) == 0 or not finite(target):
        target[:] = 0.0
