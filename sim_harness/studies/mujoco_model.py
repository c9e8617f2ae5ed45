"""The law `mujoco` from a compiled MuJoCo model: contact parameters, joint friction and limits, as MuJoCo itself combines them.

robot = Robot.from_mjcf("robot.xml")
found = read_law(load_model("scene.xml"), robot)
predict(robot, state, contacts, q_ddot, law=found.law.build(), dt=found.timestep)
"""

from copy import copy
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from idyn.contact.soft import SoftContact, SoftJoint, inverse_weights
from idyn.errors import ConfigError
from idyn.laws import MujocoLawSettings
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.mujoco.door import mujoco

FAR = 1e6  # distance at which contacts are found, to see how MuJoCo combines the parameters of two geometries [m]

INTEGRATORS = {
    int(mujoco.mjtIntegrator.mjINT_EULER): "Euler",
    int(mujoco.mjtIntegrator.mjINT_IMPLICITFAST): "implicitfast",
    int(mujoco.mjtIntegrator.mjINT_IMPLICIT): "implicit",
}

SAME = 1e-6  # largest relative difference of inverse weights of the model and of the robot

GAP_WIDENS = (3, 9)
"""Version from which `gap` widens the detection, and does not reduce the distance below which there is a force."""


class ModelLaw(msgspec.Struct, frozen=True):
    """What a model says."""

    law: MujocoLawSettings  # settings of the law; timestep: physics step, the period of predictions [s]
    timestep: float
    friction: dict[str, float]  # friction coefficients of contact spheres, by contact key


def load_model(path: str | Path) -> mujoco.MjModel:
    """Return the compiled model of an MJCF. Raises ConfigError with MuJoCo's reason."""
    try:
        return mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        raise ConfigError("model", f"{path}: MuJoCo cannot compile it ({error})") from error


def read_law(model: mujoco.MjModel, robot: Robot) -> ModelLaw:
    """Return the law of a model that contains the robot; joints have the same names in both.

    Raises ConfigError, naming the element, for what the law does not support, and for a model whose masses are not the robot's.
    """
    _check_options(model)
    joints = {name: _joint_id(model, name) for name in robot.joint_names}
    _check_weights(model, robot, joints)
    contacts, friction = _contacts(model, robot, joints)
    cone = "pyramidal" if model.opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL else "elliptic"
    settings: dict[str, Any] = {"cone": cone, "impratio": float(model.opt.impratio)}
    settings["integrator"] = INTEGRATORS[model.opt.integrator]
    law = MujocoLawSettings(contacts=contacts, joints={name: _joint(model, j) for name, j in joints.items()}, **settings)
    return ModelLaw(law, float(model.opt.timestep), friction)


def _check_options(model: mujoco.MjModel) -> None:
    """Raise ConfigError for options and elements that change the step in ways that the law does not have."""
    option, disabled = model.opt, mujoco.mjtDisableBit
    if option.integrator not in INTEGRATORS:
        known = ", ".join(INTEGRATORS.values())
        raise ConfigError("option.integrator", f"expected {known}, got {mujoco.mjtIntegrator(option.integrator).name}")
    for flag in ("CONTACT", "FRICTIONLOSS", "LIMIT", "GRAVITY", "REFSAFE", "CONSTRAINT", "EULERDAMP"):
        bit = getattr(disabled, f"mjDSBL_{flag}")
        if option.disableflags & bit and not (flag == "EULERDAMP" and not model.dof_damping.any()):
            raise ConfigError("option.flag", f"expected '{flag.lower()}' not to be disabled")
    if option.enableflags & mujoco.mjtEnableBit.mjENBL_OVERRIDE:
        raise ConfigError("option.flag", "expected 'override' not to be enabled")
    unsupported = {
        "option.noslip_iterations": option.noslip_iterations,
        "option.density": option.density,
        "option.viscosity": option.viscosity,
        "equality": model.neq,
        "tendon": model.ntendon,
        "joint.stiffness": model.jnt_stiffness.any(),
        "body.gravcomp": model.body_gravcomp.any(),
    }
    for name, value in unsupported.items():
        if value:
            raise ConfigError(name, "the law 'mujoco' does not support it, expected none")
    if (model.actuator_biastype != mujoco.mjtBias.mjBIAS_NONE).any():
        raise ConfigError("actuator", "expected motors, whose torque does not depend on the state")


def _joint_id(model: mujoco.MjModel, name: str) -> int:
    found = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name)
    if found < 0:
        raise ConfigError("model", f"expected a joint named '{name}', as in the robot")
    return int(found)


