"""What a choice of forces is to come near to: a table of objectives ½‖τ − target‖² or ½‖f − target‖²."""

from collections.abc import Callable
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


Wanted = Callable[[Array | None, Array | None, Array | None], Array | None]


class Objective(NamedTuple):
    """Whether forces are its aim, or torques; and which they are to be near to, of the last torques [N·m] (na), the last forces
    of today's contacts and the preferred ones in the world [N] (n, 3), each None where there are none; None: zero. In a batch
    each has a row for each member."""

    of_forces: bool
    wanted: Wanted


def _nothing(_tau: Array | None, _force: Array | None, _preferred: Array | None) -> None:
    return None


def _last_torque(tau: Array | None, _force: Array | None, _preferred: Array | None) -> Array | None:
    return tau


def _last_force(_tau: Array | None, force: Array | None, _preferred: Array | None) -> Array | None:
    return force


def _preferred_force(_tau: Array | None, _force: Array | None, preferred: Array | None) -> Array | None:
    return preferred


OBJECTIVES = {
    Selection.TORQUE: Objective(False, _nothing),
    Selection.TORQUE_CHANGE: Objective(False, _last_torque),
    Selection.IMPULSE_CHANGE: Objective(True, _last_force),
    Selection.FORCE: Objective(True, _preferred_force),
}
"""A new one is a member of `Selection` and a row here."""


@compiled
def aim_at_forces(force: Array, given: Given, target: Array) -> None:
    """Fill rows S, T, N for each contact [N] (3n) with forces in the world [N] (n, 3) or none (0, 3); zero where they are not
    finite."""
    in_contact_rows(force, given.tangents, given.normals, 1.0, target)
    if len(force) == 0 or not finite(target):
        target[:] = 0.0
