"""What a choice of forces is to come near to."""

from typing import NamedTuple

from idyn.types import Array


class Aim(NamedTuple):
    """target: of τ [N·m] (na), or of the contact forces when `of_forces` [N] (3n)
    inside: friction within the real cones, where the law's own has no bounds, at no more torque than the law's own impulses
    """

    target: Array
    of_forces: bool
    inside: bool
