"""Parameters of MuJoCo's soft constraints, for the law `mujoco` and its certificate, which have a copy of the formulas each
(MATHEMATICS §3.6). Names and meanings are MuJoCo's: solref = (time constant [s], damping ratio), or (−stiffness, −damping)
if the first one is negative; solimp = (d0, dw, width [m], midpoint, power)."""

from typing import Annotated, Literal

import msgspec
import numpy as np

from idyn.errors import ConfigError, nearest
from idyn.library.records import ArrayRecord, Indices, Matrix
from idyn.model.robot import Robot
from idyn.types import Array

SOLREF, FRICTION_SOLREF, SOLIMP, MARGIN, WEIGHT, CONDIM, SPIN, ROLL, CONTACT = 0, 2, 4, 9, 10, 11, 12, 13, 14
"""Columns of `SoftConstraints.contacts`, and their number. FRICTION_SOLREF: 0 if friction has that of the normal force; WEIGHT:
body_invweight0 [1/kg]; SPIN, ROLL: friction against turning about the normal and about the tangents [m]."""

DAMPING, LOSS, LOSS_SOLREF, LOSS_SOLIMP, LOW, HIGH, LIMIT_MARGIN, LIMIT_SOLREF, LIMIT_SOLIMP, DOF_WEIGHT, DOF = (
    0, 1, 2, 4, 9, 10, 11, 12, 14, 19, 20,
)  # fmt: skip
"""Columns of `SoftConstraints.joints`, and their number. LOSS: friction loss [N·m]; LOW, HIGH: range, ±inf if there is none;
DOF_WEIGHT: dof_invweight0 [1/(kg·m²)]."""

LEAST_FRICTION, MOST_FRICTION = 1e-5, 100.0  # range of friction coefficients; the lower limit is that of MuJoCo

NotNegative = Annotated[float, msgspec.Meta(ge=0)]

Solref = tuple[float, float]
Solimp = tuple[float, float, float, float, float]

USUAL_SOLREF: Solref = (0.02, 1.0)
USUAL_SOLIMP: Solimp = (0.9, 0.95, 0.001, 0.5, 2.0)  # MuJoCo's defaults


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of named parameters, which are MuJoCo's."""


class SoftContact(Parameters, frozen=True):
    """Contact of a body."""

    solref: Solref = USUAL_SOLREF  # (time constant [s], damping ratio), or (−stiffness, −damping) per unit of inverse inertia
    solreffriction: Solref = (0.0, 0.0)  # solref of friction, elliptic cones only; (0, 0): that of the normal force
    solimp: Solimp = USUAL_SOLIMP  # impedance: (smallest, largest, width [m], midpoint, power)
    margin: float = 0.0  # gap below which there is a force [m]
    # 1: without friction; 3: with friction; 4: also against turning about the normal; 6: also about the tangents
    condim: Literal[1, 3, 4, 6] = 3
    # spin, roll: friction against turning about the normal and about the tangents (rolling): largest moment per normal force
    # [m]; the limits of sliding and turning form one cone
    spin: NotNegative = 0.005
    roll: NotNegative = 0.0001
    weight: NotNegative = 0.0  # body_invweight0, translation [1/kg]; 0: computed from the robot at its neutral configuration


class SoftJoint(Parameters, frozen=True):
    """Friction and limits of a joint."""

    damping: NotNegative = 0.0  # viscous friction [N·m·s/rad]
    frictionloss: NotNegative = 0.0  # dry friction [N·m]
    # solreffriction, solimpfriction: solref and solimp of the dry friction
    solreffriction: Solref = USUAL_SOLREF
    solimpfriction: Solimp = USUAL_SOLIMP
    range: tuple[float, float] | None = None  # lowest and highest position [rad], if it is limited
    margin: float = 0.0  # distance from the range below which there is a force [rad]
    # solreflimit, solimplimit: solref and solimp of the range
    solreflimit: Solref = USUAL_SOLREF
    solimplimit: Solimp = USUAL_SOLIMP
    weight: NotNegative = 0.0  # dof_invweight0 [1/(kg·m²)]; 0: computed from the robot at its neutral configuration


