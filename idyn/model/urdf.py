"""Continuous joints of a URDF, rewritten so that Pinocchio counts their turns; `idyn.model.robot` reads the URDF."""

from xml.etree import ElementTree


def with_counted_turns(urdf: str) -> str:
    """The text with every continuous joint a revolute one without position limits: one angle [rad] that counts its turns,
    where Pinocchio would keep cos and sin, which know none. Raises ElementTree.ParseError."""
    robot = ElementTree.fromstring(urdf)
    wheels = [joint for joint in robot.findall("joint") if joint.get("type") == "continuous"]
    for joint in wheels:
        joint.set("type", "revolute")
        limit = joint.find("limit")
        if limit is None:
            limit = ElementTree.SubElement(joint, "limit", effort="0", velocity="0")  # which stand for none
        limit.set("lower", "0")
        limit.set("upper", "0")
    return ElementTree.tostring(robot, encoding="unicode") if wheels else urdf
