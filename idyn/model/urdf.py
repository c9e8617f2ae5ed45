"""Text of a URDF: parsed within bounds, and continuous joints rewritten such that Pinocchio counts their turns."""

import re
from xml.etree import ElementTree
from xml.parsers.expat import errors

from idyn.errors import ModelError

MAX_BYTES = 16 * 1024 * 1024
"""Length of a URDF text [bytes]."""

MAX_NESTING = 100
"""Nesting of XML elements; a URDF has 5 levels."""


PREFIXES = re.compile(r"</?([A-Za-z_][\w.-]*):|\s([A-Za-z_][\w.-]*):[\w.-]+\s*=")
"""A prefix of an element or of an attribute."""


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
