"""The two feet of a robot: frames, soles, and where they are."""

from typing import NamedTuple

import numpy as np

from idyn.errors import ConfigError
from idyn.model.robot import Robot
from idyn.types import Array

FLAT = 1e-3
"""Soles that are smaller than this are points [m]."""


class Pose(NamedTuple):
    """Pose of a sole on level ground: its centre in the world [m] (3), its heading [rad]."""

    position: Array
    yaw: float


class Foot(NamedTuple):
    """A foot.

    frame: of the URDF, to which its contact places are fixed; rows: their indices among those of the robot
    centre: of its contact spheres in the frame [m] (3); radius: of these spheres, by which the ground is lower [m]
    level: attitude of the frame on level ground with heading 0 (3, 3)
    half: half length and half width of the sole [m] (2), 0 for point feet
    """

    frame: str
    rows: Array
    centre: Array
    radius: float
    level: Array
    half: Array

    @property
    def flat(self) -> bool:
        """Whether the foot has a sole, so that its attitude is fixed while it stands."""
        return bool(self.half.min() > FLAT)

    def pose(self, robot: Robot, q: Array) -> Pose:
        """Return where the sole is in a configuration (nq)."""
        placed = robot.frames.placement(self.frame, q)
        turn = placed.rotation @ self.level.T
        centre = placed.translation + placed.rotation @ self.centre
        return Pose(centre - [0.0, 0.0, self.radius], float(np.arctan2(turn[1, 0], turn[0, 0])))

    def corners(self, pose: Pose, margin: float) -> Array:
        """Return the corners of the sole in the plane, moved inwards by a margin [m] (4, 2)."""
        x, y = np.maximum(self.half - margin, 0.0)
        return pose.position[:2] + np.array([[x, y], [x, -y], [-x, -y], [-x, y]]) @ turned(pose.yaw).T


def turned(yaw: float) -> Array:
    """Return the rotation by an angle in the plane (2, 2)."""
    c, s = np.cos(yaw), np.sin(yaw)
    return np.array([[c, -s], [s, c]])


def about_z(yaw: float) -> Array:
    """Return the rotation about the vertical (3, 3)."""
    R = np.eye(3)
    R[:2, :2] = turned(yaw)
    return R


def feet_of(robot: Robot, stance: Array) -> tuple[Foot, Foot]:
    """Return the left and the right foot. Raises ConfigError unless the contact places are on two links.

    stance: level configuration with heading 0 (nq)
    """
    groups: dict[str, list[int]] = {}
    for row, place in enumerate(robot.description.contact):
        groups.setdefault(place.frame, []).append(row)
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
        half=0.5 * (high - low)[:2],
    )
    return foot, float((placed.translation + middle)[1])
