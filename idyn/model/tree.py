"""What a model's joints and bodies are: indices, limits, masses; read once from Pinocchio's model."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from idyn.errors import InputError, nearest
from idyn.model.description import Description
from idyn.types import Array, Record

DUMMY_EFFORT = 1e3
"""Effort limits of at least this many N·m (or N) are taken for placeholders: no robot joint of a URDF in use has more."""

UNIT_PARTS = {"JointModelFreeFlyer": 4, "JointModelPlanar": 2}
"""How many of a joint's last positions are of unit length together: a quaternion, or cos and sin."""


class Tree(Record, frozen=True):
    """The joints, from the environment (joint 0) outwards, and their velocities.

    parents: each joint's parent (njoints)
    dof_joint: the joint that each velocity belongs to (nv)
    dof_names: of the velocities, see `Description` (nv)
    support: whether a joint (row) is moved by a velocity (column) (njoints, nv)
    a, u: the actuated and the unactuated velocities (na), (nu)
    q_index: where in q the actuated ones have their positions (na); −1 for those of joints with several
    unit_spans: where in q parts of unit length begin and end: quaternions xyzw, and (cos, sin) of planar joints (·, 2)
    """

    parents: Array
    dof_joint: Array
    dof_names: tuple[str, ...]
    support: Array
    a: Array
    u: Array
    q_index: Array
    unit_spans: Array


class Limits(Record, frozen=True):
    """Of the actuated velocities: tau_max [N·m], v_max [rad/s], q_min and q_max [rad], all (na), inf when unknown."""

    tau_max: Array
    v_max: Array
    q_min: Array
    q_max: Array


class Bodies(Record, frozen=True):
    """What the joints of a model carry; index 0 is the environment with all that is fixed to it.

    masses: [kg] (njoints)
    centres: of mass, in the joints' frames [m] (njoints, 3)
    inertias: about the centres of mass, along the axes of the joints' frames [kg·m²] (njoints, 3, 3)
    armature: what the motors' rotors add to the diagonal of M [kg·m²] (nv)
    gravity: acceleration, in the world frame [m/s²] (3)
    """

    masses: Array
    centres: Array
    inertias: Array
    armature: Array
    gravity: Array


def read_tree(model: Any, description: Description) -> Tree:
    """The tree of a `pin.Model`. Raises InputError for joints and degrees of freedom that it lacks."""
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


def read_limits(model: Any, tree: Tree, tau_max: Mapping[str, float]) -> Limits:
    """The URDF's limits of the actuated degrees of freedom, with some efforts replaced. Those of joints with several have none
    of position. Raises InputError for names of none of them."""
    names = [tree.dof_names[k] for k in tree.a.tolist()]
    _check_names("tau_max", "actuated joint", tau_max, names)
    effort = np.array(model.upperEffortLimit)[tree.a]
    effort = np.where((effort <= 0) | (effort >= DUMMY_EFFORT), np.inf, effort)
    speed = np.array(model.upperVelocityLimit)[tree.a]
    q_min, q_max = np.array(model.lowerPositionLimit)[tree.q_index], np.array(model.upperPositionLimit)[tree.q_index]
    free = (tree.q_index < 0) | ~(q_min < q_max)
    return Limits(
        tau_max=np.array([tau_max.get(name, own) for name, own in zip(names, effort.tolist(), strict=True)], dtype=np.float64),
        v_max=np.where(speed <= 0, np.inf, speed),
        q_min=np.where(free, -np.inf, q_min),
        q_max=np.where(free, np.inf, q_max),
    )


def rotors(tree: Tree, armature: float | Mapping[str, float]) -> dict[str, float]:
    """The armature by name, without those that have none [kg·m²]. Raises InputError."""
    by_name = armature if isinstance(armature, Mapping) else {tree.dof_names[k]: armature for k in tree.a.tolist()}
    _check_names("armature", "degree of freedom", by_name, tree.dof_names)
    for name, value in by_name.items():
        if not 0 <= value < np.inf:
            raise InputError(f"armature.{name}", f"expected a finite number ≥ 0, got {value}")
    return {name: float(value) for name, value in by_name.items() if value > 0}


def _check_names(field: str, what: str, names: Iterable[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise InputError(field, f"no {what} named '{name}'{nearest(name, known)}")


def positions(model: Any, joints: Array) -> Array:
    """Where in q the positions of some joints are."""
    spans = [range(joint.idx_q, joint.idx_q + joint.nq) for joint in (model.joints[i] for i in np.unique(joints).tolist())]
    return np.array([k for span in spans for k in span], dtype=np.int64)


def read_bodies(model: Any) -> Bodies:
    """What the joints of a `pin.Model` carry."""
    inertias = list(model.inertias)
    return Bodies(
        masses=np.array([inertia.mass for inertia in inertias]),
        centres=np.array([inertia.lever for inertia in inertias]),
        inertias=np.array([inertia.inertia for inertia in inertias]),
        armature=np.array(model.armature),
        gravity=np.array(model.gravity.linear),
    )
