"""URDF text of a scene's bodies, so that a scene is loaded as one robot. Each body without parent is the root of a tree.

The frame of the link of a free or fixed body is the body frame. All other link frames are at the anchor of the last joint,
along the world axes at the reference configuration.
"""

from collections.abc import Sequence
from xml.etree import ElementTree as Xml

import numpy as np
from scipy.spatial.transform import Rotation

from idyn.types import Array, Record
from sim_harness.scenes.bodies.polyhedra import hull_of
from sim_harness.scenes.bodies.settings import BodySettings, JointSettings, Shape

COLOURS = ("0.30 0.47 0.66", "0.95 0.56 0.17", "0.46 0.72 0.70", "0.35 0.63 0.31", "0.93 0.79 0.28", "0.69 0.48 0.63")
FIXED = "0.62 0.65 0.69"

URDF_TYPES = {"slide": "prismatic", "hinge": "continuous"}


class Pose(Record, frozen=True):
    """Rotation (3, 3) and position [m] (3)."""

    rotation: Array
    position: Array

    def seen_from(self, frame: "Pose") -> "Pose":
        """Return the pose relative to a frame."""
        back = frame.rotation.T
        return Pose(rotation=back @ self.rotation, position=back @ (self.position - frame.position))


WORLD = Pose(rotation=np.eye(3), position=np.zeros(3))


def body_pose(body: BodySettings) -> Pose:
    """Return the pose of a body at the reference configuration."""
    return Pose(rotation=Rotation.from_euler("xyz", body.turn).as_matrix(), position=np.array(body.position))


def anchor(body: BodySettings, joint: JointSettings) -> Array:
    """Return the anchor of a joint [m] (3)."""
    return np.array(body.position if joint.anchor is None else joint.anchor)


def link_pose(body: BodySettings) -> Pose:
    """Return the pose of the body's link at the reference configuration."""
    if isinstance(body.joint, str):
        return body_pose(body)
    return Pose(rotation=np.eye(3), position=anchor(body, body.joint[-1]))


def joint_name(body: BodySettings, index: int = 0) -> str:
    """Return the name of a joint of a body; index: of a slide or hinge."""
    return f"{body.name}.{index}"


def mass_of(body: BodySettings) -> float:
    """Return the mass [kg]; 1 for a fixed body without mass and density, where it has no effect."""
    if body.mass is not None:
        return body.mass
    return 1.0 if body.density is None else body.density * volume(body.shape)


def volume(shape: Shape) -> float:
    """Return the volume [m³]."""
    if shape.box is not None:
        return float(np.prod(shape.box))
    if shape.sphere is not None:
        return float(4 / 3 * np.pi * shape.sphere**3)
    if shape.hull is not None:
        return hull_of(shape.hull).volume
    assert shape.cylinder is not None
    return float(np.pi * shape.cylinder[0] ** 2 * shape.cylinder[1])


def tensor(shape: Shape) -> Array:
    """Return the inertia of a solid of 1 kg about its centre [m²] (3, 3)."""
    return np.diag(inertia(shape)) if shape.hull is None else hull_of(shape.hull).tensor


def inertia(shape: Shape) -> Array:
    """Return the moments of inertia of a solid of 1 kg about its axes [m²] (3)."""
    if shape.hull is not None:
        return np.diag(hull_of(shape.hull).tensor).copy()
    if shape.box is not None:
        x, y, z = np.square(shape.box)
        return np.array([y + z, x + z, x + y]) / 12
    if shape.sphere is not None:
        return np.full(3, 0.4 * shape.sphere**2)
    assert shape.cylinder is not None
    radius, length = shape.cylinder
    across = (3 * radius**2 + length**2) / 12
    return np.array([across, across, radius**2 / 2])


def body_tensor(body: BodySettings) -> Array:
    """Return the inertia of a body about its centre of mass, axes of its shape [kg·m²] (3, 3)."""
    return mass_of(body) * tensor(body.shape) if body.inertia is None else np.diag(body.inertia)


