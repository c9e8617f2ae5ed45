"""What a robot looks like: the shapes of its URDF, each fixed to a joint. The door to Pinocchio's geometry."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pinocchio as pin

from idyn.robot import Robot
from idyn.types import Array, Record
from sim_harness.view.meshes import Mesh, thinned

MESH_TRIANGLES = 4000
"""A mesh is thinned to so many triangles at most: a robot of a dozen different meshes takes about a megabyte."""

GREY = (0.62, 0.65, 0.69)
"""Colour of a shape that has none."""


class Shape(Record, frozen=True):
    """A rigid shape.

    joint: index of the joint that carries it, 0 for the world
    kind, size: a box's edges, a sphere's radius, a cylinder's radius and length along z, all centred; a mesh has no size [m]
    placement: its frame in the joint's, position then quaternion xyzw (7)
    colour: red, green, blue from 0 to 1
    """

    joint: int
    kind: Literal["box", "sphere", "cylinder", "mesh"]
    size: tuple[float, ...]
    placement: Array
    colour: tuple[float, ...]
    mesh: Mesh | None = None


class Look(Record, frozen=True):
    """A robot's shapes; note: what the reader should know about them, empty when they are those of the URDF's visuals."""

    shapes: list[Shape]
    note: str


def look_of(robot: Robot, folders: Sequence[Path]) -> Look:
    """The visuals of the URDF; without its mesh files the collision shapes; without those lines from joint to joint.

    folders: where `package://` paths may begin, besides `ROS_PACKAGE_PATH`
    """
    root = pin.JointModelFreeFlyer() if robot.base == "free_flyer" else None
    model = pin.buildModelFromXML(robot.urdf, root) if root else pin.buildModelFromXML(robot.urdf)
    notes = []
    for kind, name in ((pin.GeometryType.VISUAL, "visual"), (pin.GeometryType.COLLISION, "collision")):
        try:
            geometry = pin.buildGeomFromUrdfString(model, robot.urdf, kind, package_dirs=[str(folder) for folder in folders])
        except ValueError as error:
            notes.append(f"{name} shapes: {str(error).splitlines()[0]}")
            continue
        if geometry.ngeoms:
            return Look(shapes=_shapes(geometry), note="; ".join(notes))
        notes.append(f"the URDF has no {name} shapes")
    return Look(shapes=_sticks(model), note="; ".join(notes))


def _shapes(geometry: Any) -> list[Shape]:
    meshes: dict[tuple[str, tuple[float, ...]], Mesh] = {}
    shapes = []
    for item in geometry.geometryObjects:
        colour = tuple(map(float, item.meshColor[:3])) if item.overrideMaterial else GREY
        common: dict[str, Any] = {"joint": int(item.parentJoint), "colour": colour}
        body = item.geometry
        match type(body).__name__:
            case "Box":
                shapes.append(Shape(kind="box", size=tuple(2 * body.halfSide), placement=_placement(item.placement), **common))
            case "Sphere":
                shapes.append(Shape(kind="sphere", size=(body.radius,), placement=_placement(item.placement), **common))
            case "Cylinder" | "Capsule" as kind:
                long, placement = 2 * body.halfLength, _placement(item.placement)
                shapes.append(Shape(kind="cylinder", size=(body.radius, long), placement=placement, **common))
                for end in (-body.halfLength, body.halfLength) if kind == "Capsule" else ():
                    cap = _placement(item.placement * pin.SE3(np.eye(3), np.array([0.0, 0.0, end])))
                    shapes.append(Shape(kind="sphere", size=(body.radius,), placement=cap, **common))
            case _:
                key = item.meshPath, tuple(item.meshScale)
                if key not in meshes:
                    meshes[key] = thinned(_mesh(body), MESH_TRIANGLES)
                shapes.append(Shape(kind="mesh", size=(), placement=_placement(item.placement), mesh=meshes[key], **common))
    return shapes


def _mesh(body: Any) -> Mesh:
    triangles = [(t[0], t[1], t[2]) for t in map(body.tri_indices, range(body.num_tris))]
    return Mesh(vertices=np.array(body.vertices()), triangles=np.array(triangles, dtype=np.int64).reshape(-1, 3))


def _sticks(model: Any) -> list[Shape]:
    """A thin cylinder from each joint to each that hangs on it."""
    shapes = []
    for child in range(2, model.njoints):
        along = np.array(model.jointPlacements[child].translation)
        length = float(np.linalg.norm(along))
        if length > 0.0:
            turn = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), along)
            placement = _placement(pin.SE3(turn, 0.5 * along))
            size = (min(0.05 * length, 0.02), length)
            shapes.append(Shape(joint=int(model.parents[child]), kind="cylinder", size=size, placement=placement, colour=GREY))
    return shapes


def _placement(place: Any) -> Array:
    return np.array(pin.SE3ToXYZQUAT(place))
