"""A robot as a MuJoCo model: one body per joint, with the placements, axes and inertias of the Pinocchio model.

MuJoCo's URDF reader fuses or omits bodies and adjusts inertias. Only contact points make contact, each with its own plane
(`mujoco_world`), and boxes; on flat ground also the collision shapes, meshes as convex hulls.

Free joints: Pinocchio has position and quaternion xyzw relative to the joint placement, velocities in the body frame; MuJoCo
position and quaternion wxyz relative to the world, linear velocity in the world frame, angular velocity in the body frame.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from idyn.errors import ConfigError
from idyn.model.robot import Robot
from idyn.types import Array, Record
from sim_harness.mujoco.door import mujoco
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.shapes import Shape

FLOOR = "floor"  # name of the plane that the hulls touch


def without_feet(shapes: Sequence[Shape], robot: Robot, feet: Array) -> list[Shape]:
    """Return the shapes that move and are not those of feet: with their centre inside a foot's contact sphere.

    feet: indices of the contact spheres that are feet
    """
    spheres = robot.spheres
    own = [(int(spheres.joints[i]), spheres.offsets[i], spheres.radii[i]) for i in feet]

    def is_foot(shape: Shape) -> bool:
        middle = _middle(shape)
        return any(joint == shape.joint and np.linalg.norm(middle - centre) < radius for joint, centre, radius in own)

    return [shape for shape in shapes if shape.joint and not is_foot(shape)]


def add_hulls(
    spec: mujoco.MjSpec, hulls: Sequence[Shape], body_of: Sequence[str], height: float, settings: MujocoSettings
) -> None:
    """Add the hulls, the floor and their pairs. body_of: names of the bodies of the joints; height: of the floor [m]"""
    spec.worldbody.add_geom(name=FLOOR, type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], pos=[0, 0, height])
    for i, hull in enumerate(hulls):
        add_shape(spec, spec.body(body_of[hull.joint]), HULL.format(i), hull)
        add_pair(spec, HULL.format(i), (HULL.format(i), FLOOR), settings)


def add_shape(spec: mujoco.MjSpec, body: Any, name: str, shape: Shape, **more: Any) -> None:
    """Add a shape to the body of its joint, a mesh as its hull. more: fields of the geom"""
    kinds = mujoco.mjtGeom
    x, y, z, w = shape.placement[3:]
    if shape.mesh is not None:
        spec.add_mesh(name=name, uservert=np.ascontiguousarray(shape.mesh.vertices).ravel().tolist())
        more |= {"type": kinds.mjGEOM_MESH, "meshname": name}
    elif shape.kind == "box":
        more |= {"type": kinds.mjGEOM_BOX, "size": 0.5 * np.array(shape.size)}
    elif shape.kind == "sphere":
        more |= {"type": kinds.mjGEOM_SPHERE, "size": [shape.size[0], 0, 0]}
    else:
        more |= {"type": kinds.mjGEOM_CYLINDER, "size": [shape.size[0], 0.5 * shape.size[1], 0]}
    body.add_geom(name=name, pos=shape.placement[:3], quat=[w, x, y, z], **more)


def add_pair(spec: mujoco.MjSpec, name: str, geoms: tuple[str, str], settings: MujocoSettings, mu: float = 1.0) -> None:
    """Add a pair of geoms that make contact. mu: friction coefficient"""
    spec.add_pair(
        name=name,
        geomname1=geoms[0],
        geomname2=geoms[1],
        condim=settings.condim,
        friction=[mu, mu, settings.spin, settings.roll, settings.roll],
        solref=settings.contact_solref,
        solimp=settings.solimp,
        solreffriction=settings.solreffriction or (0.0, 0.0),
    )


def _middle(shape: Shape) -> Array:
    """Return the middle of a shape in the joint frame [m] (3)."""
    place: Array = shape.placement[:3]
    if shape.mesh is None:
        return place
    ends = shape.mesh.vertices.min(axis=0) + shape.mesh.vertices.max(axis=0)
    return place + _rotation(shape.placement[3:][WXYZ]) @ (0.5 * ends)


POINT = 1e-14  # radius of a contact point without radius [m], because MuJoCo has no point geometries


PLANE, PLACE, PAIR, BOX, HULL = "ground {}", "place {}", "pair {}", "box {}", "hull {}"
"""Names in the model, by number: the ground below a contact point (mocap body and plane), spheres of contact points, pairs of
geometries in the order of `Robot.contact_names`, boxes, collision shapes with their meshes and pairs."""


def body_name(joint: int) -> str:
    return "world" if joint == 0 else f"body {joint}"


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
            linear, angular = axes[columns[0]].reshape(2, 3)
            kind = mujoco.mjtJoint.mjJNT_HINGE if angular.any() else mujoco.mjtJoint.mjJNT_SLIDE
            axis = rotations[i].T @ (angular if angular.any() else linear)
            body.add_joint(type=kind, axis=axis, armature=content.armature[columns[0]])
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


def _add_geometry(spec: mujoco.MjSpec, robot: Robot, settings: MujocoSettings) -> None:
    """Add contact spheres with a plane each, boxes, and the pairs of geometries that may touch."""
    kinds = mujoco.mjtGeom
    for i, joint in enumerate(robot.spheres.joints):
        spec.body(body_name(joint)).add_geom(
            name=PLACE.format(i),
            type=kinds.mjGEOM_SPHERE,
            pos=robot.spheres.offsets[i],
            size=[max(robot.spheres.radii[i], POINT), 0, 0],
        )
        ground = spec.worldbody.add_body(name=PLANE.format(i), mocap=True)
        ground.add_geom(name=PLANE.format(i), type=kinds.mjGEOM_PLANE, size=[0, 0, 1])
    for i, joint in enumerate(robot.boxes.joints):
        spec.body(body_name(joint)).add_geom(
            name=BOX.format(i),
            type=kinds.mjGEOM_BOX,
            pos=robot.boxes.offsets[i],
            quat=quaternion_of(robot.boxes.rotations[i]),
            size=robot.boxes.halves[i],
        )
    touching = [(PLACE.format(i), PLANE.format(i)) for i in range(len(robot.spheres.keys))]
    touching += [(PLACE.format(i), BOX.format(b)) for i, b in robot.boxes.pairs]
    for row, geoms in enumerate(touching):
        add_pair(spec, PAIR.format(row), geoms, settings)
    for geom in spec.geoms:
        geom.contype = geom.conaffinity = 0  # only the listed pairs make contact


def quaternion_of(rotation: Array) -> Array:
    """Return the quaternion wxyz of a rotation matrix (4)."""
    quaternion = np.empty(4)
    mujoco.mju_mat2Quat(quaternion, np.ascontiguousarray(rotation).ravel())
    return quaternion


WXYZ = [3, 0, 1, 2]  # indices that convert a quaternion xyzw to wxyz


class FreeJoint(Record, frozen=True):
    """Indices of a free joint: q[place] and v[speed] in Pinocchio's, qpos[address] and qvel[dof] in MuJoCo's coordinates."""

    place: slice
    speed: slice
    address: slice
    dof: slice
    rotation: Array  # placement of the joint in the world at neutral q (3, 3)
    inverse: Array  # quaternion wxyz of its transpose (4)
    origin: Array  # position of the joint in the world at neutral q [m] (3)


class Coordinates:
    """Coordinate conversion for one robot and its MuJoCo model.

    dofs: MuJoCo's index of each of Pinocchio's velocities (nv)
    """

    def __init__(self, robot: Robot, model: mujoco.MjModel, joint: Array | None = None) -> None:
        """joint: MuJoCo's joint of each velocity (nv); default: those of a model of `robot_model`"""
        self._robot, self._start, self._nv = robot, np.array(model.qpos0), model.nv
        self._neutral = robot.neutral()
        if joint is None:
            joint = np.array([model.body(body_name(i)).jntadr[0] for i in robot.tree.dof_joint])
        first = np.searchsorted(robot.tree.dof_joint, robot.tree.dof_joint)  # first velocity of the same joint
        self.dofs = model.jnt_dofadr[joint] + np.arange(robot.nv) - first
        free = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE
        self._single = np.flatnonzero(~free)
        self._addresses = model.jnt_qposadr[joint[self._single]]
        starts = [int(d) for d in np.flatnonzero(free & (first == np.arange(robot.nv)))]
        self._places = self._single + np.searchsorted(starts, self._single)  # in q, where a free joint has one more number
        rotations, origins = robot.place(self._neutral)
        self._free = [
            FreeJoint(
                place=slice(quaternion - 3, quaternion + 4),
                speed=slice(d, d + 6),
                address=slice(int(model.jnt_qposadr[joint[d]]), int(model.jnt_qposadr[joint[d]]) + 7),
                dof=slice(int(self.dofs[d]), int(self.dofs[d]) + 6),
                rotation=np.array(rotations[robot.tree.dof_joint[d]]),
                inverse=quaternion_of(rotations[robot.tree.dof_joint[d]].T),
                origin=np.array(origins[robot.tree.dof_joint[d]]),
            )
            for d, quaternion in zip(starts, robot.tree.unit_spans[:, 0].tolist(), strict=True)
        ]

    def to_mujoco(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Return qpos and qvel for (q, v). What is beside the robot is at rest in its reference position."""
        qpos, qvel = self._start.copy(), np.zeros(self._nv)
        qpos[self._addresses] = self._robot.difference(self._neutral, q)[self._single]
        qvel[self.dofs] = v
        for joint in self._free:
            position, quaternion = q[joint.place][:3], q[joint.place][3:][WXYZ]
            qpos[joint.address] = np.concatenate(
                [joint.origin + joint.rotation @ position, _product(quaternion_of(joint.rotation), quaternion)]
            )
            qvel[joint.dof][:3] = _rotation(qpos[joint.address][3:]) @ v[joint.speed][:3]
        return qpos, qvel

    def from_mujoco(self, qpos: Array, qvel: Array) -> tuple[Array, Array]:
        """Return (q, v) for qpos and qvel."""
        q, v = self._neutral.copy(), qvel[self.dofs]
        q[self._places] = qpos[self._addresses]
        for joint in self._free:
            place, pose = q[joint.place], qpos[joint.address]
            place[:3] = (pose[:3] - joint.origin).dot(joint.rotation)
            quaternion = _product(joint.inverse, pose[3:])
            place[3:6], place[6] = quaternion[1:], quaternion[0]
            v[joint.speed][:3] = qvel[joint.dof][:3].dot(_rotation(pose[3:]))
        return q, v


def _product(a: Array, b: Array) -> Array:
    """Return the quaternion product a b (4), all wxyz and contiguous."""
    result = np.empty(4)
    mujoco.mju_mulQuat(result, a, b)
    return result


def _rotation(quaternion: Array) -> Array:
    """Return the rotation matrix of a quaternion wxyz, which is contiguous (3, 3)."""
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, quaternion)
    return matrix.reshape(3, 3)
