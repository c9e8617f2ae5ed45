"""Axes of OpenSim's joints: along and about which directions a joint moves, by which function of which coordinate.

A joint places its moving frame in its fixed frame by  trans(x₁ t₁ + x₂ t₂ + x₃ t₃) · rot(a₁, θ₁) · rot(a₂, θ₂) · rot(a₃, θ₃),
where xᵢ and θᵢ are functions of coordinates; each rotation is about an axis of the frame that the ones before have turned.
"""

from collections.abc import Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from idyn.model.osim.document import Document
from idyn.model.osim.functions import Function, constant, polynomial, read_function
from idyn.types import Array

IDENTITY = polynomial(np.array([1.0, 0.0]))

UNIT = 1e-6
"""Largest deviation of the length of a direction of translation from 1."""

ROTATIONS = ("rotation1", "rotation2", "rotation3")
TRANSLATIONS = ("translation1", "translation2", "translation3")


class Axis(NamedTuple):
    """One axis of a joint. name: of the axis; turns: rotation instead of translation; direction: unit vector (3)

    coordinate: on which the function depends, "" for a constant; function: displacement along or about the axis [m or rad]
    """

    name: str
    turns: bool
    direction: Array
    coordinate: str
    function: Function


def read_axes(document: Document, joint: Element, coordinates: Sequence[str]) -> list[Axis]:
    """Return the axes of a joint, translations first. coordinates: names of its coordinates

    Raises ModelError for kinds of joints that are not read, and for a wrong number of coordinates.
    """
    if joint.tag == "CustomJoint":
        return _custom(document, joint, coordinates)
    if joint.tag not in PLAIN:
        document.fail(joint, f"expected a joint of the kinds {', '.join(('CustomJoint', *PLAIN))}")
    columns = PLAIN[joint.tag]
    if len(coordinates) != len(columns):
        document.fail(joint, f"expected {len(columns)} coordinates, got {len(coordinates)}")
    axes = [
        Axis(column, column[0] == "r", np.eye(3)["xyz".index(column[1])], name, IDENTITY)
        for column, name in zip(columns, coordinates, strict=True)
    ]
    return sorted(axes, key=lambda axis: axis.turns)


PLAIN: dict[str, tuple[str, ...]] = {
    "WeldJoint": (),
    "PinJoint": ("rz",),
    "SliderJoint": ("tx",),
    "UniversalJoint": ("rx", "ry"),
    "GimbalJoint": ("rx", "ry", "rz"),
    "BallJoint": ("rx", "ry", "rz"),
    "FreeJoint": ("rx", "ry", "rz", "tx", "ty", "tz"),
    "PlanarJoint": ("rz", "tx", "ty"),
}
"""Joints other than CustomJoint: what each coordinate does, r: turns about, t: moves along an axis of the fixed frame.

Translations are in the fixed frame, before the rotations. Moments of a BallJoint and a FreeJoint belong to the rates of these
angles here, in OpenSim to the angular velocity.
"""


def _custom(document: Document, joint: Element, coordinates: Sequence[str]) -> list[Axis]:
    transform = document.child(joint, "SpatialTransform")
    found = {document.name(element): element for element in transform.findall("TransformAxis")}
    wanted = (*TRANSLATIONS, *ROTATIONS)
    if sorted(found) != sorted(wanted):
        document.fail(transform, f"expected the TransformAxis {', '.join(wanted)}, got {', '.join(found)}"[:300])
    return [_axis(document, found[name], name, coordinates) for name in wanted]


def _axis(document: Document, element: Element, name: str, coordinates: Sequence[str]) -> Axis:
    used = document.text(element, "coordinates").split()
    unknown = [each for each in used if each not in coordinates]
    if unknown:
        document.fail(element, f"coordinates: no coordinate '{unknown[0][:60]}' in this joint")
    function = read_function(document, element, "function")
    if function.constant is None and len(used) != 1:
        document.fail(element, f"coordinates: expected one coordinate for a function that is not constant, got {len(used)}")
    direction = document.vector(element, "axis")
    length = float(np.linalg.norm(direction))
    turns = name in ROTATIONS
    if length < UNIT or (not turns and abs(length - 1.0) > UNIT):
        document.fail(element, f"axis: expected a unit vector, got one of length {length:g}")
    moving = function.constant is None
    return Axis(name, turns, direction / length, used[0] if moving else "", function if moving else _constant(function))


def _constant(function: Function) -> Function:
    return constant(function.constant or 0.0)
