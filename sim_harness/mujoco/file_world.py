"""A robot in the world of its own file: shapes, friction, damping, springs and options of the MJCF, or as MuJoCo reads a URDF.

What the controller believes may be wrong here, as on the real robot. Actuators are off: torques act on the joints.
"""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from idyn.errors import ModelError
from idyn.model.build import read_text
from idyn.model.mjcf import Reading, is_mjcf
from idyn.model.robot import Robot
from idyn.model.urdf import ROOT_JOINT, parse_urdf, without_shapes
from idyn.types import Array
from sim_harness.engines.penalty import MU_CAP
from sim_harness.mujoco.door import mujoco
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.mujoco.mujoco_world import MujocoWorld, PlacedContent
from sim_harness.mujoco.robot_model import POINT, Coordinates, add_shape, set_options
from sim_harness.shapes import collision_shapes
from sim_harness.world.bodies import RobotBodies
from sim_harness.world.world import StepResult, nearest

COMPILER = {"fusestatic": "false", "discardvisual": "false", "balanceinertia": "false", "boundmass": "0", "boundinertia": "0"}
"""MuJoCo's settings for the import of a URDF: all links stay, and inertias are those of the file."""

OWN, OTHER = (1, 2), (2, 1)  # MuJoCo's contype and conaffinity of the robot's shapes and of what they touch: not each other
MOST = 64  # largest number of corners of a hull


def urdf_spec(robot: Robot, path: Path) -> tuple[mujoco.MjSpec, list[str]]:
    """Return the bodies of a URDF with their shapes, and sentences about what is not as in the file.

    Raises ModelError for joints or inertias that MuJoCo refuses, ConfigError without the reader of meshes.
    """
    spec, said = _imported(robot, path)
    shapes, lost = collision_shapes(robot, list(path.resolve().parents))
    said += [f"without the mesh {name}, which is not found" for name in lost]
    links = _links(robot)
    mu = _frictions(robot)
    for i, shape in enumerate(shapes):
        if shape.joint in links:
            friction = [mu.get(shape.joint, mu[-1]), 0.005, 1e-4]
            add_shape(spec, spec.body(links[shape.joint]), f"shape {i}", shape, friction=friction, mass=0.0)
    bare = set(robot.spheres.joints.tolist()) - {shape.joint for shape in shapes}
    _add_places(spec, robot, links, bare, mu)
    armature = dict(zip(robot.tree.dof_names, robot.bodies.armature.tolist(), strict=True))
    for joint in spec.joints:  # before compiling: the stiffness of contacts follows from it
        joint.armature = armature[f"{ROOT_JOINT}.0" if joint.name == ROOT_JOINT else joint.name]
    for mesh in spec.meshes:
        mesh.maxhullvert, mesh.inertia = MOST, mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
    for geom in spec.geoms:
        geom.contype, geom.conaffinity = OWN
    if bare:
        said.append(f"without shapes, so that contact places touch: {', '.join(links[joint] for joint in sorted(bare))}")
    return spec, said


def _imported(robot: Robot, path: Path) -> tuple[mujoco.MjSpec, list[str]]:
    """Return the bodies of a URDF without shapes, and what MuJoCo changed in them."""
    text = parse_urdf(without_shapes(robot.description.urdf), str(path))
    joints = {name: joint for joint, name in _links(robot).items()}
    for link in text.findall("link"):
        for inertial in link.findall("inertial"):
            link.remove(inertial)
        if (joint := joints.get(link.get("name", ""), 0)) > 0:
            link.append(_inertial(robot, joint))
    compiler, said = ElementTree.SubElement(ElementTree.SubElement(text, "mujoco"), "compiler", COMPILER), list[str]()
    while True:
        try:
            spec = mujoco.MjSpec.from_string(ElementTree.tostring(text, encoding="unicode"))
            if robot.floating:
                spec.worldbody.first_body().add_freejoint(name=ROOT_JOINT)
            spec.compile()
        except ValueError as error:
            reason = " ".join(str(error).split())
            if said or "balanceinertia" not in reason:
                raise ModelError(f"{path.name}: {reason}") from error
            compiler.set("balanceinertia", "true")
            said.append(f"inertias that no body has are changed to spheres' ({reason.rpartition('Element name ')[2]})")
        else:
            break
    if several := [joint.name for joint in spec.joints if joint.name not in (ROOT_JOINT, *robot.tree.dof_names)]:
        raise ModelError(f"{path.name}: a joint of several degrees of freedom, imported as {', '.join(several)}")
    return spec, said


