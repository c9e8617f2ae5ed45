"""Continuous joints of a URDF, rewritten such that Pinocchio counts their turns."""

from xml.etree import ElementTree


def with_counted_turns(urdf: str) -> str:
    """Return the URDF with every continuous joint replaced by a revolute one without position limits: one angle [rad] that
    counts turns, instead of Pinocchio's cos and sin. Raises ElementTree.ParseError."""
    robot = ElementTree.fromstring(urdf)
    wheels = [joint for joint in robot.findall("joint") if joint.get("type") == "continuous"]
    for joint in wheels:
        joint.set("type", "revolute")
        limit = joint.find("limit")
        if limit is None:
            limit = ElementTree.SubElement(joint, "limit", effort="0", velocity="0")  # 0: no limit
        limit.set("lower", "0")
        limit.set("upper", "0")
    return ElementTree.tostring(robot, encoding="unicode") if wheels else urdf
