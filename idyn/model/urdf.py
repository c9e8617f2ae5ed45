"""Text of a URDF: parsed within bounds, and rewritten such that Pinocchio reads what was meant: turns of continuous joints, the
floating joint of a base, names that Pinocchio uses; without shapes, whose errors must not lose links.
"""

import re
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement
from xml.parsers import expat
from xml.parsers.expat import errors

import numpy as np
import pinocchio as pin

from idyn.errors import ModelError
from idyn.types import Array


def lines_of(root: Element, text: str) -> dict[Element, int]:
    """Return the line on which each element begins. root: parsed from this text, without elements added or removed since"""
    starts: list[int] = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda *_: starts.append(parser.CurrentLineNumber)
    parser.Parse(text, True)
    return dict(zip(root.iter(), starts, strict=True))


def pose_of(position: Array, quaternion: Array) -> Any:
    """Return the pose for a quaternion wxyz."""
    return pin.SE3(rotation_of(quaternion), np.array(position))


def rotation_of(quaternion: Array) -> Array:
    return pin.Quaternion(*quaternion.tolist()).normalized().matrix()


def add_origin(element: Element, pose: Any) -> None:
    SubElement(element, "origin", xyz=text_of(pose.translation), rpy=text_of(_rpy(pose.rotation)))


def _rpy(R: Array) -> list[float]:
    """Return roll, pitch and yaw of a rotation, R = R_z R_y R_x, exact also where the pitch is a right angle."""
    yaw = np.arctan2(R[1, 0], R[0, 0])
    s, c = np.sin(yaw), np.cos(yaw)
    pitch = np.arctan2(-R[2, 0], np.hypot(R[0, 0], R[1, 0]))
    return [np.arctan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1]), pitch, yaw]


def text_of(numbers: Any) -> str:
    return " ".join(repr(float(number)) for number in numbers)


def split_capsule(link: Element, shape: Element) -> None:
    """Replace a visual or a collision of a capsule, which urdfdom does not know, by one of a cylinder and two of spheres."""
    capsule, origin = shape.find("geometry/capsule"), shape.find("origin")
    place = {} if origin is None else origin.attrib
    size = {} if capsule is None else capsule.attrib
    xyz, rpy = ([float(part) for part in place.get(name, "0 0 0").split()] for name in ("xyz", "rpy"))
    pose, half = pin.SE3(pin.rpy.rpyToMatrix(*rpy), np.array(xyz)), 0.5 * float(size.get("length", "0"))
    link.remove(shape)
    for kind, z in (("cylinder", 0.0), ("sphere", half), ("sphere", -half)):
        part = SubElement(link, shape.tag)
        add_origin(part, pose * pin.SE3(np.eye(3), np.array([0.0, 0.0, z])))
        own = {name: value for name, value in size.items() if name == "radius" or kind == "cylinder"}
        SubElement(SubElement(part, "geometry"), kind, own)


MAX_BYTES = 16 * 1024 * 1024  # length of a URDF text [bytes]
MAX_NESTING = 100  # nesting of XML elements; a URDF has 5 levels


ROOT_JOINT = "root_joint"  # name of the joint of a floating base in Pinocchio
PREFIXES = re.compile(r"</?([A-Za-z_][\w.-]*):|\s([A-Za-z_][\w.-]*):[\w.-]+\s*=")  # a prefix of an element or of an attribute


def parse_urdf(text: str, source: str) -> ElementTree.Element:
    """Return the `robot` element of a URDF. Raises ModelError for a text that is no such XML, too long or nested too deeply.

    source: origin of the text, for messages
    """
    if len(text) > MAX_BYTES:
        raise ModelError(f"{source}: expected at most {MAX_BYTES} characters, got {len(text)}")
    try:
        robot = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise ModelError(f"{source}: not XML ({error})") from error
    if robot.tag != "robot":
        raise ModelError(f"{source}: not a URDF: expected the element 'robot', got '{robot.tag[:100]}'")
    level, depth = [robot], 0
    while level:
        level, depth = [child for element in level for child in element], depth + 1
        if depth > MAX_NESTING:
            raise ModelError(f"{source}: expected at most {MAX_NESTING} nested XML elements")
    return robot


