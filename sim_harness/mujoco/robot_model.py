"""A robot as a MuJoCo model: one body per joint, with the placements, axes and inertias of the Pinocchio model.

MuJoCo's URDF reader is not used, because it fuses or omits bodies and adjusts inertias. Only contact points make contact: each
with its own plane, which follows the terrain below it (`sim_harness.mujoco.robot`), and with the boxes of other bodies; and, on
flat ground, the hulls of `sim_harness.mujoco.hulls`.
"""

import re
from collections.abc import Sequence

import numpy as np

from idyn.errors import ConfigError
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.mujoco.door import mujoco
from sim_harness.mujoco.hulls import add_hulls, add_pair
from sim_harness.mujoco.settings import MujocoSettings
from sim_harness.shapes.shapes import Shape

POINT = 1e-14
"""Radius of a contact point without radius [m], because MuJoCo has no point geometries."""


def body_name(joint: int) -> str:
    return "world" if joint == 0 else f"body {joint}"


def plane_name(place: int) -> str:
    """Return the name of the mocap body and of its plane, the ground below a contact point."""
    return f"ground {place}"


def pair_name(row: int) -> str:
    """Return the name of a geometry pair; rows in the order of `Robot.contact_names`, contact points first, then pairs."""
    return f"pair {row}"


def place_name(place: int) -> str:
    return f"place {place}"


def box_name(box: int) -> str:
    return f"box {box}"


def build_model(robot: Robot, settings: MujocoSettings, hulls: Sequence[Shape] = (), floor: float = 0.0) -> mujoco.MjModel:
    """Return the MuJoCo model of a robot. Raises ConfigError for a robot that MuJoCo does not support.

    hulls: shapes that touch the ground too, at the height `floor` [m]
    """
    spec = bodies_of(robot, settings)
    if hulls:
        add_hulls(spec, hulls, [body_name(i) for i in range(len(robot.tree.parents))], floor, settings)
    _add_geometry(spec, robot, settings)
    return compiled_model(spec, robot)


def bodies_of(robot: Robot, settings: MujocoSettings) -> mujoco.MjSpec:
    """Return the bodies and joints without contact geometry. Raises ConfigError for joints that MuJoCo does not support."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    set_options(spec, settings)
    _add_bodies(spec, robot)
    _close_chains(spec, robot, settings)
    return spec


def set_options(spec: mujoco.MjSpec, settings: MujocoSettings) -> None:
    """Set integrator, cone and solver."""
    option = spec.option
    option.cone = getattr(mujoco.mjtCone, f"mjCONE_{settings.cone.upper()}")
    option.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{settings.integrator.upper()}")
    option.impratio = settings.impratio
    option.tolerance = settings.tolerance
    if settings.tolerance < 1e-8:
        option.iterations = option.ls_iterations = 200
    option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET  # a diverging world reports it and is not reset


def compiled_model(spec: mujoco.MjSpec, robot: Robot) -> mujoco.MjModel:
    """Compile the model. Raises ConfigError with MuJoCo's reason when it fails."""
    try:
        return spec.compile()
    except ValueError as error:
        reason = re.sub(r"body (\d+)", lambda found: _link_text(robot, int(found[1])), " ".join(str(error).split()), count=1)
        raise ConfigError(
            "engine", f"'mujoco' cannot compile the model of {robot.name} (see also `idyn check`): {reason}"
        ) from error


def _link_text(robot: Robot, joint: int) -> str:
    """Return what a joint carries, in the user's terms."""
    names = [name for name, own in zip(robot.tree.dof_names, robot.tree.dof_joint.tolist(), strict=True) if own == joint]
    return (
        f"{body_name(joint)} (the links beyond joint {names[0]}, fixed joints merged)" if len(names) == 1 else body_name(joint)
    )


