"""The two feet of a robot: their soles, where they are; points of the plane, and the convex hull of soles.

Points and vectors of the plane are complex numbers x + i y: the product with e^{iθ} turns by θ. Arrays hold them as (x, y).
"""

from typing import NamedTuple

import numpy as np

from controllers.robot.kinematics import feet_of as standing_places
from idyn.errors import ConfigError
from idyn.library.kernels import compiled, stack_array
from idyn.library.records import ArrayRecord, Cube, Indices, Matrix, Vector
from idyn.model.robot import Robot
from idyn.tasks.centre import turned as in_world
from idyn.types import Array

FLAT = 1e-3  # soles that are smaller than this are points [m]


class Pose(NamedTuple):
    """Pose of a sole on level ground: its centre in the world, in the plane and its height [m]; its heading [rad]; height of
    its centre above its lowest point, where it tilts [m]. A row of an array of poses has these numbers (5)."""

    place: complex
    height: float
    yaw: float
    above: float


@compiled
def point(x: Array) -> complex:
    """Return the point of the plane at the first two numbers."""
    return complex(x[0], x[1])


@compiled
def put(place: complex, x: Array) -> None:
    """Write a point of the plane to the first two numbers."""
    x[0], x[1] = place.real, place.imag


@compiled
def heading(yaw: float) -> complex:
    """Return e^{i yaw}."""
    return complex(np.cos(yaw), np.sin(yaw))


@compiled
def along(axis: complex, way: complex) -> complex:
    """Return the part of a way along an axis of length 1, and to its left."""
    return axis.conjugate() * way


@compiled
def pose_of(x: Array) -> Pose:
    """Return the pose in a row (5)."""
    return Pose(complex(x[0], x[1]), x[2], x[3], x[4])


@compiled
def put_pose(pose: Pose, x: Array) -> None:
    """Write a pose to a row (5)."""
    x[0], x[1], x[2], x[3], x[4] = pose.place.real, pose.place.imag, pose.height, pose.yaw, pose.above


class Foot(NamedTuple):
    """A foot."""

    frame: str  # of the URDF, to which its contact places are fixed
    rows: Array  # their indices among those of the robot
    centre: Array  # of its contact spheres in the frame [m] (3)
    radius: float  # of these spheres, by which the ground is lower [m]
    level: Array  # attitude of the frame on level ground with heading 0 (3, 3)
    half: tuple[float, float]  # half length and half width of the sole [m], 0 for point feet

    @property
    def flat(self) -> bool:
        """Whether the foot has a sole or an edge, so that its heading is fixed while it stands."""
        return max(self.half) > FLAT

    @property
    def edge(self) -> bool:
        """Whether it has a sole without width, or without length."""
        return self.flat and min(self.half) <= FLAT

    @property
    def along(self) -> int:
        """Direction of its longer side: 0: forward, 1: left."""
        return int(self.half[1] > self.half[0])


class Feet(ArrayRecord):
    """The left and the right foot, for kernels."""

    joints: Indices  # to which they are fixed (2)
    places: Matrix  # their centres in the joint frame [m] (2, 3)
    axes: Cube  # forward and left on level ground, in the joint frame (2, 2, 3)
    centres: Matrix  # see `Foot`
    levels: Cube
    radii: Vector
    halves: Matrix
    sides: Indices  # foot of each contact place, −1: another limb (n)

    def __init__(self, robot: Robot, feet: tuple[Foot, Foot]) -> None:
        found = [robot.frames.attached(foot.frame) for foot in feet]
        turns = [each.offset[:9].reshape(3, 3) for each in found]
        both = list(zip(turns, feet, strict=True))
        self.put(joints=np.array([each.joint for each in found]), radii=np.array([foot.radius for foot in feet]))
        self.put(places=np.array([each.offset[9:] + R @ foot.centre for each, (R, foot) in zip(found, both, strict=True)]))
        self.put(axes=np.array([(R @ foot.level[:2].T).T for R, foot in both]), halves=np.array([foot.half for foot in feet]))
        self.put(centres=np.array([foot.centre for foot in feet]), levels=np.array([foot.level for foot in feet]))
        places = np.arange(len(robot.spheres.keys))
        self.put(sides=np.where(np.isin(places, feet[1].rows), 1, np.where(np.isin(places, feet[0].rows), 0, -1)))

    def measured(self, placements: Array) -> Array:
        """Return where the soles are (2, 5). placements: of the joints, see `idyn.types.Kinematics` (njoints, 12)"""
        poses = np.empty((2, 5))
        measure(self, placements, poses)
        return poses


