"""Files of OpenSim 2 and 3: rearranged as OpenSim 4 arranges them, in memory.

There a body has its joint, with the places of both frames as numbers. Later files have a set of joints, and offset frames.
"""

from collections.abc import Callable
from xml.etree.ElementTree import Element, SubElement

INERTIA = ("xx", "yy", "zz", "xy", "xz", "yz")

Added = Callable[[Element, str, str, str], Element]
"""Adds a child: parent, tag, text, name; the new element has the line of its parent."""


def modernise(model: Element, lines: dict[Element, int]) -> None:
    """Rearrange the element `Model` of an older file. lines: of all elements; new elements are added to it

    Elements that are missing stay missing: the reader names them.
    """

    def add(parent: Element, tag: str, text: str = "", name: str = "") -> Element:
        element = SubElement(parent, tag, {"name": name} if name else {})
        element.text = text
        lines[element] = lines[parent]
        return element

    objects = model.find("BodySet/objects")
    if objects is None:
        return
    joints = add(add(model, "JointSet"), "objects")
    for body in list(objects):
        if body.get("name") == "ground":
            objects.remove(body)
            continue
        parts = [body.find(f"inertia_{axes}") for axes in INERTIA]
        if None not in parts and body.find("inertia") is None:
            add(body, "inertia", " ".join((part.text or "") for part in parts if part is not None))
        for joint in body.findall("Joint/*"):
            _modernise_joint(joint, body.get("name", ""), add)
            joints.append(joint)
    for constraint in model.findall("ConstraintSet/objects/*"):
        disabled = constraint.find("isDisabled")
        if disabled is not None:
            add(constraint, "isEnforced", "false" if (disabled.text or "").strip().lower() == "true" else "true")


def _modernise_joint(joint: Element, child: str, add: Added) -> None:
    """Give a joint sockets, offset frames and coordinates, and its axes their functions. child: name of its body"""
    frames = add(joint, "frames", "", "")
    parent = (joint.findtext("parent_body") or "").strip()
    for side, body, suffix in (("parent", parent, "_in_parent"), ("child", child, "")):
        name = f"{joint.get('name', 'joint')}_{side}_offset"
        add(joint, f"socket_{side}_frame", name, "")
        frame = add(frames, "PhysicalOffsetFrame", "", name)
        add(frame, "socket_parent", body, "")
        add(frame, "translation", joint.findtext(f"location{suffix}") or "0 0 0", "")
        add(frame, "orientation", joint.findtext(f"orientation{suffix}") or "0 0 0", "")
    coordinates = add(joint, "coordinates", "", "")
    coordinates.extend(joint.findall("CoordinateSet/objects/Coordinate"))
    for axis in joint.findall("SpatialTransform/TransformAxis"):
        for wrapper in axis.findall("function"):
            axis.remove(wrapper)
            axis.extend(list(wrapper))
