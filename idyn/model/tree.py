"""The parts of a robot, read from Pinocchio's model: joints, limits, bodies, and places of contacts, boxes and closures."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from idyn.errors import FrameNotFound, InputError, nearest
from idyn.model.description import Box, Closure, ContactPoint, Description
from idyn.types import Array, Record


def parts(placements: Array) -> tuple[Array, Array]:
    """Return rotations (njoints, 3, 3) and origins (njoints, 3) of placements (njoints, 12)."""
    return placements[:, :9].reshape(-1, 3, 3).transpose(0, 2, 1), placements[:, 9:]


def memory(array: Array) -> memoryview:
    """Return the memory of a contiguous array."""
    return memoryview(array.data).cast("B")


def address(view: Array) -> int:
    """Return the address of an array's first element."""
    return int(view.__array_interface__["data"][0])


def placements_of(data: Any) -> Array:
    """Return a view of the joint placements of a `pin.Data` (njoints, 12), see `idyn.types.Kinematics`."""
    n, first = len(data.oMi), data.oMi[0].rotation
    stride = address(data.oMi[1].rotation) - address(first)
    placements = np.lib.stride_tricks.as_strided(first.T, (n, 12), (stride, 8))
    for seen, own in zip(parts(placements), ("rotation", "translation"), strict=True):
        assert all(address(getattr(data.oMi[i], own)) == address(seen[i]) for i in range(n))
    assert placements.flags.c_contiguous
    return placements


UNIT_PARTS = {"JointModelFreeFlyer": 4, "JointModelPlanar": 2}
"""Number of the positions at the end of a joint's part of q that form a unit vector: a quaternion, or cos and sin."""


class Tree(Record, frozen=True):
    """The tree of joints, from the environment (joint 0) outwards, and the degrees of freedom."""

    parents: Array  # parent of each joint (njoints)
    dof_joint: Array  # joint of each velocity (nv)
    dof_names: tuple[str, ...]  # names of the velocities, see `Description` (nv)
    support: Array  # whether a velocity (column) moves a joint (row) (njoints, nv)
    # a, u: indices of the actuated (na) and unactuated (nu) velocities
    a: Array
    u: Array
    q_index: Array  # index in q of the position of each actuated degree of freedom; −1 for joints with several of them (na)
    unit_spans: Array  # start and end in q of unit vectors: quaternions xyzw, and (cos, sin) of planar joints (·, 2)


class Limits(Record, frozen=True):
    """Limits of the actuated degrees of freedom: tau_max [N·m], v_max [rad/s], q_min and q_max [rad] (na); ±inf: unlimited."""

    tau_max: Array
    v_max: Array
    q_min: Array
    q_max: Array


class Stops(Record, frozen=True):
    """Stops of the joints of one axis without a motor. rows: of these joints among the unactuated velocities; q: index of their
    positions in q; low, high: ranges [rad, m] (n)"""

    rows: Array
    q: Array
    low: Array
    high: Array


class Bodies(Record, frozen=True):
    """The bodies of a model, one for each joint; index 0 is the environment with all links fixed to it."""

    masses: Array  # [kg] (njoints)
    centres: Array  # centres of mass in the joint frames [m] (njoints, 3)
    inertias: Array  # about the centres of mass, along the axes of the joint frames [kg·m²] (njoints, 3, 3)
    armature: Array  # added to the diagonal of M [kg·m²] (nv)
    gravity: Array  # acceleration in the world [m/s²] (3)


