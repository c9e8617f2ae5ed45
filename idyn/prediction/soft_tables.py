"""The parameters of the law `mujoco` as the tables of a robot that kernel and certificate use."""

import numpy as np

from idyn.contact.soft import CONTACT, DOF, NO_CONSTRAINTS, SoftConstraints
from idyn.errors import ConfigError, nearest
from idyn.laws.law import Law
from idyn.laws.mujoco.law import Mujoco, Soft, SoftContact, SoftJoint
from idyn.model.robot import Robot
from idyn.types import Array


def constraints_of(law: Law, robot: Robot) -> SoftConstraints:
    """Return the tables of a law for a robot, empty ones for other laws than `mujoco`. Raises ConfigError, see `tables`."""
    return tables(law.soft, robot) if isinstance(law, Mujoco) else NO_CONSTRAINTS


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
    kind = {"pyramidal": soft.pyramidal, "implicit": soft.implicit}
    return SoftConstraints(contacts, joints, q_index, impratio=soft.impratio, **kind)


def _contact_row(c: SoftContact, weight: float) -> Array:
    friction = (c.condim, c.spin, c.roll)
    row = np.array([*c.solref, *c.solreffriction, *c.solimp, c.margin, c.weight or weight, *friction], dtype=np.float64)
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
