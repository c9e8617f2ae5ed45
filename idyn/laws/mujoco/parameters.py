"""Parameters of the law `mujoco`, by name."""

from typing import Annotated, Literal

import msgspec
import numpy as np

from idyn.errors import ConfigError

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
    condim: 1: without friction; 3: with friction; 4: also against turning about the normal; 6: also about the tangents
    spin, roll: friction against turning about the normal and about the tangents (rolling): largest moment per normal force
        [m]; the limits of sliding and turning form one cone
    weight: body_invweight0, translation [1/kg]; 0: computed from the robot at its neutral configuration
    """

    solref: Solref = SOLREF
    solreffriction: Solref = (0.0, 0.0)
    solimp: Solimp = SOLIMP
    margin: float = 0.0
    condim: Literal[1, 3, 4, 6] = 3
    spin: NotNegative = 0.005
    roll: NotNegative = 0.0001
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
    implicit: whether the integrator is `implicit`
    """

    contact: SoftContact = SoftContact()
    contacts: dict[str, SoftContact] = {}
    joint: SoftJoint = SoftJoint()
    joints: dict[str, SoftJoint] = {}
    pyramidal: bool = False
    impratio: float = 1.0
    implicit: bool = False


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
        raise ConfigError(
            path, f"expected a time constant and a damping ratio > 0, or a −stiffness < 0 and a −damping ≤ 0, got {solref}"
        )


def _check_solimp(path: str, solimp: Solimp) -> None:
    if not (np.isfinite(solimp).all() and min(solimp[:4]) >= 0.0 and solimp[4] >= 1.0):
        raise ConfigError(path, f"expected four finite numbers ≥ 0 and a power ≥ 1, got {solimp}")
