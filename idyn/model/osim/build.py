"""Pinocchio's model of an OpenSim mechanism: one prismatic or revolute joint for each axis that moves.

The vertical of OpenSim's ground is −gravity, usually y. The robot's world has z up: `ground_in_world` turns one into the other.
"""

from typing import NamedTuple

import numpy as np
import pinocchio as pin

from idyn.errors import ModelError
from idyn.model.osim.functions import Function, composed
from idyn.model.osim.joints import Axis
from idyn.model.osim.mechanism import GROUND, Coordinate, Joint, Mechanism, rotation_about
from idyn.types import Array


class Drive(NamedTuple):
    """What drives one joint of the robot: q = f(c). coordinate: a free one; function: f; at_root: joint of the ground"""

    joint: str
    coordinate: str
    function: Function
    at_root: bool


def ground_in_world(gravity: Array) -> Array:
    """Return the rotation from OpenSim's ground to the world (3, 3), which turns −gravity to +z on the shortest way.

    gravity: in the ground frame [m/s²] (3). Without gravity the frames are the same.
    """
    size = float(np.linalg.norm(gravity))
    if size == 0.0:
        return np.eye(3)
    x, y, z = -gravity / size
    if z < -1.0 + 1e-9:
        return np.diag([1.0, -1.0, -1.0])
    cross = np.array([[0.0, 0.0, -x], [0.0, 0.0, -y], [x, y, 0.0]])  # of (−gravity/size) × z
    rotation: Array = np.eye(3) + cross + cross @ cross / (1.0 + z)
    return rotation


def drives_of(mechanism: Mechanism) -> list[Drive]:
    """Return what drives each joint of the robot, in order.

    A joint that equals its coordinate has the coordinate's name, others are named `joint.axis`.
    """
    found: list[Drive] = []
    for joint in mechanism.joints:
        for axis in joint.axes:
            drive = _drive(joint, axis, mechanism.coordinates)
            if drive is not None:
                taken = drive.function.identity and drive.coordinate in [each.joint for each in found]
                named = drive.function.identity and not taken
                found.append(drive._replace(joint=drive.coordinate if named else f"{joint.name}.{axis.name}"))
    return found


def _drive(joint: Joint, axis: Axis, coordinates: dict[str, Coordinate]) -> Drive | None:
    """Return what drives an axis, None where nothing moves it."""
    if not axis.coordinate:
        return None
    coordinate = coordinates[axis.coordinate]
    function = composed(axis.function, coordinate.function)
    return None if function.constant is not None else Drive("", coordinate.leader, function, joint.parent == GROUND)


def build_osim(mechanism: Mechanism, source: str) -> pin.Model:
    """Return Pinocchio's model, with a body frame for each body. Raises ModelError for names that clash."""
    model = pin.Model()
    model.name = mechanism.name
    world = pin.SE3(ground_in_world(mechanism.gravity), np.zeros(3))
    model.gravity.linear = world.rotation @ mechanism.gravity
    places = {GROUND: (0, world)}
    names = iter(drives_of(mechanism))
    for joint in mechanism.joints:
        at, pose = places[joint.parent]
        pose = pose * pin.SE3(*joint.fixed)
        for axis in joint.axes:
            if _drive(joint, axis, mechanism.coordinates) is None:
                pose = pose * _constant(axis, mechanism.coordinates)
                continue
            name = next(names).joint
            if model.existJointName(name):
                raise ModelError(f"{source}: two joints are named '{name}'")
            at, pose = _add_joint(model, at, pose, axis, name, mechanism.coordinates[axis.coordinate]), pin.SE3.Identity()
        pose = pose * pin.SE3(*joint.moving).inverse()
        places[joint.child] = at, pose
        body = mechanism.bodies[joint.child]
        model.addBodyFrame(body.name, at, pose, 0)
        if body.mass > 0.0:
            model.appendBodyToJoint(at, pin.Inertia(body.mass, body.centre, body.inertia), pose)
    return model


def _constant(axis: Axis, coordinates: dict[str, Coordinate]) -> pin.SE3:
    """Return the displacement of an axis that does not move."""
    function = composed(axis.function, coordinates[axis.coordinate].function) if axis.coordinate else axis.function
    value = float(function.constant or 0.0)
    if axis.turns:
        return pin.SE3(rotation_about(axis.direction, value), np.zeros(3))
    return pin.SE3(np.eye(3), value * axis.direction)


def _add_joint(model: pin.Model, parent: int, pose: pin.SE3, axis: Axis, name: str, coordinate: Coordinate) -> int:
    kind = pin.JointModelRevoluteUnaligned if axis.turns else pin.JointModelPrismaticUnaligned
    own = name == coordinate.name
    limits = [np.array([value]) for value in ((coordinate.lower, coordinate.upper) if own else (-np.inf, np.inf))]
    unlimited = np.array([np.inf])
    added = model.addJoint(parent, kind(*axis.direction), pose, name, unlimited, unlimited, *limits)
    model.addJointFrame(added, 0)
    return int(added)