def read_tree(model: Any, description: Description) -> Tree:
    """Return the tree of a `pin.Model`. Raises InputError for unknown names in `actuated` and `unactuated`."""
    names, joints, moving = list(model.names), list(model.joints), range(1, model.njoints)
    several = [names[i] for i in moving if joints[i].nv > 1]
    dof_names = [f"{names[i]}.{k}" if names[i] in several else names[i] for i in moving for k in range(joints[i].nv)]
    dof_joint = np.repeat(np.arange(model.njoints), [0, *(joints[i].nv for i in moving)])
    _check_names("actuated", "joint of several degrees of freedom", description.actuated, several)
    _check_names("unactuated", "joint or degree of freedom", description.unactuated, [*several, *dof_names])
    passive = {*several}.difference(description.actuated).union(description.unactuated)
    a = [k for k, i in enumerate(dof_joint.tolist()) if passive.isdisjoint((names[i], dof_names[k]))]
    supports = [set(model.supports[i].tolist()) for i in range(model.njoints)]
    ends = [(joints[i].idx_q + joints[i].nq, UNIT_PARTS.get(joints[i].shortname(), 0)) for i in moving]
    return Tree(
        parents=np.array(list(model.parents), dtype=np.int64),
        dof_joint=dof_joint,
        dof_names=tuple(dof_names),
        support=np.array([[i in above for i in dof_joint.tolist()] for above in supports], dtype=np.bool_),
        a=np.array(a, dtype=np.int64),
        u=np.setdiff1d(np.arange(model.nv), a),
        q_index=np.array([joints[i].idx_q if joints[i].nv == 1 else -1 for i in dof_joint[a]], dtype=np.int64),
        unit_spans=np.array([(end - size, end) for end, size in ends if size], dtype=np.int64).reshape(-1, 2),
    )


def read_limits(model: Any, tree: Tree, description: Description) -> Limits:
    """Return the limits of the URDF for the actuated degrees of freedom, with efforts replaced by `tau_max`. Joints with
    several degrees of freedom have no position limits. Raises InputError for unknown names in `tau_max`."""
    names = [tree.dof_names[k] for k in tree.a.tolist()]
    tau_max = description.tau_max
    _check_names("tau_max", "actuated joint", tau_max, names)
    effort = np.array(model.upperEffortLimit)[tree.a]
    effort = np.where(effort <= 0, np.inf, effort)
    speed = np.array(model.upperVelocityLimit)[tree.a]
    q_min, q_max = np.array(model.lowerPositionLimit)[tree.q_index], np.array(model.upperPositionLimit)[tree.q_index]
    free = (tree.q_index < 0) | ~(q_min < q_max)
    return Limits(
        tau_max=np.array([tau_max.get(name, own) for name, own in zip(names, effort.tolist(), strict=True)], dtype=np.float64),
        v_max=np.where(speed <= 0, np.inf, speed),
        q_min=np.where(free, -np.inf, q_min),
        q_max=np.where(free, np.inf, q_max),
    )


def read_stops(model: Any, tree: Tree) -> Stops:
    """Return the stops of the URDF for the joints of one axis without a motor."""
    joints = [model.joints[int(tree.dof_joint[k])] for k in tree.u]
    single = [(row, joint.idx_q) for row, joint in enumerate(joints) if joint.nv == joint.nq == 1]
    ranged = [(row, q) for row, q in single if model.lowerPositionLimit[q] < model.upperPositionLimit[q]]
    rows, q = (np.array([each[i] for each in ranged], dtype=np.int64) for i in range(2))
    return Stops(rows=rows, q=q, low=np.array(model.lowerPositionLimit)[q], high=np.array(model.upperPositionLimit)[q])


def rotors(tree: Tree, armature: float | Mapping[str, float]) -> dict[str, float]:
    """Return the non-zero armatures by name of the degree of freedom [kg·m²]. Raises InputError for unknown names and negative
    or infinite values."""
    by_name = armature if isinstance(armature, Mapping) else {tree.dof_names[k]: armature for k in tree.a.tolist()}
    _check_names("armature", "degree of freedom", by_name, tree.dof_names)
    for name, value in by_name.items():
        if not 0 <= value < np.inf:
            raise InputError(f"armature.{name}", f"expected a finite number ≥ 0, got {value}")
    return {name: float(value) for name, value in by_name.items() if value > 0}