def urdf_of(bodies: Sequence[BodySettings]) -> str:
    """Return the URDF text. Links have the names of the bodies."""
    robot = Xml.Element("robot", name="scene")
    Xml.SubElement(robot, "link", name="world")
    frames = {"": WORLD} | {body.name: link_pose(body) for body in bodies}
    for i, body in enumerate(bodies):
        colour = FIXED if body.joint == "fixed" and not body.parent else COLOURS[i % len(COLOURS)]
        _add_link(robot, body, colour)
        _add_joints(robot, body, frames[body.parent])
    return Xml.tostring(robot, encoding="unicode")


def _add_link(robot: Xml.Element, body: BodySettings, colour: str) -> None:
    link = Xml.SubElement(robot, "link", name=body.name)
    inertial = Xml.SubElement(link, "inertial")
    place = body_pose(body).seen_from(link_pose(body))
    Xml.SubElement(inertial, "mass", value=repr(float(mass_of(body))))
    rotational = body_tensor(body)
    moments = {f"i{'xyz'[i]}{'xyz'[j]}": repr(float(rotational[i, j])) for i in range(3) for j in range(i, 3)}
    Xml.SubElement(inertial, "inertia", moments)
    _add_origin(inertial, Pose(rotation=place.rotation, position=place.position + place.rotation @ body.mass_centre))
    if body.shape.hull is not None:
        return  # URDF has no polyhedra
    visual = Xml.SubElement(link, "visual")
    _add_origin(visual, place)
    geometry = Xml.SubElement(visual, "geometry")
    shape = body.shape
    if shape.box is not None:
        Xml.SubElement(geometry, "box", size=_text(shape.box))
    elif shape.sphere is not None:
        Xml.SubElement(geometry, "sphere", radius=repr(float(shape.sphere)))
    elif shape.cylinder is not None:
        radius, length = map(float, shape.cylinder)
        Xml.SubElement(geometry, "cylinder", radius=repr(radius), length=repr(length))
    material = Xml.SubElement(visual, "material", name=body.name)
    Xml.SubElement(material, "color", rgba=f"{colour} 1")


def _add_joints(robot: Xml.Element, body: BodySettings, parent: Pose) -> None:
    """Add the joints from the parent to the body, with massless links between them."""
    above = body.parent or "world"
    if body.joint == "free":
        _add_joint(robot, joint_name(body), "floating", (above, body.name), WORLD)  # its configuration is its pose
        return
    if body.joint == "fixed":
        _add_joint(robot, joint_name(body), "fixed", (above, body.name), link_pose(body).seen_from(parent))
        return
    for k, joint in enumerate(body.joint):
        below = body.name if k == len(body.joint) - 1 else f"{body.name} after {k}"
        if below != body.name:
            Xml.SubElement(robot, "link", name=below)
        frame = Pose(rotation=np.eye(3), position=anchor(body, joint))
        element = _add_joint(robot, joint_name(body, k), URDF_TYPES[joint.kind], (above, below), frame.seen_from(parent))
        Xml.SubElement(element, "axis", xyz=_text(np.array(joint.axis) / np.linalg.norm(joint.axis)))
        if joint.kind == "slide":
            Xml.SubElement(element, "limit", lower="0", upper="0", effort="0", velocity="0")  # all zero: no limits
        above, parent = below, frame


def _add_joint(robot: Xml.Element, name: str, kind: str, ends: tuple[str, str], place: Pose) -> Xml.Element:
    joint = Xml.SubElement(robot, "joint", name=name, type=kind)
    Xml.SubElement(joint, "parent", link=ends[0])
    Xml.SubElement(joint, "child", link=ends[1])
    _add_origin(joint, place)
    return joint


def _add_origin(element: Xml.Element, place: Pose) -> None:
    angles = Rotation.from_matrix(place.rotation).as_euler("xyz")
    Xml.SubElement(element, "origin", xyz=_text(place.position), rpy=_text(angles))


def _text(values: Sequence[float] | Array) -> str:
    return " ".join(repr(float(value)) for value in values)
