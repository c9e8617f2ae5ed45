"""Robots in MuJoCo's format MJCF: what Pinocchio's reader does not know, and what is not supported.

Pinocchio reads bodies, joints, inertias and armature. This module makes the text independent of other files, and reads torque
limits of motors and contact spheres, with the defaults of their classes.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
import pinocchio as pin

from idyn.errors import ModelError
from idyn.model.description import ContactPoint
from idyn.model.lines import lines_of

ROOT_JOINT = "root_joint"
"""Name of the free joint of the base, as for a URDF."""

MOVING = ("joint", "freejoint")

UNSUPPORTED = ("include", "equality", "tendon", "composite", "flexcomp", "replicate", "attach", "frame")
"""Elements that change the robot in ways that are not read."""

Defaults = dict[str, dict[str, dict[str, str]]]
"""Class → tag → attributes."""


SKIPPED = (("<?", "?>"), ("<!--", "-->"), ("<!", ">"))
"""Beginning and end of what may stand before the root element."""


def is_mjcf(text: str) -> bool:
    """Return whether the text of a model is MJCF, by its root element; a URDF may have an element `mujoco` inside.

    Parsers are not used: they leave cycles of objects, at every robot that a server builds without garbage collection.
    """
    at = 0
    while True:
        while at < len(text) and (text[at].isspace() or text[at] == "\ufeff"):
            at += 1
        ends = [end for begin, end in SKIPPED if text.startswith(begin, at)]
        if not ends:
            return text.startswith("<mujoco", at)
        found = text.find(ends[0], at)
        if found < 0:
            return False
        at = found + len(ends[0])


def build_mjcf(text: str) -> pin.Model:
    """Return Pinocchio's model of a self-contained MJCF."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "robot.xml"
        path.write_text(text, encoding="utf-8")
        return pin.buildModelFromMJCF(str(path))


def read_mjcf(text: str, source: str) -> dict[str, Any]:
    """Return the fields of a `Description` from an MJCF: text, base, armature, torque limits and contact spheres.

    Raises ModelError for text that is no MJCF, and for what is not supported.
    """
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ModelError(f"{source}: not XML ({error})") from error
    if root.tag != "mujoco":
        raise ModelError(f"{source}: expected an MJCF with the element 'mujoco', got '{root.tag}'")
    base = _check(root, text, source)
    defaults = _defaults(root)
    contact, limits = _spheres(base, defaults), _torque_limits(root, defaults)
    floats = _free_joint(base)
    if floats is not None:
        floats.set("name", ROOT_JOINT)
    _drop_meshes(root)
    own = ElementTree.tostring(root, encoding="unicode")
    model = build_mjcf(own)
    armature = {name: float(model.armature[model.joints[i].idx_v]) for i, name in enumerate(model.names) if i}
    return {
        "urdf": own,
        "base": "fixed" if floats is None else "free_flyer",
        "armature": {name: value for name, value in armature.items() if value > 0.0},
        "tau_max": limits,
        "contact": contact,
    }


def _check(root: Element, text: str, source: str) -> Element:
    """Return the root body. Raises ModelError for what is not supported, with its element and line."""
    found = next(_unsupported(root), None)
    if found is not None:
        element, message = found
        raise ModelError(f"{source}, line {lines_of(root, text)[element]}: {message}")
    bodies = root.findall("worldbody/body")
    if len(bodies) != 1:
        raise ModelError(f"{source}: expected one body in 'worldbody', the robot's base, got {len(bodies)}")
    return bodies[0]


