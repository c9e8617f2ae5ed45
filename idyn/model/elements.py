"""Poses as elements of a URDF, exact to rounding."""

from typing import Any
from xml.etree.ElementTree import Element, SubElement

import numpy as np
import pinocchio as pin

from idyn.types import Array


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