class Soft(Parameters, frozen=True):
    """Parameters of the law."""

    cone: Literal["elliptic", "pyramidal"] = "elliptic"  # type of the friction cone
    impratio: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = 1.0  # ratio of frictional to normal impedance
    # the law is the same for `Euler` and `implicitfast`; RK4 is not supported
    integrator: Literal["Euler", "implicitfast", "implicit"] = "Euler"
    contact: SoftContact = SoftContact()  # contact of all bodies that `contacts` does not name
    contacts: dict[str, SoftContact] = {}  # by frame of the robot
    joint: SoftJoint = SoftJoint()  # friction and limits of all actuated joints that `joints` does not name
    joints: dict[str, SoftJoint] = {}  # by joint


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
        for name, value in (("spin", contact.spin), ("roll", contact.roll)):
            if not 0.0 <= value < np.inf:
                raise ConfigError(f"{path}.{name}", f"expected a finite number ≥ 0, got {value}")
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
        expected = "expected a time constant and a damping ratio > 0, or a −stiffness < 0 and a −damping ≤ 0"
        raise ConfigError(path, f"{expected}, got {solref}")


def _check_solimp(path: str, solimp: Solimp) -> None:
    if not (np.isfinite(solimp).all() and min(solimp[:4]) >= 0.0 and solimp[4] >= 1.0):
        raise ConfigError(path, f"expected four finite numbers ≥ 0 and a power ≥ 1, got {solimp}")


class SoftConstraints(ArrayRecord):
    """Parameters for compiled code."""

    # of the body of each joint; a contact has those of its first body, and the sum of both WEIGHT (njoints, CONTACT)
    contacts: Matrix
    joints: Matrix  # of each velocity (nv, DOF)
    q_index: Indices  # position in q of each velocity, −1 for unactuated ones (nv)
    pyramidal: bool  # whether friction cones are pyramids
    impratio: float  # ratio of frictional to normal impedance
    implicit: bool  # whether the step is also implicit in the bias forces: integrator `implicit` of MuJoCo
    resists: bool  # whether a joint has damping, friction loss or a range
    damped: bool  # whether a joint has damping, in which every step is implicit
    turns: bool  # whether there is a contact with friction against turning, condim 4 or 6

    def __init__(
        self, contacts: Array, joints: Array, q_index: Array, *, pyramidal: bool, impratio: float, implicit: bool
    ) -> None:
        self.put(contacts=contacts, joints=joints, q_index=q_index)
        self.put(pyramidal=pyramidal, impratio=impratio, implicit=implicit)
        resists = joints[:, [DAMPING, LOSS]].any() or np.isfinite(joints[:, [LOW, HIGH]]).any()
        self.put(resists=bool(resists), damped=bool(joints[:, DAMPING].any()))
        self.put(turns=bool((contacts[:, CONDIM] > 3).any()))


NO_CONSTRAINTS = SoftConstraints(
    np.zeros((0, CONTACT)), np.zeros((0, DOF)), np.zeros(0, np.int64), pyramidal=False, impratio=1.0, implicit=False
)
"""Placeholder for other laws."""


def constraints_of(soft: Soft | None, robot: Robot) -> SoftConstraints:
    """Return the tables of a law's parameters for a robot; empty ones without parameters.

    Raises ConfigError for an unknown frame or joint, and for a robot that is not supported: with closed chains, or with
    actuated joints of several degrees of freedom.
    """
    if soft is None:
        return NO_CONSTRAINTS
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
    kind = {"pyramidal": soft.cone == "pyramidal", "implicit": soft.integrator == "implicit"}
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
        for three in (slice(first, first + 3), slice(first + 3, first + 6)):
            dofs[three] = dofs[three].mean()
    return bodies, dofs