def _inertial(robot: Robot, joint: int) -> ElementTree.Element:
    """Return the inertia of all links that a joint carries, as an element of the link with its frame."""
    bodies = robot.bodies
    found = ElementTree.Element("inertial")
    ElementTree.SubElement(found, "origin", xyz=" ".join(map(repr, bodies.centres[joint].tolist())))
    ElementTree.SubElement(found, "mass", value=repr(float(bodies.masses[joint])))
    pairs = ((f"i{'xyz'[i]}{'xyz'[k]}", repr(float(bodies.inertias[joint][i, k]))) for i in range(3) for k in range(i, 3))
    ElementTree.SubElement(found, "inertia", dict(pairs))
    return found


def joints_of(robot: Robot, model: mujoco.MjModel) -> Array:
    """Return MuJoCo's joint of each velocity of the robot (nv)."""
    names = [ROOT_JOINT if robot.floating and k < 6 else name for k, name in enumerate(robot.tree.dof_names)]
    return np.array([model.joint(name).id for name in names], dtype=np.int64)


def _links(robot: Robot) -> dict[int, str]:
    """Return the link that each joint carries first, by the joint; 0: the root of a robot that is fixed to the world."""
    text = parse_urdf(robot.description.urdf, robot.name)
    ends = [(joint.get("type"), joint.find("child")) for joint in text.findall("joint")]
    carried = {child.get("link", ""): kind != "fixed" for kind, child in ends if child is not None}
    first = [name for name in robot.frames.links if carried.get(name, True)]  # moved, or the root
    return {robot.frames.attached(name).joint: name for name in first}


def _frictions(robot: Robot) -> dict[int, float]:
    """Return the mean friction of the contact places of each joint, and of all of them as that of −1."""
    values = np.clip([place.mu for place in robot.description.contact], mujoco.mjMINMU, MU_CAP)
    joints = robot.spheres.joints
    found = {int(joint): float(values[joints == joint].mean()) for joint in joints}
    return found | {-1: float(values.mean()) if len(values) else 1.0}


def _add_places(spec: mujoco.MjSpec, robot: Robot, links: dict[int, str], bare: set[int], mu: dict[int, float]) -> None:
    """Add spheres for the contact places of joints that carry no shape. bare: these joints"""
    spheres = robot.spheres
    for joint, offset, radius in zip(spheres.joints.tolist(), spheres.offsets, spheres.radii, strict=True):
        if joint in bare:
            size = [max(radius, POINT), 0.0, 0.0]
            more = {"friction": [mu[joint], 0.005, 1e-4], "mass": 0.0}
            spec.body(links[joint]).add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=size, pos=offset, **more)


FLOOR = "idyn floor"  # name of the floor that is added
CLOSE = 1e-6  # relative difference of two numbers that are not worth a sentence
SHOWN = 4  # names of joints in one sentence
OFF = 2e-3  # height of the shapes of a foot above or below the floor that is worth a sentence [m]


