"""Parameters of the law `mujoco`: by name, and as the tables of a robot that kernel and certificate use."""

from typing import Annotated, Literal

import msgspec
import numpy as np

from idyn.contact.soft import CONTACT, DOF, SoftConstraints
from idyn.errors import ConfigError, nearest
from idyn.model.robot import Robot
from idyn.types import Array

NotNegative = Annotated[float, msgspec.Meta(ge=0)]

Solref = tuple[float, float]
Solimp = tuple[float, float, float, float, float]

SOLREF: Solref = (0.02, 1.0)
SOLIMP: Solimp = (0.9, 0.95, 0.001, 0.5, 2.0)
"""MuJoCo's defaults."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of named parameters, which are MuJoCo's."""


class SoftContact(Parameters, frozen=True):
    """Contact of a body.

    solref: (time constant [s], damping ratio), or (−stiffness, −damping) per unit of inverse inertia
    solreffriction: solref of friction, elliptic cones only; (0, 0): that of the normal force
    solimp: impedance: (smallest, largest, width [m], midpoint, power)
    margin: gap below which there is a force [m]
    condim: 3: with friction, 1: without
    weight: body_invweight0, translation [1/kg]; 0: computed from the robot at its neutral configuration
    """

    solref: Solref = SOLREF
    solreffriction: Solref = (0.0, 0.0)
    solimp: Solimp = SOLIMP
    margin: float = 0.0
    condim: Literal[1, 3] = 3
    weight: NotNegative = 0.0


class SoftJoint(Parameters, frozen=True):
    """Friction and limits of a joint.

    damping: viscous friction [N·m·s/rad]; frictionloss: dry friction [N·m]
    solreffriction, solimpfriction: solref and solimp of the dry friction
    range: lowest and highest position [rad], if it is limited
    margin: distance from the range below which there is a force [rad]
    solreflimit, solimplimit: solref and solimp of the range
    weight: dof_invweight0 [1/(kg·m²)]; 0: computed from the robot at its neutral configuration
    """

    damping: NotNegative = 0.0
    frictionloss: NotNegative = 0.0
    solreffriction: Solref = SOLREF
    solimpfriction: Solimp = SOLIMP
    range: tuple[float, float] | None = None
    margin: float = 0.0
    solreflimit: Solref = SOLREF
    solimplimit: Solimp = SOLIMP
    weight: NotNegative = 0.0


class Soft(msgspec.Struct, frozen=True):
    """Parameters of the law.

    contact: of all bodies that `contacts` does not name; contacts: by frame, see `Robot.joint_of_frame`
    joint: of all actuated joints that `joints` does not name; joints: by joint
    """

    contact: SoftContact = SoftContact()
    contacts: dict[str, SoftContact] = {}
    joint: SoftJoint = SoftJoint()
    joints: dict[str, SoftJoint] = {}
    pyramidal: bool = False
    impratio: float = 1.0


def check(soft: Soft) -> None:
    """Raise ConfigError for values that MuJoCo does not accept."""
    if not 0.0 < soft.impratio < np.inf:
        raise ConfigError("law.impratio", f"expected a finite number > 0, got {soft.impratio}")
    contacts = {"law.contact": soft.contact} | {f"law.contacts.{name}": each for name, each in soft.contacts.items()}
    for path, contact in contacts.items():
        _check_solref(f"{path}.solref", contact.solref)
        if contact.solreffriction != (0.0, 0.0):
            _check_solref(f"{path}.solreffriction", contact.solreffriction)
        _check_solimp(f"{path}.solimp", contact.solimp)
    joints = {"law.joint": soft.joint} | {f"law.joints.{name}": each for name, each in soft.joints.items()}
    for path, joint in joints.items():
        _check_solref(f"{path}.solreffriction", joint.solreffriction)
        _check_solref(f"{path}.solreflimit", joint.solreflimit)
        _check_solimp(f"{path}.solimpfriction", joint.solimpfriction)
        _check_solimp(f"{path}.solimplimit", joint.solimplimit)
        if joint.range is not None and not joint.range[0] < joint.range[1]:
            raise ConfigError(f"{path}.range", f"expected two increasing numbers, got {joint.range}")