@compiled
def measure(feet: Feet, placements: Array, poses: Array) -> None:
    """Fill where the soles are (2, 5). placements: of the joints (njoints, 12)"""
    for side in range(2):
        at, x, f, l = placements[feet.joints[side]], feet.places[side], feet.axes[side, 0], feet.axes[side, 1]
        place = complex(at[9] + in_world(at, x[0], x[1], x[2], 0), at[10] + in_world(at, x[0], x[1], x[2], 1))
        yaw = np.arctan2(in_world(at, f[0], f[1], f[2], 1), in_world(at, f[0], f[1], f[2], 0))
        ahead, aside = in_world(at, f[0], f[1], f[2], 2), in_world(at, l[0], l[1], l[2], 2)  # vertical parts of its axes
        tilt = feet.halves[side, 0] * abs(ahead) + feet.halves[side, 1] * abs(aside)
        put_pose(Pose(place, at[11] + in_world(at, x[0], x[1], x[2], 2) - feet.radii[side], yaw, tilt), poses[side])


@compiled
def fill_corners(half: Array, pose: Pose, margin: float, corners: Array) -> None:
    """Fill the corners of a sole, moved inwards by a margin [m] (4). half: half sizes (2)"""
    turn, at = heading(pose.yaw), complex(max(half[0] - margin, 0.0), max(half[1] - margin, 0.0))
    corners[0], corners[2] = pose.place + turn * at, pose.place - turn * at
    corners[1], corners[3] = pose.place + turn * at.conjugate(), pose.place - turn * at.conjugate()


@compiled
def nearest_on_edge(half: Array, pose: Pose, place: complex) -> complex:
    """Return the point on the line of an edge that is nearest to a place. half: half sizes of the sole (2)"""
    line = heading(pose.yaw) * (1.0j if half[1] > half[0] else 1.0 + 0.0j)
    return pose.place + line * along(line, place - pose.place).real


def feet_of(robot: Robot, stance: Array) -> tuple[Foot, Foot]:
    """Return the left and the right foot. Raises ConfigError unless the robot stands on two links; those that do not touch the
    ground then, such as hands, are no feet.

    stance: level configuration with heading 0 (nq)
    """
    places = robot.description.contact
    groups: dict[str, list[int]] = {places[row].frame: [] for row in standing_places(robot, stance)}
    for row, place in enumerate(places):
        if place.frame in groups:
            groups[place.frame].append(row)
    if len(groups) != 2:
        found = ", ".join(groups) or "none"
        raise ConfigError("reference.kind", f"'two-legs' needs contact places on two links, one per foot, got: {found}")
    left, right = sorted((_foot(robot, stance, *each) for each in groups.items()), key=lambda found: -found[1])
    return left[0], right[0]


def _foot(robot: Robot, stance: Array, frame: str, rows: list[int]) -> tuple[Foot, float]:
    """Return a foot, and how far it is to the left [m]."""
    placed = robot.frames.placement(frame, stance)
    places = np.array([robot.description.contact[row].offset for row in rows]) @ placed.rotation.T
    low, high = places.min(axis=0), places.max(axis=0)
    middle = 0.5 * (low + high)
    middle[2] = low[2]
    foot = Foot(
        frame=frame,
        rows=np.array(rows),
        centre=placed.rotation.T @ middle,
        radius=float(robot.spheres.radii[rows[0]]),
        level=placed.rotation,
        half=(0.5 * float(high[0] - low[0]), 0.5 * float(high[1] - low[1])),
    )
    return foot, float((placed.translation + middle)[1])


@compiled
def nearest_inside(place: complex, corners: Array) -> complex:
    """Return the point of the convex hull of `corners` (n complex) that is nearest to a place."""
    hull = stack_array(2 * len(corners) + 1, np.complex128)
    count = _fill_hull(corners, hull)
    hull[count] = hull[0]
    nearest, least, inside = place, np.inf, count > 2
    for k in range(count):
        edge = hull[k + 1] - hull[k]
        way = along(edge, place - hull[k])  # products of the two vectors: inner, outer
        inside = inside and way.imag >= 0.0
        share = way.real / max(edge.real * edge.real + edge.imag * edge.imag, 1e-300)  # 0 on a hull of one point
        foot = hull[k] + min(max(share, 0.0), 1.0) * edge
        distance = abs(place - foot)
        if distance < least:
            nearest, least = foot, distance
    return place if inside else nearest


@compiled
def _fill_hull(points: Array, hull: Array) -> int:
    """Fill the corners of the convex hull of points, counterclockwise, and return their number. hull: room for 2 n"""
    ordered, count = stack_array(len(points), np.complex128), 0
    for i in range(len(points)):  # by x, then y, each once
        p, k = points[i], count
        while k > 0 and (ordered[k - 1].real > p.real or (ordered[k - 1].real == p.real and ordered[k - 1].imag > p.imag)):
            k -= 1
        if k > 0 and ordered[k - 1] == p:
            continue
        for j in range(count, k, -1):
            ordered[j] = ordered[j - 1]
        ordered[k] = p
        count += 1
    size = 0
    for way in range(2):  # the lower chain to the right, the upper one back
        begin = size
        for step in range(count):
            p = ordered[step if way == 0 else count - 1 - step]
            while size > begin + 1 and along(hull[size - 1] - hull[size - 2], p - hull[size - 2]).imag <= 0.0:  # no left turn
                size -= 1
            hull[size] = p
            size += 1
        size -= 1  # its end begins the other chain
    hull[0] = ordered[0]
    return max(size, 1)
