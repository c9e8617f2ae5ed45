"""Model of the simulated robot: masses, centres of mass, inertias and armatures that differ from the controller's model."""

from collections.abc import Mapping
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from idyn.errors import ConfigError, nearest
from idyn.model.robot import Robot
from sim_harness.robot.imperfections.settings import BodySettings, ByJoint, ImperfectionSettings
from sim_harness.world.joints import JointFriction

INERTIA = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
"""Attributes of a URDF inertia."""


def world_robot(model: Robot, settings: ImperfectionSettings, where: str = "experiment.robot") -> Robot:
    """Return the robot of the world, the controller's model with changed inertial parameters.

    Raises ConfigError at `where` for unknown names and invalid values.
    """
    urdf = changed_urdf(model.description.urdf, settings.trunk, settings.links, where)
    if settings.drive.armature is None:
        return model.variant(urdf=urdf)
    return model.variant(urdf=urdf, armature=by_joint(settings.drive.armature, model, f"{where}.drive.armature"))


def joint_friction(robot: Robot, settings: ImperfectionSettings, where: str = "experiment.robot") -> JointFriction | None:
    """Return the joint friction of the world's robot, None without any. Raises ConfigError at `where` for unknown joints."""
    drive = settings.drive
    viscous = by_joint(drive.viscous, robot, f"{where}.drive.viscous")
    coulomb = by_joint(drive.coulomb, robot, f"{where}.drive.coulomb")
    if not any(viscous.values()) and not any(coulomb.values()):
        return None
    return JointFriction.of(robot, viscous, coulomb)


def by_joint(values: ByJoint, robot: Robot, where: str) -> dict[str, float]:
    """Return a value for every actuated joint. Raises ConfigError at `where` for other joints."""
    if not isinstance(values, dict):
        return dict.fromkeys(robot.joint_names, values)
    for name in values:
        if name not in robot.joint_names:
            raise ConfigError(f"{where}.{name}", f"unknown actuated joint{nearest(name, robot.joint_names)}")
    return {name: values.get(name, 0.0) for name in robot.joint_names}


def changed_urdf(urdf: str, trunk: BodySettings, links: Mapping[str, BodySettings], where: str) -> str:
    """Return the URDF text with changed inertial parameters; if there are no changes, the given text.

    Raises ConfigError at `where` for unknown links and links without mass.
    """
    ideal = BodySettings()
    changes = {name: body for name, body in links.items() if body != ideal}
    if trunk == ideal and not changes:
        return urdf
    robot = ElementTree.fromstring(urdf)
    inertials = {
        link.get("name", ""): inertial for link in robot.iter("link") if (inertial := link.find("inertial")) is not None
    }
    for name, body in changes.items():
        if name not in inertials:
            raise ConfigError(f"{where}.links.{name}", f"unknown link, or a link without mass{nearest(name, inertials)}")
        _change(inertials[name], body, f"{where}.links.{name}")
    if trunk != ideal:
        own = [inertials[name] for name in _base_links(robot) if name in inertials]
        if not own:
            raise ConfigError(f"{where}.trunk", "expected a base with mass, but the robot's base has none")
        _change(max(own, key=_mass), trunk, f"{where}.trunk")
    return ElementTree.tostring(robot, encoding="unicode")


def _base_links(robot: Element) -> set[str]:
    """Return the root link and all links fixed to it."""
    joints = [(joint.get("type"), _link(joint, "parent"), _link(joint, "child")) for joint in robot.findall("joint")]
    children = {child for _, _, child in joints}
    base = {name for link in robot.findall("link") if (name := link.get("name", "")) not in children}
    grown = 0
    while grown < len(base):
        grown = len(base)
        base |= {child for kind, parent, child in joints if kind == "fixed" and parent in base}
    return base


def _link(joint: Element, role: str) -> str:
    found = joint.find(role)
    return "" if found is None else found.get("link", "")


def _mass(inertial: Element) -> float:
    mass = inertial.find("mass")
    return 0.0 if mass is None else float(mass.get("value", "0"))


def _change(inertial: Element, body: BodySettings, where: str) -> None:
    """Change the parameters of an inertial element. Raises ConfigError at `where` when the new mass is not positive."""
    mass, inertia, origin = inertial.find("mass"), inertial.find("inertia"), inertial.find("origin")
    if mass is None or inertia is None:
        raise ConfigError(where, "expected a link with mass and inertia, but its URDF lacks one of them")
    value = body.mass_factor * _mass(inertial) + body.added_mass
    if not value > 0:
        raise ConfigError(f"{where}.added_mass", f"expected a resulting mass > 0, got {value:g} kg")
    mass.set("value", repr(value))
    for key in INERTIA:
        inertia.set(key, repr(body.mass_factor * body.inertia_factor * float(inertia.get(key, "0"))))
    if any(body.com_shift):
        if origin is None:
            origin = ElementTree.SubElement(inertial, "origin")
        at = [float(x) for x in origin.get("xyz", "0 0 0").split()]
        origin.set("xyz", " ".join(repr(x + shift) for x, shift in zip(at, body.com_shift, strict=True)))