def _check_solref(path: str, solref: Solref) -> None:
    first, second = solref
    if not (np.isfinite(solref).all() and ((first > 0.0 and second > 0.0) or (first < 0.0 and second <= 0.0))):
        raise ConfigError(
            path, f"expected a time constant and a damping ratio > 0, or a −stiffness < 0 and a −damping ≤ 0, got {solref}"
        )


def _check_solimp(path: str, solimp: Solimp) -> None:
    if not (np.isfinite(solimp).all() and min(solimp[:4]) >= 0.0 and solimp[4] >= 1.0):
        raise ConfigError(path, f"expected four finite numbers ≥ 0 and a power ≥ 1, got {solimp}")


def tables(soft: Soft, robot: Robot) -> SoftConstraints:
    """Return the tables for a robot.

    Raises ConfigError for an unknown frame or joint, and for a robot that is not supported: with closed chains, or with
    actuated joints of several degrees of freedom.
    """
    if robot.closures.keys:
        raise ConfigError("law", "'mujoco' does not support closed chains, whose constraints are soft in MuJoCo")
    if not robot.one_axis_each:
        raise ConfigError("law", "'mujoco' supports actuated joints with one axis only")
    bodies, dofs = inverse_weights(robot)
    contacts = np.array([_contact_row(soft.contact, weight) for weight in bodies])
    for name, contact in soft.contacts.items():
        joint = robot.joint_of_frame(name)
        contacts[joint] = _contact_row(contact, bodies[joint])
    unknown = set(soft.joints) - set(robot.joint_names)
    if unknown:
        name = min(unknown)
        raise ConfigError(f"law.joints.{name}", f"no actuated joint of that name{nearest(name, robot.joint_names)}")
    joints = np.array([_joint_row(SoftJoint(), weight) for weight in dofs]).reshape(robot.nv, DOF)
    q_index = np.full(robot.nv, -1)
    for name, j, at in zip(robot.joint_names, robot.tree.a.tolist(), robot.tree.q_index.tolist(), strict=True):
        joints[j], q_index[j] = _joint_row(soft.joints.get(name, soft.joint), dofs[j]), at
    return SoftConstraints(contacts, joints, q_index, pyramidal=soft.pyramidal, impratio=soft.impratio)


def _contact_row(c: SoftContact, weight: float) -> Array:
    row = np.array([*c.solref, *c.solreffriction, *c.solimp, c.margin, c.weight or weight, c.condim], dtype=np.float64)
    assert len(row) == CONTACT
    if not weight:
        row[10] = 0.0  # static bodies
    return row


def _joint_row(j: SoftJoint, weight: float) -> Array:
    low, high = j.range or (-np.inf, np.inf)
    friction = (j.damping, j.frictionloss, *j.solreffriction, *j.solimpfriction)
    return np.array([*friction, low, high, j.margin, *j.solreflimit, *j.solimplimit, j.weight or weight])


def inverse_weights(robot: Robot) -> tuple[Array, Array]:
    """Return MuJoCo's body_invweight0 of the translation of each joint's body (njoints) and dof_invweight0 (nv), at the neutral
    configuration without constraints.

    body: mean of the diagonal of J M⁻¹ Jᵀ at the centre of mass [1/kg]; degree of freedom: that of M⁻¹, for a free joint the
    mean of its three translations and of its three rotations
    """
    twin, neutral = robot.twin(), robot.neutral()
    kinematics = twin.terms(neutral, np.zeros(robot.nv))
    rotations, origins = twin.place(neutral)
    inverse = np.linalg.inv(kinematics.M)
    bodies = np.zeros(len(robot.tree.parents))
    for i in range(1, len(bodies)):
        centre = origins[i] + rotations[i] @ robot.bodies.centres[i]
        columns = kinematics.axes[:, :3] + np.cross(kinematics.axes[:, 3:], centre)
        J = (columns * robot.tree.support[i][:, None]).T
        bodies[i] = np.trace(J @ inverse @ J.T) / 3.0
    dofs = np.diag(inverse).copy()
    for j in np.flatnonzero(np.bincount(robot.tree.dof_joint, minlength=len(bodies)) == 6).tolist():
        first = int(np.searchsorted(robot.tree.dof_joint, j))
        dofs[first : first + 3], dofs[first + 3 : first + 6] = (
            dofs[first : first + 3].mean(),
            dofs[first + 3 : first + 6].mean(),
        )
    return bodies, dofs
