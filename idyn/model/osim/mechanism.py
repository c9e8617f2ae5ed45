"""The mechanism of an `.osim` file: bodies, the joints between them, and coordinates. Plain data, checked.

`build` makes Pinocchio's model of it, `coordinates` the map between its coordinates and the joints of that model.
"""

from typing import NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from idyn.model.osim.document import Document
from idyn.model.osim.functions import Function, composed, constant, read_function
from idyn.model.osim.joints import IDENTITY, Axis, read_axes
from idyn.types import Array

MOST = 1000
"""Bodies, and joints, in a model."""

LONGEST_CHAIN = 20
"""Couplers in a row."""

GROUND = "ground"

Pose = tuple[Array, Array]
"""Rotation (3, 3) and translation [m] (3)."""


class Body(NamedTuple):
    """A body. mass [kg]; centre: centre of mass in the body's frame [m] (3); inertia: about it [kg·m²] (3, 3)"""

    name: str
    mass: float
    centre: Array
    inertia: Array


class Joint(NamedTuple):
    """A joint. parent, child: names of bodies; fixed, moving: poses of its two frames in the parent and in the child"""

    name: str
    parent: str
    child: str
    fixed: Pose
    moving: Pose
    axes: list[Axis]


class Coordinate(NamedTuple):
    """A coordinate. turns: [rad] instead of [m]; lower, upper: its range [rad or m]

    leader: the coordinate that it depends on, itself where it is free; function: of the leader. A locked coordinate is
    constant.
    """

    name: str
    turns: bool
    lower: float
    upper: float
    leader: str
    function: Function


class Mechanism(NamedTuple):
    """Bodies, joints from the ground outwards, coordinates by name, gravity in the ground frame [m/s²] (3)."""

    name: str
    bodies: dict[str, Body]
    joints: list[Joint]
    coordinates: dict[str, Coordinate]
    gravity: Array


def read_mechanism(text: str, source: str) -> Mechanism:
    """Return the mechanism of an `.osim` file. source: origin of the text, for messages

    Raises ModelError, with line and element, for what is wrong or not supported.
    """
    document = Document(text, source)
    model = document.model
    found = [_body(document, element) for element in _objects(document, "BodySet", "Body")]
    bodies = {body.name: body for body in found}
    if len(bodies) != len(found) or GROUND in bodies:
        document.fail(model, "expected bodies with different names, none of them 'ground'")
    elements = _objects(document, "JointSet")
    coordinates: dict[str, Coordinate] = {}
    joints = [_joint(document, element, bodies, coordinates) for element in elements]
    _couple(document, coordinates)
    return Mechanism(
        name=model.get("name", "osim"),
        bodies=bodies,
        joints=_ordered(document, joints, elements, bodies),
        coordinates=coordinates,
        gravity=document.vector(model, "gravity"),
    )


def _objects(document: Document, group: str, tag: str = "*") -> list[Element]:
    """Return the elements of a set of the model."""
    found = document.model.findall(f"{group}/objects/{tag}")
    if len(found) > MOST:
        document.fail(document.model, f"{group}: expected at most {MOST} objects, got {len(found)}")
    return found


def _body(document: Document, element: Element) -> Body:
    mass = document.number(element, "mass")
    if mass < 0.0:
        document.fail(element, f"mass: expected a number ≥ 0 [kg], got {mass:g}")
    xx, yy, zz, xy, xz, yz = document.numbers(element, "inertia", 6)
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if np.linalg.eigvalsh(inertia)[0] < -1e-9 * max(1.0, float(np.abs(inertia).max())):
        document.fail(element, "inertia: expected a positive semidefinite tensor Ixx Iyy Izz Ixy Ixz Iyz")
    return Body(document.name(element), mass, document.vector(element, "mass_center"), inertia)


def _joint(document: Document, element: Element, bodies: dict[str, Body], coordinates: dict[str, Coordinate]) -> Joint:
    """Return a joint, and add its coordinates to those known so far."""
    names = []
    for each in element.findall("coordinates/Coordinate"):
        name = document.name(each)
        if name in coordinates:
            document.fail(each, "expected coordinates with different names")
        coordinates[name] = _coordinate(document, each, name)
        names.append(name)
    if document.flag(element, "reverse"):
        document.fail(element, "reverse: reversed joints are not supported")
    axes = read_axes(document, element, names)
    turning = {axis.coordinate for axis in axes if axis.turns}
    for name in names:
        coordinates[name] = coordinates[name]._replace(turns=name in turning)
    parent, fixed = _socket(document, element, "socket_parent_frame", bodies)
    child, moving = _socket(document, element, "socket_child_frame", bodies)
    return Joint(document.name(element), parent, child, fixed, moving, axes)