class FileContent(PlacedContent):
    """The robot of a file, and its contact forces at the contact places that the controller knows.

    The force of each contact with the world counts for the nearest place, that on a body without a place also as `beside`.
    Contacts of the robot with itself are no contacts with the ground.
    """

    def __init__(self, bodies: RobotBodies, links: dict[str, int], model: mujoco.MjModel, motors: Array) -> None:
        """links: MuJoCo's bodies of the robot, by the name of the link; motors: MuJoCo's index of the velocity of each actuated
        joint (na)"""
        self.bodies, self.model, self._motors = bodies, model, motors
        roots = model.body_rootid[list(links.values())]
        own = (np.isin(model.body_rootid, roots) & (np.arange(model.nbody) > 0))[model.geom_bodyid]
        frames = bodies.robot.frames
        joints = {name: frames.attached(name).joint for name in frames.links if name in links}
        self._body_of = {joint: links[name] for name, joint in joints.items()}.__getitem__
        placed = [links[name] for name, joint in joints.items() if joint in bodies.robot.spheres.joints]
        self._own, self._placed = own.tolist(), np.isin(model.geom_bodyid, placed).tolist()  # of each of MuJoCo's shapes

    def record_forces(self, data: mujoco.MjData, h: float) -> None:
        """Add the impulses of a physics step at the contact places, on the robot in the world frame [N·s] (·, 3)."""
        points, wrench, found = self._before.points, np.zeros(6), data.contact
        if not len(points):
            return
        places, frames, friction = found.pos, found.frame, found.friction[:, 0].tolist()
        for i, (pair, address) in enumerate(zip(found.geom.tolist(), found.efc_address.tolist(), strict=True)):
            first, second = self._own[pair[0]], self._own[pair[1]]
            if first == second or address < 0:
                continue
            mujoco.mj_contactForce(self.model, data, i, wrench)
            force, row = wrench[:3].dot(frames[i].reshape(3, 3)), nearest(points, places[i])
            self._impulses[row] += h * (force if second else -force)
            self._mu[row] = friction[i]
            if not self._placed[pair[second]]:
                self._beside[row] += h * wrench[0]


def file_world(bodies: RobotBodies, path: Path, height: float) -> tuple[MujocoWorld[RobotBodies, StepResult], list[str]]:
    """Return the world of an MJCF or a URDF, and sentences about what is not as in the file. height: of an added floor [m]

    Raises ModelError for a file that is refused.
    """
    robot, mjcf = bodies.robot, is_mjcf(read_text(path))
    spec, said = (mujoco.MjSpec.from_file(str(path)), []) if mjcf else urdf_spec(robot, path)
    flat = (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD)
    stands = robot.floating or len(robot.spheres.keys) > 0
    if stands and not any(geom.type in flat for geom in spec.geoms):
        more: dict[str, Any] = {} if mjcf else {"friction": [0.0, 0.005, 1e-4]}  # the larger friction of two shapes counts
        more |= {} if mjcf else {"contype": OTHER[0], "conaffinity": OTHER[1]}
        spec.worldbody.add_geom(name=FLOOR, type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], pos=[0.0, 0.0, height], **more)
    settings = MujocoSettings()
    if mjcf:
        settings = MujocoSettings(timestep=float(spec.option.timestep))
    else:
        set_options(spec, settings)
        spec.option.gravity = robot.description.gravity
    try:
        model = spec.compile()
    except ValueError as error:
        raise ModelError(f"{path.name}: {' '.join(str(error).split())}") from error
    if mjcf:
        reading = Reading(path)
        links = {reading.names["body", body]: body for body in reading.bodies}
        joints = reading.joints_of(robot.tree.dof_names)
    else:
        links = {name: model.body(name).id for name in robot.frames.links if name != "world"}
        joints = joints_of(robot, model)
    coordinates = Coordinates(robot, model, joints)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION | mujoco.mjtDisableBit.mjDSBL_AUTORESET
    content = FileContent(bodies, links, model, coordinates.dofs[robot.tree.a])
    return MujocoWorld(content, coordinates, settings), said