def _check_weights(model: mujoco.MjModel, robot: Robot, joints: dict[str, int]) -> None:
    """Raise ConfigError if an inverse weight of a joint differs from that of the robot: other masses, armature or `qpos0`."""
    _, dofs = inverse_weights(robot)
    for (name, j), k in zip(joints.items(), robot.tree.a.tolist(), strict=True):
        own, told = dofs[k], float(model.dof_invweight0[model.jnt_dofadr[j]])
        if abs(own - told) > SAME * told:
            raise ConfigError(
                f"joint.{name}", f"expected the inverse inertia {told:.9g} 1/(kg·m²) of the model, got {own:.9g} of the robot"
            )


def _joint(model: mujoco.MjModel, j: int) -> SoftJoint:
    dof = int(model.jnt_dofadr[j])
    return SoftJoint(
        damping=float(model.dof_damping[dof]),
        frictionloss=float(model.dof_frictionloss[dof]),
        solreffriction=_numbers(model.dof_solref[dof]),
        solimpfriction=_numbers(model.dof_solimp[dof]),
        range=_numbers(model.jnt_range[j]) if model.jnt_limited[j] else None,
        margin=float(model.jnt_margin[j]),
        solreflimit=_numbers(model.jnt_solref[j]),
        solimplimit=_numbers(model.jnt_solimp[j]),
        weight=float(model.dof_invweight0[dof]),
    )


def _contacts(model: mujoco.MjModel, robot: Robot, joints: dict[str, int]) -> tuple[dict[str, SoftContact], dict[str, float]]:
    """Return the contact parameters by frame, and friction coefficients by contact. All contacts of the spheres of a body
    must have the same parameters. Shapes that are no contacts of the robot are left out, as the cylinder of a shank."""
    frames = _frames(model, robot, joints)
    found: dict[str, SoftContact] = {}
    friction: dict[str, float] = {}
    data = _all_contacts(model)
    for c in data.contact[: data.ncon]:
        for geom, other in (c.geom, c.geom[::-1]):
            frame = frames.get(int(model.body_weldid[model.geom_bodyid[geom]]), "")  # of the body with joints that carries it
            if not frame or model.body_weldid[model.geom_bodyid[other]] != 0:
                continue
            own = model.geom(geom).name
            name = ".".join(filter(None, (model.body(model.geom_bodyid[geom]).name, own)))  # see `ContactPoint.name`
            unnamed = not own and model.geom_type[geom] != mujoco.mjtGeom.mjGEOM_SPHERE
            if name not in robot.contact_names or unnamed:  # no sphere, it may have the key of its body's sphere
                continue
            contact = _contact(model, c, name, int(geom))
            if found.setdefault(frame, contact) != contact or friction.setdefault(name, float(c.friction[0])) != c.friction[0]:
                raise ConfigError(f"geom.{name}", f"expected the contact parameters of the other contacts of {frame}")
    return found, friction


def _contact(model: mujoco.MjModel, c: Any, name: str, geom: int) -> SoftContact:
    if model.geom_type[geom] != mujoco.mjtGeom.mjGEOM_SPHERE:
        raise ConfigError(f"geom.{name}", "expected a sphere: other shapes have several contact points")
    if c.friction[0] != c.friction[1] or c.friction[3] != c.friction[4]:
        raise ConfigError(f"geom.{name}.friction", f"expected equal friction along both tangents, got {c.friction}")
    return SoftContact(
        solref=_numbers(c.solref),
        solreffriction=_numbers(c.solreffriction),
        solimp=_numbers(c.solimp),
        margin=float(c.includemargin),
        condim=c.dim,
        spin=float(c.friction[2]),
        roll=float(c.friction[3]),
        weight=float(model.body_invweight0[model.geom_bodyid[geom], 0]),
    )


def _all_contacts(model: mujoco.MjModel) -> mujoco.MjData:
    """Return data at `qpos0` with the contacts of all geometries that may touch, however far apart they are."""
    wide, version = copy(model), tuple(int(part) for part in mujoco.__version__.split(".")[:2])
    for kind in ("geom", "pair"):
        getattr(wide, f"{kind}_gap")[:] += FAR
        if version < GAP_WIDENS:
            getattr(wide, f"{kind}_margin")[:] += FAR
    wide.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_MIDPHASE  # which ignores gaps
    data = mujoco.MjData(wide)
    mujoco.mj_forward(wide, data)
    return data


def _frames(model: mujoco.MjModel, robot: Robot, joints: dict[str, int]) -> dict[int, str]:
    frames = {int(model.jnt_bodyid[j]): name for name, j in joints.items()}
    free = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
    if robot.floating and len(free):
        frames[int(model.jnt_bodyid[free[0]])] = "root_joint"
    return frames


def _numbers(values: Array) -> Any:
    return tuple(float(value) for value in values)
