"""Where a robot may touch: spheres and boxes in their joints' frames, and which of them may meet."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from idyn.errors import FrameNotFound, InputError
from idyn.model.description import ContactPoint
from idyn.model.shapes import Box
from idyn.types import Array, Record


class Spheres(Record, frozen=True):
    """The contact places, n spheres, each fixed to a joint.

    keys: their names, see `ContactPoint.name` (n)
    joints: (n)
    offsets: centres in the joints' frames [m] (n, 3)
    radii: [m], 0 for points (n)
    mu: friction coefficients unless contacts bring their own, may be inf (n)
    """

    keys: tuple[str, ...]
    joints: Array
    offsets: Array
    radii: Array
    mu: Array

    def rows(self, keys: tuple[str, ...]) -> Array:
        """Which of the places the contacts with these names have, −1 for those that are elsewhere (n)."""
        return _rows(self.keys, keys)

    def among(self, keys: tuple[str, ...]) -> "Spheres":
        """The places that have these names, in their order."""
        return self if keys == self.keys else _among(self, keys)


@lru_cache(maxsize=1024)
def _rows(places: tuple[str, ...], keys: tuple[str, ...]) -> Array:
    rows = np.array([places.index(key) if key in places else -1 for key in keys], dtype=np.int64)
    rows.flags.writeable = False  # all who ask get it
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
    """The boxes, m of them, and the pairs that may meet: each sphere with each box of another joint, k pairs.

    joints: of the boxes (m)
    rotations: of the boxes in their joints' frames (m, 3, 3)
    offsets: centres in the joints' frames [m] (m, 3)
    halves: half edges [m] (m, 3)
    pairs: a sphere and a box (k, 2)
    pair_keys: names of the pairs, `sphere/frame of the box` (k)
    pair_mu: friction coefficients of the pairs, the boxes' own (k)
    """

    joints: Array
    rotations: Array
    offsets: Array
    halves: Array
    pairs: Array
    pair_keys: tuple[str, ...]
    pair_mu: Array


def place_spheres(frames: Mapping[str, Any], points: Sequence[ContactPoint]) -> Spheres:
    """Contact points in their joints' frames; `frames`: `pin.Frame` by name. Raises FrameNotFound, InputError."""
    keys: list[str] = []
    for point in points:
        if point.frame not in frames:
            raise FrameNotFound(point.frame, frames)
        if point.radius < 0 or not point.mu >= 0:
            field = "radius" if point.radius < 0 else "mu"
            raise InputError(f"contact.{point.frame}.{field}", f"expected ≥ 0, got {getattr(point, field)}")
        keys.append(_key(point, points[: len(keys)]))
        if keys[-1] in keys[:-1]:
            raise InputError(f"contact.{point.frame}.name", f"expected one of its own, got '{keys[-1]}' twice")
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
    """Boxes in their joints' frames, and what of `spheres` may meet them. Raises FrameNotFound, InputError."""
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