def with_declared_prefixes(text: str) -> str:
    """Return the URDF with prefixes such as `drake:` declared in its root element, if they are used and no element declares
    them: readers of URDFs ignore prefixes. Line numbers stay the same."""
    try:
        ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        if getattr(error, "code", None) != errors.codes[errors.XML_ERROR_UNBOUND_PREFIX]:
            return text
    else:
        return text
    used = {prefix for pair in PREFIXES.findall(text) for prefix in pair} - {"", "xml", "xmlns"}
    missing = sorted(prefix for prefix in used if f"xmlns:{prefix}" not in text)
    return re.sub(r"<robot(?=[\s>])", "<robot" + "".join(f' xmlns:{prefix}="{prefix}"' for prefix in missing), text, count=1)


def base_of(text: str, source: str) -> str:
    """Return the base that a URDF means: `fixed` if its root is a link `world` without inertia, to which no floating joint
    belongs, else `free_flyer`. Raises ModelError."""
    robot = parse_urdf(text, source)
    root = _root(robot)
    is_world = root is not None and root.get("name") == "world" and root.find("inertial") is None
    floats = any(joint.get("type") == "floating" for joint in robot.findall("joint"))
    return "fixed" if is_world and not floats else "free_flyer"


def with_own_base(text: str, base: str) -> str:
    """Return the URDF without what stands for the world or collides with Pinocchio's names; unchanged where nothing does.

    A massless root with a single joint that floats: the robot begins behind it, if the base is `free_flyer`. A fixed joint
    named as Pinocchio's root joint gets another name.
    """
    try:
        robot = parse_urdf(text, "")
    except ModelError:
        return text  # the checks name the error
    named = [each for each in robot.findall("joint") if each.get("type") == "fixed" and each.get("name") == ROOT_JOINT]
    for joint in named:
        joint.set("name", f"{ROOT_JOINT} of {link_of(joint, 'child')}")
    root, joints = _root(robot), robot.findall("joint")
    outward = [each for each in joints if root is not None and link_of(each, "parent") == root.get("name")]
    floats = base == "free_flyer" and [each.get("type") for each in outward] == ["floating"]
    if root is not None and floats and root.find("inertial") is None:
        robot.remove(root)
        robot.remove(outward[0])
    elif not named:
        return text
    return ElementTree.tostring(robot, encoding="unicode")


def _root(robot: ElementTree.Element) -> ElementTree.Element | None:
    """Return the only link that is no child of a joint; None if there is none or several."""
    children = {link_of(joint, "child") for joint in robot.findall("joint")}
    roots = [link for link in robot.findall("link") if link.get("name") not in children]
    return roots[0] if len(roots) == 1 else None


def link_of(joint: ElementTree.Element, end: str) -> str:
    """Return the link at an end of a joint, `parent` or `child`; '' if it has none."""
    element = joint.find(end)
    return "" if element is None else element.get("link", "")


def without_shapes(text: str, *kept: str) -> str:
    """Return the URDF without visuals, collisions, materials and what other tools use. kept: `visual` or `collision`"""
    robot = ElementTree.fromstring(text)
    for parent in (robot, *robot.findall("link")):
        for child in list(parent):
            if child.tag not in ("link", "joint", "inertial", *kept, *(["material"] if "visual" in kept else [])):
                parent.remove(child)
    for link in robot.findall("link"):
        for shape in [each for kind in kept for each in link.findall(kind) if each.find("geometry/capsule") is not None]:
            split_capsule(link, shape)
    for visual in robot.iterfind("link/visual"):  # urdfdom refuses a link whose material has no name
        for material in [each for each in visual.findall("material") if not each.get("name")]:
            material.set("name", "unnamed")
    return ElementTree.tostring(robot, encoding="unicode")


def with_counted_turns(text: str, source: str) -> str:
    """Return the URDF with every continuous joint replaced by a revolute one without position limits: one angle [rad] that
    counts turns, instead of Pinocchio's cos and sin."""
    robot = parse_urdf(text, source)
    wheels = [joint for joint in robot.findall("joint") if joint.get("type") == "continuous"]
    for joint in wheels:
        joint.set("type", "revolute")
        limit = joint.find("limit")
        if limit is None:
            limit = ElementTree.SubElement(joint, "limit", effort="0", velocity="0")  # 0: no limit
        limit.set("lower", "0")
        limit.set("upper", "0")
    return ElementTree.tostring(robot, encoding="unicode") if wheels else text