def _unsupported(root: Element) -> Iterator[tuple[Element, str]]:
    """Yield the elements that are not supported, each with the reason."""
    for tag in UNSUPPORTED:
        yield from ((element, f"the element '{tag}' is not supported") for element in root.iter(tag))
    for body in root.iterfind("worldbody//body"):
        name, joints = body.get("name", "?"), [part for part in body if part.tag in MOVING]
        if len(joints) > 1:
            yield joints[1], f"body '{name}': expected at most one joint, got {len(joints)}"
        for joint in joints:
            if joint.get("type") != "free" and joint.tag == "joint" and not joint.get("name"):
                yield joint, f"body '{name}': expected a name for its joint"
            if float(joint.get("ref", "0")) != 0.0:
                yield joint, f"joint '{joint.get('name', '?')}': expected ref 0, got {joint.get('ref')}"
        if joints and body.find("inertial") is None:
            yield body, f"body '{name}' moves and needs an element 'inertial'; inertias of geoms are not used"


def _free_joint(body: Element) -> Element | None:
    """Return the free joint of the base; None for a fixed base."""
    found = body.find("freejoint")
    return found if found is not None else body.find("joint[@type='free']")


def _drop_meshes(root: Element) -> None:
    """Remove what refers to other files or is drawn only: assets, geoms, sites with meshes, cameras, keyframes."""
    for parent in [root, *root.iter("body")]:
        for child in list(parent):
            if child.tag in ("asset", "keyframe", "visual", "sensor", "actuator", "contact", "geom", "camera", "light"):
                parent.remove(child)
    for default in root.iter("default"):
        for child in list(default):
            if child.tag not in ("default", "joint"):
                default.remove(child)


def _defaults(root: Element) -> Defaults:
    """Return the attributes that classes set."""
    classes: Defaults = {"main": {}}

    def read(element: Element, outer: dict[str, dict[str, str]]) -> None:
        own = {tag: dict(given) for tag, given in outer.items()}
        for part in element:
            if part.tag != "default":
                own[part.tag] = own.get(part.tag, {}) | part.attrib
        classes[element.get("class", "main")] = own
        for part in element.findall("default"):
            read(part, own)

    for element in root.findall("default"):
        read(element, {})
    return classes


def _resolved(element: Element, inherited: str, defaults: Defaults) -> dict[str, str]:
    """Return the attributes of an element with those of its class. inherited: class of the body"""
    return defaults.get(element.get("class", inherited), {}).get(element.tag, {}) | element.attrib


def _spheres(base: Element, defaults: Defaults) -> tuple[ContactPoint, ...]:
    """Return the spheres that may touch others, each with its body's name as frame and its own name."""
    found: list[ContactPoint] = []

    def search(body: Element, inherited: str) -> None:
        inherited = body.get("childclass", inherited)
        for part in body.findall("geom"):
            geom = _resolved(part, inherited, defaults)
            touches = geom.get("contype", "1") != "0" or geom.get("conaffinity", "1") != "0"
            if touches and geom.get("type", "sphere") == "sphere" and "size" in geom and "mesh" not in geom:
                x, y, z = _numbers(geom.get("pos", "0 0 0"))
                found.append(
                    ContactPoint(
                        frame=body.get("name", ""),
                        offset=(x, y, z),
                        radius=_numbers(geom["size"])[0],
                        mu=_numbers(geom.get("friction", "1"))[0],
                        name=geom.get("name", ""),
                    )
                )
        for child in body.findall("body"):
            search(child, inherited)

    search(base, "main")
    return tuple(found)


def _torque_limits(root: Element, defaults: Defaults) -> dict[str, float]:
    """Return the largest torque of each joint with a motor: the range of its control or force times its gear."""
    limits: dict[str, float] = {}
    for part in root.findall("actuator/motor"):
        motor = _resolved(part, "main", defaults)
        ranges = [_numbers(motor[name]) for name in ("ctrlrange", "forcerange") if name in motor]
        if ranges and "joint" in motor:
            gear = abs(_numbers(motor.get("gear", "1"))[0])
            limits[motor["joint"]] = gear * min(float(np.abs(each).max()) for each in ranges)
    return limits


def _numbers(text: str) -> list[float]:
    return [float(number) for number in text.split()]
