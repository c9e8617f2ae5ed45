"""Closures (closed chains): pairs of coincident points of two bodies."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from idyn.errors import FrameNotFound, InputError
from idyn.model.description import Closure
from idyn.types import Array, Record


class Closures(Record, frozen=True):
    """The m closures of a robot.

    keys: names, `first frame=second frame` (m)
    joints: joint indices of the first and second body (m, 2)
    offsets: the two points in the frames of these joints [m] (m, 2, 3)
    """

    keys: tuple[str, ...]
    joints: Array
    offsets: Array


def place_closures(frames: Mapping[str, Any], closures: Sequence[Closure]) -> Closures:
    """Return the closures in the frames of their joints. frames: `pin.Frame` by name

    Raises FrameNotFound, and InputError for frames of the same body and repeated closures.
    """
    for closure in closures:
        for name in (closure.first, closure.second):
            if name not in frames:
                raise FrameNotFound(name, frames)
        if frames[closure.first].parentJoint == frames[closure.second].parentJoint:
            raise InputError(
                f"closure.{closure.first}", f"expected frames of two bodies, got '{closure.second}' on the same body"
            )
        if closures.count(closure) > 1:
            raise InputError(f"closure.{closure.first}", f"expected different closures, got that with '{closure.second}' twice")
    placed = [(frames[closure.first], frames[closure.second]) for closure in closures]
    return Closures(
        keys=tuple(f"{closure.first}={closure.second}" for closure in closures),
        joints=np.array([[frame.parentJoint for frame in pair] for pair in placed], dtype=np.int64).reshape(-1, 2),
        offsets=np.array([[frame.placement.translation for frame in pair] for pair in placed]).reshape(-1, 2, 3),
    )
