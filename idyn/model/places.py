"""Contact places and boxes of a robot in the frames of their joints, and the pairs that may touch."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from idyn.errors import FrameNotFound, InputError
from idyn.model.description import Closure, ContactPoint
from idyn.model.shapes import Box
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


class Spheres(Record, frozen=True):
    """The contact places: n spheres, each fixed to a joint.

    keys: contact keys, see `ContactPoint.name` (n)
    joints: joint indices (n)
    offsets: centres in the joint frames [m] (n, 3)
    radii: [m], 0 for points (n)
    mu: default friction coefficients, may be inf (n)
    """

    keys: tuple[str, ...]
    joints: Array
    offsets: Array
    radii: Array
    mu: Array

    def rows(self, keys: tuple[str, ...]) -> Array:
        """Return the index of the contact place with each key, −1 if there is none (n)."""
        return _rows(self.keys, keys)

    def among(self, keys: tuple[str, ...]) -> "Spheres":
        """Return the places with these keys, in the order of `keys`; keys without a place are ignored."""
        return self if keys == self.keys else _among(self, keys)


@lru_cache(maxsize=1024)
def _rows(places: tuple[str, ...], keys: tuple[str, ...]) -> Array:
    rows = np.array([places.index(key) if key in places else -1 for key in keys], dtype=np.int64)
    rows.flags.writeable = False  # shared by all callers
    return rows


@lru_cache(maxsize=1024)
def _among(spheres: Spheres, keys: tuple[str, ...]) -> Spheres:
    rows = [spheres.keys.index(key) for key in keys if key in spheres.keys]
    return Spheres(
        keys=tuple(spheres.keys[i] for i in rows),
        joints=spheres.joints[rows],
        offsets=spheres.offsets[rows],
        radii=spheres.radii[rows],
        mu=spheres.mu[rows],
    )


class Boxes(Record, frozen=True):
    """The m boxes, and the k pairs of sphere and box that may touch: each sphere with each box that is fixed to another joint.

    joints: joint indices of the boxes (m)
    rotations: of the boxes in the joint frames (m, 3, 3)
    offsets: centres in the joint frames [m] (m, 3)
    halves: half edges [m] (m, 3)
    pairs: index of the sphere, index of the box (k, 2)
    pair_keys: contact keys, `key of the sphere/frame of the box` (k)
    pair_mu: friction coefficients, those of the boxes (k)
    """

    joints: Array
    rotations: Array
    offsets: Array
    halves: Array
    pairs: Array
    pair_keys: tuple[str, ...]
    pair_mu: Array


def place_spheres(frames: Mapping[str, Any], points: Sequence[ContactPoint]) -> Spheres:
    """Return the contact places in the frames of their joints. frames: `pin.Frame` by name

    Raises FrameNotFound, and InputError for a frame that does not move, radius, mu or name.
    """
    keys: list[str] = []
    for point in points:
        if point.frame not in frames:
            raise FrameNotFound(point.frame, frames)
        if frames[point.frame].parentJoint == 0:
            raise InputError(f"contact.{point.frame}", "expected a frame of a moving link, got one that is fixed to the world")
        if point.radius < 0 or not point.mu >= 0:
            field = "radius" if point.radius < 0 else "mu"
            raise InputError(f"contact.{point.frame}.{field}", f"expected ≥ 0, got {getattr(point, field)}")
        keys.append(_key(point, points[: len(keys)]))
        if keys[-1] in keys[:-1]:
            raise InputError(f"contact.{point.frame}.name", f"expected different keys, got '{keys[-1]}' twice")
    placed = [(frames[point.frame], np.array(point.offset)) for point in points]
    return Spheres(
        keys=tuple(keys),
        joints=np.array([frame.parentJoint for frame, _ in placed], dtype=np.int64),
        offsets=np.array([frame.placement.act(offset) for frame, offset in placed], dtype=np.float64).reshape(-1, 3),
        radii=np.array([point.radius for point in points], dtype=np.float64),
        mu=np.array([point.mu for point in points], dtype=np.float64),
    )


def _key(point: ContactPoint, before: Sequence[ContactPoint]) -> str:
    if point.name:
        return f"{point.frame}.{point.name}"
    same = sum(other.frame == point.frame and not other.name for other in before)
    return f"{point.frame}.{same}" if same else point.frame


def place_boxes(frames: Mapping[str, Any], boxes: Sequence[Box], spheres: Spheres) -> Boxes:
    """Return the boxes in the frames of their joints, and their pairs with `spheres`. frames: `pin.Frame` by name

    Raises FrameNotFound, and InputError for size or mu.
    """
    for box in boxes:
        if min(box.size) <= 0 or not box.mu >= 0:
            field, expected = ("size", "> 0") if min(box.size) <= 0 else ("mu", "≥ 0")
            raise InputError(f"box.{box.frame}.{field}", f"expected {expected}, got {getattr(box, field)}")
        if box.frame not in frames:
            raise FrameNotFound(box.frame, frames)
    placed = [(frames[box.frame], np.array(box.offset)) for box in boxes]
    joints = np.array([frame.parentJoint for frame, _ in placed], dtype=np.int64)
    pairs = np.argwhere(spheres.joints[:, None] != joints)
    return Boxes(
        joints=joints,
        rotations=np.array([frame.placement.rotation for frame, _ in placed]).reshape(-1, 3, 3),
        offsets=np.array([frame.placement.act(offset) for frame, offset in placed]).reshape(-1, 3),
        halves=0.5 * np.array([box.size for box in boxes]).reshape(-1, 3),
        pairs=pairs,
        pair_keys=tuple(f"{spheres.keys[i]}/{boxes[b].frame}" for i, b in pairs.tolist()),
        pair_mu=np.array([boxes[b].mu for b in pairs[:, 1].tolist()], dtype=np.float64),
    )
