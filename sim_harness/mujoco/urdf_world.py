"""A URDF in MuJoCo: joints, limits, damping and friction as MuJoCo's own import reads them, with the masses of fixed links
added to the bodies that carry them, and with the collision shapes of the file, meshes as convex hulls.

What a URDF cannot say is that of the controller: rotor inertias and friction. Shapes of the robot do not touch each other, as
in Gazebo: hulls are larger than bodies. A foot without shapes gets its contact places as spheres.
"""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from idyn.errors import ModelError
from idyn.model.robot import Robot
from idyn.model.urdf import ROOT_JOINT, parse_urdf, without_shapes
from idyn.types import Array
from sim_harness.engines.penalty import MU_CAP
from sim_harness.mujoco.door import mujoco
from sim_harness.mujoco.hulls import add_shape
from sim_harness.mujoco.robot_model import POINT
from sim_harness.shapes.shapes import collision_shapes

COMPILER = {"fusestatic": "false", "discardvisual": "false", "balanceinertia": "false", "boundmass": "0", "boundinertia": "0"}
"""MuJoCo's settings for the import of a URDF: all links stay, and inertias are those of the file."""

OWN, OTHER = (1, 2), (2, 1)
"""MuJoCo's contype and conaffinity of the robot's shapes and of what they touch: not each other."""

MOST = 64
"""Largest number of corners of a hull."""


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
