"""Collision shapes of a robot's URDF in a MuJoCo world, meshes as convex hulls: what touches flat ground beside the feet."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.mujoco.door import mujoco
from sim_harness.mujoco.settings import MujocoSettings
from sim_harness.shapes.shapes import Shape

FLOOR = "floor"
"""Name of the plane that the hulls touch."""


def hull_name(hull: int) -> str:
    """Return the name of a hull, of its mesh and of its pair with the floor."""
    return f"hull {hull}"


def without_feet(shapes: Sequence[Shape], robot: Robot, feet: Array) -> list[Shape]:
    """Return the shapes that move and are not those of feet: with their centre inside a foot's contact sphere.

    feet: indices of the contact spheres that are feet
    """
    spheres = robot.spheres
    own = [(int(spheres.joints[i]), spheres.offsets[i], spheres.radii[i]) for i in feet]

    def is_foot(shape: Shape) -> bool:
        middle = _middle(shape)
        return any(joint == shape.joint and np.linalg.norm(middle - centre) < radius for joint, centre, radius in own)

    return [shape for shape in shapes if shape.joint and not is_foot(shape)]


def add_hulls(
    spec: mujoco.MjSpec, hulls: Sequence[Shape], body_of: Sequence[str], height: float, settings: MujocoSettings
) -> None:
    """Add the hulls, the floor and their pairs. body_of: names of the bodies of the joints; height: of the floor [m]"""
    spec.worldbody.add_geom(name=FLOOR, type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], pos=[0, 0, height])
    for i, hull in enumerate(hulls):
        add_shape(spec, spec.body(body_of[hull.joint]), hull_name(i), hull)
        add_pair(spec, hull_name(i), (hull_name(i), FLOOR), settings)


def add_shape(spec: mujoco.MjSpec, body: Any, name: str, shape: Shape, **more: Any) -> None:
    """Add a shape to the body of its joint, a mesh as its hull. more: fields of the geom"""
    kinds = mujoco.mjtGeom
    x, y, z, w = shape.placement[3:]
    if shape.mesh is not None:
        spec.add_mesh(name=name, uservert=np.ascontiguousarray(shape.mesh.vertices).ravel().tolist())
        more |= {"type": kinds.mjGEOM_MESH, "meshname": name}
    elif shape.kind == "box":
        more |= {"type": kinds.mjGEOM_BOX, "size": 0.5 * np.array(shape.size)}
    elif shape.kind == "sphere":
        more |= {"type": kinds.mjGEOM_SPHERE, "size": [shape.size[0], 0, 0]}
    else:
        more |= {"type": kinds.mjGEOM_CYLINDER, "size": [shape.size[0], 0.5 * shape.size[1], 0]}
    body.add_geom(name=name, pos=shape.placement[:3], quat=[w, x, y, z], **more)


def add_pair(spec: mujoco.MjSpec, name: str, geoms: tuple[str, str], settings: MujocoSettings) -> None:
    """Add a pair of geoms that make contact."""
    spec.add_pair(
        name=name,
        geomname1=geoms[0],
        geomname2=geoms[1],
        condim=settings.condim,
        friction=[1.0, 1.0, settings.spin, settings.roll, settings.roll],
        solref=settings.contact_solref,
        solimp=settings.solimp,
        solreffriction=settings.solreffriction or (0.0, 0.0),
    )


def _middle(shape: Shape) -> Array:
    """Return the middle of a shape in the joint frame [m] (3)."""
    place, turn = shape.placement[:3], np.empty(9)
    if shape.mesh is None:
        return np.asarray(place)
    x, y, z, w = shape.placement[3:]
    mujoco.mju_quat2Mat(turn, np.array([w, x, y, z]))
    ends = shape.mesh.vertices.min(axis=0), shape.mesh.vertices.max(axis=0)
    middle: Array = place + turn.reshape(3, 3) @ (0.5 * (ends[0] + ends[1]))
    return middle