def _add_bodies(spec: mujoco.MjSpec, robot: Robot) -> None:
    """Add one body per joint, placed at the neutral configuration. Raises ConfigError for unsupported joint types."""
    neutral = robot.neutral()
    rotations, origins = robot.place(neutral)
    axes = robot.terms(neutral, np.zeros(robot.nv)).axes
    content = robot.bodies
    spec.option.gravity = content.gravity
    for i in range(1, len(robot.tree.parents)):
        parent = robot.tree.parents[i]
        moments, axes_of_inertia = np.linalg.eigh(content.inertias[i])  # older versions of MuJoCo are accurate to 1e-8 only
        body = spec.body(body_name(parent)).add_body(
            name=body_name(i),
            pos=rotations[parent].T @ (origins[i] - origins[parent]),
            quat=quaternion_of(rotations[parent].T @ rotations[i]),
            mass=content.masses[i],
            ipos=content.centres[i],
            inertia=moments,
            iquat=quaternion_of(axes_of_inertia * np.linalg.det(axes_of_inertia)),
            explicitinertial=True,
        )
        columns = np.flatnonzero(robot.tree.dof_joint == i)
        if len(columns) == 6 and parent == 0 and not np.isin(columns, robot.tree.a).any():
            body.add_freejoint().armature = content.armature[0]
        elif len(columns) == 1:
            _add_axis(body, rotations[i].T, axes[columns[0]], content.armature[columns[0]])
        else:
            raise ConfigError(
                "engine",
                "'mujoco' supports revolute, continuous and prismatic joints and an unactuated floating joint at the world, "
                f"got another type for joint {i} of {robot.name}",
            )


def _close_chains(spec: mujoco.MjSpec, robot: Robot, settings: MujocoSettings) -> None:
    """Add a site at each end of a closure and the constraint that the sites coincide, as stiff as the time step allows."""
    for k, (joints, offsets) in enumerate(zip(robot.closures.joints, robot.closures.offsets, strict=True)):
        ends = [f"closure {k} {side}" for side in ("first", "second")]
        for name, joint, offset in zip(ends, joints, offsets, strict=True):
            spec.body(body_name(joint)).add_site(name=name, pos=offset)
        spec.add_equality(
            type=mujoco.mjtEq.mjEQ_CONNECT,
            objtype=mujoco.mjtObj.mjOBJ_SITE,
            name1=ends[0],
            name2=ends[1],
            solref=[2.0 * settings.timestep, 1.0],
            solimp=[mujoco.mjMAXIMP, mujoco.mjMAXIMP, 0.001, 0.5, 2.0],
        )


def _add_axis(body: mujoco.MjsBody, to_body: Array, axis: Array, armature: float) -> None:
    """Add a hinge or slide to a body.

    to_body: rotation from the world to the body frame (3, 3)
    axis: unit velocity of the joint in the world frame, linear at the world's origin and angular (6)
    """
    linear, angular = axis[:3], axis[3:]
    if angular.any():
        body.add_joint(type=mujoco.mjtJoint.mjJNT_HINGE, axis=to_body @ angular, armature=armature)
    else:
        body.add_joint(type=mujoco.mjtJoint.mjJNT_SLIDE, axis=to_body @ linear, armature=armature)


def _add_geometry(spec: mujoco.MjSpec, robot: Robot, settings: MujocoSettings) -> None:
    """Add contact spheres with a plane each, boxes, and the pairs of geometries that may touch."""
    kinds = mujoco.mjtGeom
    for i, joint in enumerate(robot.spheres.joints):
        spec.body(body_name(joint)).add_geom(
            name=place_name(i),
            type=kinds.mjGEOM_SPHERE,
            pos=robot.spheres.offsets[i],
            size=[max(robot.spheres.radii[i], POINT), 0, 0],
        )
        ground = spec.worldbody.add_body(name=plane_name(i), mocap=True)
        ground.add_geom(name=plane_name(i), type=kinds.mjGEOM_PLANE, size=[0, 0, 1])
    for i, joint in enumerate(robot.boxes.joints):
        spec.body(body_name(joint)).add_geom(
            name=box_name(i),
            type=kinds.mjGEOM_BOX,
            pos=robot.boxes.offsets[i],
            quat=quaternion_of(robot.boxes.rotations[i]),
            size=robot.boxes.halves[i],
        )
    touching = [(place_name(i), plane_name(i)) for i in range(len(robot.spheres.keys))]
    touching += [(place_name(i), box_name(b)) for i, b in robot.boxes.pairs]
    for row, geoms in enumerate(touching):
        add_pair(spec, pair_name(row), geoms, settings)
    for geom in spec.geoms:
        geom.contype = geom.conaffinity = 0  # only the listed pairs make contact


def quaternion_of(rotation: Array) -> Array:
    """Return the quaternion wxyz of a rotation matrix (4)."""
    quaternion = np.empty(4)
    mujoco.mju_mat2Quat(quaternion, np.ascontiguousarray(rotation).ravel())
    return quaternion