def beliefs(bodies: RobotBodies, path: Path, height: float, mu: float | None = None) -> list[str]:
    """Return in which figures the controller's model differs from its file: mass, rotors, limits, resisting joints, friction
    and height of the feet, gravity; and what a world from a URDF lacks. height: of an added floor [m]; mu: that the controller
    believes, default those of the contact places. Raises ModelError as `file_world`."""
    robot, mjcf = bodies.robot, is_mjcf(read_text(path))
    world, found = file_world(bodies, path, height)
    plain = Robot.from_file(path, None if mjcf else robot.description.base)
    if _differ(robot.total_mass, plain.total_mass):
        found.append(f"mass: believed {robot.total_mass:.4g} kg, in the file {plain.total_mass:.4g}")
    own, theirs = robot.description.armature, plain.description.armature
    assert isinstance(own, dict)  # as `Robot` stores it
    assert isinstance(theirs, dict)
    names = [name for name in robot.tree.dof_names if mjcf and _differ(own.get(name, 0.0), theirs.get(name, 0.0))]
    if names:
        shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        values = f"{own.get(names[0], 0.0):.3g} for {theirs.get(names[0], 0.0):.3g} kg·m²"
        found.append(f"rotor inertia: believed {values} ({shown})")
    limits = dict(zip(plain.joint_names, plain.limits.tau_max.tolist(), strict=True))
    for name, limit in zip(robot.joint_names, robot.limits.tau_max.tolist(), strict=True):
        if _differ(limit, limits.get(name, np.inf)):
            found.append(f"torque limit of {name}: believed {limit:g}, in the file {limits.get(name, np.inf):g}")
            break
    resists = {
        "damping": world.model.dof_damping,
        "friction": world.model.dof_frictionloss,
        "springs": world.model.jnt_stiffness,
    }
    if resisting := [f"{name} up to {values.max():.3g}" for name, values in resists.items() if values.any()]:
        found.append(f"joints of the file resist, which the controller does not know: {', '.join(resisting)}")
    if world.model.neq and not mjcf:
        found.append("mimic joints follow their leaders, which the controller does not know")
    theirs_mu = {place.frame: place.mu for place in (plain if mjcf else robot).description.contact}
    feet = [(place, place.mu if mu is None else mu) for place in robot.description.contact if place.frame in theirs_mu]
    if feet := [(place, own_mu) for place, own_mu in feet if _differ(own_mu, theirs_mu[place.frame])]:
        place, own_mu = feet[0]
        found.append(f"friction of {place.frame}: believed {own_mu:g}, in the world {theirs_mu[place.frame]:g}")
    believed, acts = robot.description.gravity, plain.description.gravity
    if mjcf and believed != acts:
        found.append(f"gravity: believed {list(believed)}, in the file {list(acts)} m/s²")
    return found + _heights(world)


def _heights(world: MujocoWorld[RobotBodies, StepResult]) -> list[str]:
    """Return which foot on the floor at the start is farthest from where its shapes in the file touch, if it is by `OFF`."""
    model, data, bodies = world.model, world.data, world.bodies
    mujoco.mj_forward(model, data)
    joints, places = bodies.robot.tree.dof_joint, bodies.robot.spheres.joints
    gaps = bodies.near(bodies.start.q, np.inf).gaps[: len(places)]
    floors = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE)
    moved = model.body_weldid[model.geom_bodyid]  # what is fixed to a body moves with it
    found = []
    for joint in {int(joint) for joint, gap in zip(places, gaps, strict=True) if gap < OFF}:
        body = model.dof_bodyid[world.coordinates.dofs[np.flatnonzero(joints == joint)[0]]]
        own = np.flatnonzero((moved == body) & (model.geom_contype > 0))
        near = [mujoco.mj_geomDistance(model, data, geom, floor, 1.0, None) for geom in own for floor in floors]
        if near and abs(min(near)) > OFF:
            found.append((min(near), model.body(body).name))
    gap, name = max(found, key=lambda each: abs(each[0]), default=(0.0, ""))
    return [f"{name}: its shapes are {1e3 * abs(gap):.0f} mm {'above' if gap > 0 else 'below'} the floor"] if name else []


def _differ(one: float, other: float) -> bool:
    return one != other and not abs(one - other) <= CLOSE * max(abs(one), abs(other))