def _coordinate(document: Document, element: Element, name: str) -> Coordinate:
    if document.flag(element, "prescribed") and len(document.child(element, "prescribed_function")):
        document.fail(element, "prescribed: coordinates prescribed by a function of time are not supported")
    lower, upper = document.numbers(element, "range", 2) if element.find("range") is not None else (-np.inf, np.inf)
    if not document.flag(element, "locked"):
        return Coordinate(name, True, float(lower), float(upper), name, IDENTITY)
    value = document.number(element, "default_value")
    return Coordinate(name, True, value, value, name, constant(value))


def _socket(document: Document, joint: Element, socket: str, bodies: dict[str, Body]) -> tuple[str, Pose]:
    """Return the body of a socket of a joint, and the pose of the socket's frame in that body."""
    frames = {document.name(frame): frame for frame in joint.findall("frames/PhysicalOffsetFrame")}
    path = document.text(joint, socket)
    rotation, translation = np.eye(3), np.zeros(3)
    for _ in range(len(frames) + 1):
        name = path.rpartition("/")[2]
        if name not in frames:
            break
        frame = frames[name]
        turn, offset = _turned(document.vector(frame, "orientation")), document.vector(frame, "translation")
        rotation, translation = turn @ rotation, turn @ translation + offset
        path = document.text(frame, "socket_parent")
    if name != GROUND and name not in bodies:
        document.fail(joint, f"{socket}: expected a body, 'ground' or an offset frame of this joint, got '{path[:100]}'")
    return name, (rotation, translation)


def _turned(angles: Array) -> Array:
    """Return the rotation of the angles about the moving axes x, y, z [rad] (3)."""
    rotation = np.eye(3)
    for k, angle in enumerate(angles):
        rotation = rotation @ rotation_about(np.eye(3)[k], float(angle))
    return rotation


def rotation_about(axis: Array, angle: float) -> Array:
    """Return the rotation about a unit vector by an angle [rad] (3, 3), by Rodrigues' formula."""
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross


def _ordered(document: Document, joints: list[Joint], elements: list[Element], bodies: dict[str, Body]) -> list[Joint]:
    """Return the joints from the ground outwards, depth first, as Pinocchio's algorithms require.

    Raises ModelError for closed chains and for bodies without a chain of joints to the ground.
    """
    reached, ordered = {GROUND}, []
    pending = [pair for pair in zip(joints, elements, strict=True) if pair[0].parent == GROUND][::-1]
    while pending:
        joint, element = pending.pop()
        if joint.child in reached:
            document.fail(element, f"'{joint.child}' is the child of two joints: closed chains are not supported")
        reached.add(joint.child)
        ordered.append(joint)
        pending += [pair for pair in zip(joints, elements, strict=True) if pair[0].parent == joint.child][::-1]
    for joint, element in zip(joints, elements, strict=True):
        if joint.parent not in reached:
            document.fail(element, f"no chain of joints leads from the ground to its parent '{joint.parent}'")
    lost = [name for name in bodies if name not in reached]
    if lost:
        document.fail(document.model, f"body '{lost[0]}': expected a joint whose child it is")
    return ordered


def _couple(document: Document, coordinates: dict[str, Coordinate]) -> None:
    """Let coordinates depend on others as the enforced couplers say. Raises ModelError for other enforced constraints."""
    for element in _objects(document, "ConstraintSet"):
        if not document.flag(element, "isEnforced", True):
            continue
        if element.tag != "CoordinateCouplerConstraint":
            document.fail(element, "expected a CoordinateCouplerConstraint: other enforced constraints are not supported")
        leaders = document.text(element, "independent_coordinate_names").split()
        name = document.text(element, "dependent_coordinate_name")
        for each in (*leaders, name):
            if each not in coordinates:
                document.fail(element, f"no coordinate named '{each[:60]}'")
        if len(leaders) != 1 or leaders[0] == name or coordinates[name].leader != name:
            document.fail(element, "expected one independent coordinate, and a dependent one that nothing else determines")
        if coordinates[name].function.constant is not None:
            document.fail(element, f"'{name}' is locked and coupled")
        function = read_function(document, document.child(element, "coupled_coordinates_function"), "function")
        coordinates[name] = coordinates[name]._replace(leader=leaders[0], function=function)
    coordinates |= {name: _resolved(document, name, coordinates) for name in coordinates}


def _resolved(document: Document, name: str, coordinates: dict[str, Coordinate]) -> Coordinate:
    """Return a coordinate as a function of a free or locked one. Raises ModelError for couplers in a circle."""
    found = coordinates[name]
    for _ in range(LONGEST_CHAIN):
        leader = coordinates[found.leader]
        function = composed(found.function, leader.function)
        if leader.leader == leader.name:
            return found if leader.name == name else found._replace(function=function)
        found = found._replace(leader=leader.leader, function=function)
    document.fail(document.model, f"coordinate '{name}' depends on itself, or through over {LONGEST_CHAIN} couplers")
