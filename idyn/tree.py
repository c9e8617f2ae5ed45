"""What a model's joints and bodies are: indices, limits, masses; read once from Pinocchio's model."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from idyn.description import Description
from idyn.errors import InputError, nearest
from idyn.types import Array, Record

DUMMY_EFFORT = 1e3
"""Effort limits of at least this many N·m (or N) are taken for placeholders: no robot joint of a URDF in use has more."""


class Tree(Record, frozen=True):
    """The joints, from the environment (joint 0) outwards, and their velocities.

    parents: each joint's parent (njoints)
    dof_joint: the joint that each velocity belongs to (nv)
    support: whether a joint (row) is moved by a velocity (column) (njoints, nv)
    a, u: the actuated and the unactuated velocities (na), (nu)
    q_index: where in q the actuated ones' joints have their positions (na)
    quaternions: where in q those of the floating base and of free bodies begin (xyzw)
    """

    parents: Array
    dof_joint: Array
    support: Array
    a: Array
    u: Array
    q_index: Array
    quaternions: Array


class Limits(Record, frozen=True):
    """Actuated joints in model order: tau_max [N·m], v_max [rad/s], q_min and q_max [rad], all (na), inf when unknown."""

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


def read_tree(model: Any, unactuated: tuple[str, ...]) -> tuple[Tree, tuple[str, ...]]:
    """The tree of a `pin.Model`, and the names of its actuated joints. Raises InputError for joints that it lacks."""
    names, joints = list(model.names), list(model.joints)
    for name in unactuated:
        if name not in names:
            raise InputError("unactuated", f"no joint named '{name}'{nearest(name, names)}")
    moving = range(1, model.njoints)
    driven = [i for i in moving if joints[i].nv == 1 and names[i] not in unactuated]
    a = np.array([joints[i].idx_v for i in driven], dtype=np.int64)
    dof_joint = np.repeat(np.arange(model.njoints), [0, *(joints[i].nv for i in moving)])
    supports = [set(model.supports[i].tolist()) for i in range(model.njoints)]
    tree = Tree(
        parents=np.array(list(model.parents), dtype=np.int64),
        dof_joint=dof_joint,
        support=np.array([[j in above for j in dof_joint.tolist()] for above in supports], dtype=np.bool_),
        a=a,
        u=np.setdiff1d(np.arange(model.nv), a),
        q_index=np.array([joints[i].idx_q for i in driven], dtype=np.int64),
        quaternions=np.array([joints[i].idx_q + 3 for i in moving if joints[i].nq == 7], dtype=np.int64),
    )
    return tree, tuple(names[i] for i in driven)


def read_limits(model: Any, tree: Tree, names: tuple[str, ...], tau_max: Mapping[str, float]) -> Limits:
    """The URDF's limits of the actuated joints, which are called `names` (na), with some efforts replaced. Raises InputError
    for joints that are none of them."""
    for name in tau_max:
        if name not in names:
            raise InputError("tau_max", f"no actuated joint named '{name}'{nearest(name, names)}")
    effort = np.array(model.upperEffortLimit)[tree.a]
    effort = np.where((effort <= 0) | (effort >= DUMMY_EFFORT), np.inf, effort)
    speed = np.array(model.upperVelocityLimit)[tree.a]
    q_min, q_max = np.array(model.lowerPositionLimit)[tree.q_index], np.array(model.upperPositionLimit)[tree.q_index]
    free = ~(q_min < q_max)
    return Limits(
        tau_max=np.array([tau_max.get(name, own) for name, own in zip(names, effort.tolist(), strict=True)], dtype=np.float64),
        v_max=np.where(speed <= 0, np.inf, speed),
        q_min=np.where(free, -np.inf, q_min),
        q_max=np.where(free, np.inf, q_max),
    )


def rotors(model: Any, description: Description, names: tuple[str, ...]) -> dict[str, float]:
    """The armature by joint, without those that have none [kg·m²]; `names`: the actuated joints. Raises InputError."""
    armature = description.armature
    by_joint = armature if isinstance(armature, Mapping) else dict.fromkeys(names, armature)
    movable = [name for name, joint in zip(model.names, model.joints, strict=True) if joint.nv == 1]
    for name, value in by_joint.items():
        if name not in movable:
            raise InputError("armature", f"no joint of one axis named '{name}'{nearest(name, movable)}")
        if not 0 <= value < np.inf:
            raise InputError(f"armature.{name}", f"expected a finite number ≥ 0, got {value}")
    return {name: float(value) for name, value in by_joint.items() if value > 0}


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