def _check_names(field: str, kind: str, names: Iterable[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise InputError(field, f"no {kind} named '{name}'{nearest(name, known)}")


def positions(model: Any, joints: Array) -> Array:
    """Return the indices in q of the positions of some joints."""
    spans = [range(joint.idx_q, joint.idx_q + joint.nq) for joint in (model.joints[i] for i in np.unique(joints).tolist())]
    return np.array([k for span in spans for k in span], dtype=np.int64)


def read_bodies(model: Any) -> Bodies:
    """Return the bodies of a `pin.Model`."""
    inertias = list(model.inertias)
    return Bodies(
        masses=np.array([inertia.mass for inertia in inertias]),
        centres=np.array([inertia.lever for inertia in inertias]),
        inertias=np.array([inertia.inertia for inertia in inertias]),
        armature=np.array(model.armature),
        gravity=np.array(model.gravity.linear),
    )


class Closures(Record, frozen=True):
    """The m closures of a robot."""

    keys: tuple[str, ...]  # names, `first frame=second frame` (m)
    joints: Array  # joint indices of the first and second body (m, 2)
    offsets: Array  # the two points in the frames of these joints [m] (m, 2, 3)


def place_closures(frames: Mapping[str, Any], closures: Sequence[Closure]) -> Closures:
    """Return the closures in the frames of their joints. frames: `pin.Frame` by name

    Raises FrameNotFound, and InputError for frames of the same body and repeated closures.
    """
    for closure in closures:
        for name in (closure.first, closure.second):
            if name not in frames:
                raise FrameNotFound(name, frames)
        if frames[closure.first].parentJoint == frames[closure.second].parentJoint:
            why = f"expected frames of two bodies, got '{closure.second}' on the same body"
            raise InputError(f"closure.{closure.first}", why)
        if closures.count(closure) > 1:
            raise InputError(f"closure.{closure.first}", f"expected different closures, got that with '{closure.second}' twice")
    placed = [(frames[closure.first], frames[closure.second]) for closure in closures]
    return Closures(
        keys=tuple(f"{closure.first}={closure.second}" for closure in closures),
        joints=np.array([[frame.parentJoint for frame in pair] for pair in placed], dtype=np.int64).reshape(-1, 2),
        offsets=np.array([[frame.placement.translation for frame in pair] for pair in placed]).reshape(-1, 2, 3),
    )


class Spheres(Record, frozen=True):
    """The contact places: n spheres, each fixed to a joint."""

    keys: tuple[str, ...]  # contact keys, see `ContactPoint.name` (n)
    joints: Array  # joint indices (n)
    offsets: Array  # centres in the joint frames [m] (n, 3)
    radii: Array  # [m], 0 for points (n)
    mu: Array  # default friction coefficients, may be inf (n)

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
    """The m boxes, and the k pairs of sphere and box that may touch: each sphere with each box on another joint."""

    joints: Array  # joint indices of the boxes (m)
    rotations: Array  # of the boxes in the joint frames (m, 3, 3)
    offsets: Array  # centres in the joint frames [m] (m, 3)
    halves: Array  # half edges [m] (m, 3)
    pairs: Array  # index of the sphere, index of the box (k, 2)
    pair_keys: tuple[str, ...]  # contact keys, `key of the sphere/frame of the box` (k)
    pair_mu: Array  # friction coefficients, those of the boxes (k)


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
        same = sum(other.frame == point.frame and not other.name for other in points[: len(keys)])
        keys.append(f"{point.frame}.{point.name or same}" if point.name or same else point.frame)
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
    pairs = np.ascontiguousarray(np.argwhere(spheres.joints[:, None] != joints))
    return Boxes(
        joints=joints,
        rotations=np.array([frame.placement.rotation for frame, _ in placed]).reshape(-1, 3, 3),
        offsets=np.array([frame.placement.act(offset) for frame, offset in placed]).reshape(-1, 3),
        halves=0.5 * np.array([box.size for box in boxes]).reshape(-1, 3),
        pairs=pairs,
        pair_keys=tuple(f"{spheres.keys[i]}/{boxes[b].frame}" for i, b in pairs.tolist()),
        pair_mu=np.array([boxes[b].mu for b in pairs[:, 1].tolist()], dtype=np.float64),
    )
