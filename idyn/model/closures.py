"""Closed chains: points of two bodies that stay together."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from idyn.errors import FrameNotFound, InputError
from idyn.model.description import Closure
from idyn.types import Array, Record


class Closures(Record, frozen=True):
    """Points that stay together, m pairs.

    keys: their names, `first frame=second frame` (m)
    joints: that carry the first and the second (m, 2)
    offsets: of the points in these joints' frames [m] (m, 2, 3)
    """

    keys: tuple[str, ...]
    joints: Array
    offsets: Array


def place_closures(frames: Mapping[str, Any], closures: Sequence[Closure]) -> Closures:
    """Closures in their joints' frames; `frames`: `pin.Frame` by name. Raises FrameNotFound, InputError."""
    for closure in closures:
        for name in (closure.first, closure.second):
            if name not in frames:
                raise FrameNotFound(name, frames)
        if frames[closure.first].parentJoint == frames[closure.second].parentJoint:
            raise InputError(
                f"closure.{closure.first}", f"expected frames of two bodies, got '{closure.second}' of the same one"
            )
        if closures.count(closure) > 1:
            raise InputError(f"closure.{closure.first}", f"expected once, got it with '{closure.second}' twice")
    placed = [(frames[closure.first], frames[closure.second]) for closure in closures]
    return Closures(
        keys=tuple(f"{closure.first}={closure.second}" for closure in closures),
        joints=np.array([[frame.parentJoint for frame in pair] for pair in placed], dtype=np.int64).reshape(-1, 2),
        offsets=np.array([[frame.placement.translation for frame in pair] for pair in placed]).reshape(-1, 2, 3),
    )
