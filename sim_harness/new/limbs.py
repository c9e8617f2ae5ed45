"""Limbs of a robot, and the contact places of those that are feet, from the tree of joints and the collision shapes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from idyn.model.description import ContactPoint, Sole
from idyn.model.frames import Placement
from idyn.model.robot import Robot
from idyn.model.so3 import rotation
from idyn.types import Array
from sim_harness.shapes import Shape

FRICTION = 0.8  # friction coefficient of contact places
NEAR_GROUND = 0.15  # a limb is a leg if its lowest point is within this share of the robot's height above the lowest one
FLAT = 0.004  # points of a foot up to this height above its lowest one belong to its sole [m]
LONG = 0.25  # least length of a leg, as a share of the robot's height: fingers and castors are shorter

UP = {
    "x": (0.0, -np.pi / 2, 0.0),
    "-x": (0.0, np.pi / 2, 0.0),
    "y": (np.pi / 2, 0.0, 0.0),
    "-y": (-np.pi / 2, 0.0, 0.0),
}
"""Axis of the base → rotation vector that makes it point up [rad]."""

SOLE = (0.05, 0.02)  # least length and width of a sole [m]
UPRIGHT = 0.95  # least cosine of the angle between the z axis of a sole's frame and the vertical

LEVEL, TURNS, SECTORS = 0.3, 0.95, 12
"""A wheel: the largest vertical part of the axis of its joint, and the least share of its radius that it has in each sector."""

WHEEL = "wheel: a sphere of its radius about its axle"  # source of the contact place of a wheel
ROUND = 0.002  # largest root mean square distance of points from the sphere that stands for a foot [m]


class Limb(NamedTuple):
    """A chain of joints that ends in a link without further joints."""

    joints: tuple[int, ...]  # their indices, from the trunk outwards
    frame: str  # name of a link of the last one


class Foot(NamedTuple):
    """The contact places of a leg: points, or a sole. source: where their sizes come from"""

    limb: Limb
    places: tuple[ContactPoint, ...] | Sole
    source: str

    @property
    def points(self) -> tuple[ContactPoint, ...]:
        """All points, those of a sole are its corners."""
        return self.places.corners() if isinstance(self.places, Sole) else self.places

    @property
    def is_flat(self) -> bool:
        """Whether the foot stands by itself: it touches at three points or more."""
        return len(self.points) > 2


def limbs_of(robot: Robot) -> list[Limb]:
    """Return all limbs. Two limbs have no joint in common: a chain begins after the last branch. A branch whose other sides are
    single joints, as rods and tools, is passed: by the longest side, or the one whose end is farthest from it."""
    parents, first = robot.tree.parents.tolist(), 2 if robot.floating else 1
    children: dict[int, list[int]] = {}
    for joint in range(first, len(parents)):
        children.setdefault(parents[joint], []).append(joint)
    names: dict[int, str] = {}
    for name in robot.frames.links:
        joint = robot.frames.attached(name).joint
        if joint >= first:
            names[joint] = name
    origins, limbs = robot.place(robot.neutral())[1], []
    for leaf in range(first, len(parents)):
        if leaf in children:
            continue
        chain = [leaf]
        while parents[chain[0]] >= first and _continues(parents[chain[0]], chain[0], children, origins):
            chain.insert(0, parents[chain[0]])
        limbs.append(Limb(tuple(chain), names.get(leaf, "")))
    return limbs


def _continues(joint: int, child: int, children: dict[int, list[int]], origins: Array) -> bool:
    """Return whether a limb goes on from a joint to this child: all its other children are single joints, and shorter."""
    others = [each for each in children[joint] if each != child]
    if any(each in children for each in others):
        return False
    reach = {each: float(np.linalg.norm(origins[each] - origins[joint])) for each in children[joint]}
    return child in children or all(reach[child] > reach[each] for each in others)


def feet_of(robot: Robot, shapes: Sequence[Shape], q: Array) -> list[Foot]:
    """Return the feet in the order of the joints: limbs of at least two joints that reach the ground at the configuration q."""
    placements = robot.terms(q, np.zeros(robot.nv)).placements
    points = [_points(shape, placements[shape.joint]) for shape in shapes]
    ends = {limb: _end(robot, limb, shapes, points, q) for limb in limbs_of(robot)}
    cloud = np.vstack([*points, *ends.values()])
    ground, height = cloud[:, 2].min(), float(np.ptp(cloud[:, 2]))
    legs = [
        limb
        for limb, own in ends.items()
        if len(limb.joints) > 1
        and own[:, 2].min() < ground + NEAR_GROUND * height
        and placements[limb.joints[0], 11] - own[:, 2].min() > LONG * height
    ]
    return [_foot(robot, limb, shapes, points, q) for limb in legs]


def legs_with_other_axis_up(robot: Robot, shapes: Sequence[Shape], q: Array) -> tuple[str, int]:
    """Return the axis of the base, a key of `UP`, that has the most feet when it points up in place of z, and their number."""
    numbers = {}
    for axis, turn in UP.items():
        numbers[axis] = len(
            feet_of(robot, shapes, robot.integrate(q, np.array([0.0, 0.0, 0.0, *turn, *np.zeros(robot.nv - 6)])))
        )
    return max(numbers.items(), key=lambda each: each[1])


def provisional_feet(robot: Robot, shapes: Sequence[Shape], q: Array) -> list[Foot]:
    """Return a foot at the end of every limb of at least two joints, whether or not it reaches the ground at q."""
    placements = robot.terms(q, np.zeros(robot.nv)).placements
    points = [_points(shape, placements[shape.joint]) for shape in shapes]
    found = []
    for limb in limbs_of(robot):
        if len(limb.joints) > 1:
            pose = robot.frames.placement(limb.frame, q)
            own = _end(robot, limb, shapes, points, q)
            end = own[np.linalg.norm(own - placements[limb.joints[-1], 9:], axis=1).argmax()]
            place = _sphere(limb.frame, (end - pose.translation) @ pose.rotation, 0.0)
            found.append(Foot(limb, (place,), "end of the limb"))
    return found


def _end(robot: Robot, limb: Limb, shapes: Sequence[Shape], points: Sequence[Array], q: Array) -> Array:
    """Return the points of a limb's last link in the world; its frame's origin if it has no shapes."""
    own = [cloud for shape, cloud in zip(shapes, points, strict=True) if shape.joint == limb.joints[-1]]
    return np.vstack(own) if own else robot.frames.placement(limb.frame, q).translation[None]


def _points(shape: Shape, placement: Array) -> Array:
    if shape.kind == "mesh" and shape.mesh is not None:
        local = shape.mesh.vertices
    elif shape.kind == "box":
        local = 0.5 * np.array(shape.size) * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    elif shape.kind == "sphere":
        local = shape.size[0] * _sphere_directions()
    else:
        angles = np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False)
        ring = shape.size[0] * np.column_stack([np.cos(angles), np.sin(angles)])
        half = 0.5 * shape.size[1]
        local = np.vstack([np.column_stack([ring, np.full(24, z)]) for z in (-half, half)])
    in_joint = local @ rotation(shape.placement[3:]).T + shape.placement[:3]
    world: Array = in_joint @ placement[:9].reshape(3, 3) + placement[9:]  # placements hold rotations by columns
    return world


def _sphere_directions() -> Array:
    """Return unit vectors in all directions, among them −z."""
    polar, around = np.meshgrid(np.linspace(0.0, np.pi, 13), np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False))
    sine = np.sin(polar.ravel())
    return np.column_stack([sine * np.cos(around.ravel()), sine * np.sin(around.ravel()), np.cos(polar.ravel())])


def _foot(robot: Robot, limb: Limb, shapes: Sequence[Shape], points: Sequence[Array], q: Array) -> Foot:
    """Return the contact places of a leg, from the lowest shapes of its last link."""
    own = [k for k, shape in enumerate(shapes) if shape.joint == limb.joints[-1]]
    pose = robot.frames.placement(limb.frame, q)
    if not own:
        return Foot(limb, (ContactPoint(frame=limb.frame, mu=FRICTION),), "no shape: the origin of the frame")
    lowest = min(points[k][:, 2].min() for k in own)
    low = [k for k in own if points[k][:, 2].min() < lowest + FLAT]
    clouds = {k: (points[k] - pose.translation) @ pose.rotation for k in low}  # in the frame
    spheres = {k: cloud for k, cloud in clouds.items() if shapes[k].kind == "sphere"}
    if len(spheres) == len(low):
        centres = [0.5 * (cloud.min(axis=0) + cloud.max(axis=0)) for cloud in spheres.values()]
        places = [_sphere(limb.frame, centre, shapes[k].size[0]) for k, centre in zip(spheres, centres, strict=True)]
        return Foot(limb, tuple(places), "collision sphere")
    cloud, kind, up = np.vstack(list(clouds.values())), shapes[low[0]].kind, pose.rotation[2]
    heights = cloud @ up - float((cloud @ up).min())
    bottom = cloud[heights < FLAT]
    if wheel := _wheel(robot, limb, np.vstack([points[k] for k in low]), q):
        centre, radius = wheel
        place = _sphere(limb.frame, (centre - pose.translation) @ pose.rotation, radius)
        return Foot(limb, (place,), WHEEL)
    level, source = _with_level_frame(robot, limb, q), f"lowest points of its collision {kind}"
    ground = bottom @ pose.rotation.T + pose.translation
    if level is not None and (sole := _sole(robot, level, ground, q)) is not None:
        return Foot(level, sole, source)
    if level is None and (corners := _corners(limb.frame, pose, ground)):
        return Foot(limb, corners, source)
    fitted = _fitted_sphere(cloud, heights)
    if fitted is not None:
        return Foot(limb, (_sphere(limb.frame, *fitted),), f"sphere fitted to its collision {kind}")
    return Foot(limb, (_sphere(limb.frame, bottom.mean(axis=0), 0.0),), f"lowest point of its collision {kind}")


def _wheel(robot: Robot, limb: Limb, points: Array, q: Array) -> tuple[Array, float] | None:
    """Return centre and radius of a wheel [m]: points all around the axis of the last joint, which is level; None for any other
    foot. points: in the world"""
    row = int(np.flatnonzero(robot.tree.dof_joint == limb.joints[-1])[0])
    linear, axis = np.split(robot.terms(q, np.zeros(robot.nv)).axes[row], 2)
    if not axis.any() or abs(axis[2]) > LEVEL:
        return None
    axle = np.cross(axis, linear)  # its point nearest to the world's origin
    along = (points - axle) @ axis
    arms = points - axle - np.outer(along, axis)
    across = np.cross(axis, [0.0, 0.0, 1.0])
    turns = np.arctan2(arms[:, 2], arms @ (across / np.linalg.norm(across)))
    reach, sector = np.linalg.norm(arms, axis=1), np.floor(turns * SECTORS / (2.0 * np.pi)).astype(np.int64) % SECTORS
    farthest = np.zeros(SECTORS)
    np.maximum.at(farthest, sector, reach)
    if farthest.min() < TURNS * reach.max():
        return None
    return axle + 0.5 * (along.min() + along.max()) * axis, float(reach.max())


def _with_level_frame(robot: Robot, limb: Limb, q: Array) -> Limb | None:
    """Return the limb with a frame of its last link whose z axis points up: its own if possible; None if there is none."""
    others = [name for name in robot.frames.names if robot.frames.attached(name).joint == limb.joints[-1]]
    frames = [limb.frame, *(name for name in others if name not in robot.tree.dof_names)]
    level = (name for name in frames if robot.frames.placement(name, q).rotation[2, 2] > UPRIGHT)
    frame = next(level, None)
    return None if frame is None else limb._replace(frame=frame)


def _sole(robot: Robot, limb: Limb, points: Array, q: Array) -> Sole | None:
    """Return the rectangle that contains the lowest points of a foot; None if they are not wide enough. points: in the world"""
    pose = robot.frames.placement(limb.frame, q)
    bottom = (points - pose.translation) @ pose.rotation
    size, middle = np.ptp(bottom, axis=0), 0.5 * (bottom.min(axis=0) + bottom.max(axis=0))
    if not _is_sole(size[:2]):
        return None
    x, y = np.round(middle[:2], 4).tolist()
    length, width, z = np.round([size[0], size[1], bottom[:, 2].min()], 4).tolist()
    return Sole(frame=limb.frame, length=length, width=width, offset=(x, y, z), mu=FRICTION)


def _is_sole(size: Array) -> bool:
    return bool(size.max() > SOLE[0] and size.min() > SOLE[1])


def _corners(frame: str, pose: Placement, points: Array) -> tuple[ContactPoint, ...]:
    """Return the corners of the rectangle along the longest side of the lowest points of a foot, in a frame without a level
    axis; () if they are not wide enough. points: in the world"""
    middle = points[:, :2].mean(axis=0)
    along = np.linalg.svd(points[:, :2] - middle, full_matrices=False)[2]
    flat = (points[:, :2] - middle) @ along.T
    low, high = flat.min(axis=0), flat.max(axis=0)
    if not _is_sole(high - low):
        return ()
    sides = [np.array([x, y]) @ along + middle for x in (low[0], high[0]) for y in (low[1], high[1])]
    own = [(np.append(side, points[:, 2].min()) - pose.translation) @ pose.rotation for side in sides]
    return tuple(_sphere(frame, corner, 0.0) for corner in own)


def _sphere(frame: str, centre: Array, radius: float) -> ContactPoint:
    x, y, z = (np.round(centre, 4) + 0.0).tolist()  # no −0.0
    return ContactPoint(frame=frame, offset=(x, y, z), radius=round(radius, 4), mu=FRICTION)


def _fitted_sphere(cloud: Array, heights: Array) -> tuple[Array, float] | None:
    """Return centre and radius of the sphere nearest to the lowest points; None if they are on none of a foot's size."""
    for depth in (0.02, 0.012, 0.006):
        near = cloud[heights < depth]
        if len(near) < 8:
            continue
        # |x|² = 2 c·x + (r² − |c|²)
        solution, *_ = np.linalg.lstsq(np.column_stack([2.0 * near, np.ones(len(near))]), (near**2).sum(axis=1), rcond=1e-9)
        centre = solution[:3]
        radius = float(np.sqrt(max(solution[3] + centre @ centre, 0.0)))
        distances = np.linalg.norm(near - centre, axis=1) - radius
        if 0.005 < radius < 0.1 and float(np.sqrt(np.mean(distances**2))) < ROUND:
            return centre, radius
    return None
