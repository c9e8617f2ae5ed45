"""The two feet of a robot: frames, soles, where they are, the path of a swing; and the divergent component of motion.

The DCM ξ (capture point) of a linear inverted pendulum in the plane, with its centre of mass c at the height h:

    ξ = c + ċ/ω,   ω = √(g/h),   ξ̇ = ω (ξ − p),   c̈ = ω² (c − p)      p: centre of pressure
While p moves at a constant rate ṗ for the duration D,

    ξ(0) = p(0) + ṗ/ω + (ξ(D) − p(D) − ṗ/ω) e^{−ωD}
so that a plan of p gives ξ by recursion from its end, where the errors vanish [Englsberger].
"""

from collections.abc import Sequence
from math import exp
from typing import NamedTuple

import numpy as np

from idyn.errors import ConfigError
from idyn.model.robot import Robot
from idyn.types import Array

FLAT = 1e-3  # soles that are smaller than this are points [m]


class Pose(NamedTuple):
    """Pose of a sole on level ground: its centre in the world [m] (3), its heading [rad]."""

    position: Array
    yaw: float


class Foot(NamedTuple):
    """A foot."""

    frame: str  # of the URDF, to which its contact places are fixed
    rows: Array  # their indices among those of the robot
    centre: Array  # of its contact spheres in the frame [m] (3)
    radius: float  # of these spheres, by which the ground is lower [m]
    level: Array  # attitude of the frame on level ground with heading 0 (3, 3)
    half: Array  # half length and half width of the sole [m] (2), 0 for point feet

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


class Span(NamedTuple):
    """A part of a plan: duration [s], and the centre of pressure at its start and end, between which it moves at a constant
    rate [m] (2)."""

    duration: float
    start: Array
    end: Array


def planned_dcm(spans: Sequence[Span], omega: float) -> Array:
    """Return ξ at the beginning of a plan [m] (2) that ends at rest above the last centre of pressure. omega [1/s]"""
    dcm = spans[-1].end
    for span in reversed(spans):
        if span.duration > 0.0:
            lead = (span.end - span.start) / (span.duration * omega)
            dcm = span.start + lead + (dcm - span.end - lead) * exp(-omega * span.duration)
    return dcm


def nearest_inside(point: Array, corners: Array) -> Array:
    """Return the point of the convex hull of `corners` (n, 2) that is nearest to `point` (2)."""
    hull = _hull(corners)
    if len(hull) == 1:
        return hull[0]
    nearest, least, inside = point, np.inf, len(hull) > 2
    for a, b in zip(hull, np.roll(hull, -1, axis=0), strict=True):
        edge, away = b - a, point - a
        inside = inside and edge[0] * away[1] - edge[1] * away[0] >= 0.0
        foot = a + min(max(float(edge @ away) / float(edge @ edge), 0.0), 1.0) * edge
        distance = float((point - foot) @ (point - foot))
        if distance < least:
            nearest, least = foot, distance
    return point if inside else nearest


def _hull(points: Array) -> Array:
    """Return the corners of the convex hull, counterclockwise (k, 2)."""
    ordered = sorted(set(map(tuple, points.tolist())))
    chains: list[list[tuple[float, float]]] = []
    for way in (ordered, ordered[::-1]):
        chain: list[tuple[float, float]] = []
        for p in way:
            while len(chain) > 1:
                (ax, ay), (bx, by) = chain[-2:]
                if not (bx - ax) * (p[1] - ay) - (by - ay) * (p[0] - ax) <= 0.0:  # a turn to the left
                    break
                chain.pop()
            chain.append(p)
        chains.append(chain[:-1])
    return np.array(chains[0] + chains[1] or ordered)


SETTLED = 0.06  # time before touchdown from which the target no longer changes [s]


class Swing:
    """Position and heading of a foot in the air.

    x, v, a: forward, left, up [m] and heading [rad], with their velocities and accelerations (4)
    goal: where the foot lands: position and heading (4)
    """

    def __init__(self, start: Array, goal: Array, duration: float, height: float) -> None:
        """start, goal: position and heading (4); height: of the highest point above start and goal [m]"""
        self._duration, self._height, self.goal = duration, height, goal.copy()
        self._from, self._since = (start, np.zeros(4), np.zeros(4)), 0.0
        self._coefficients = quintic(*self._from, goal, duration)
        self.x, self.v, self.a = self._from

    def aim(self, goal: Array, t: float) -> None:
        """Land at another goal (4), from the time t since lift-off on [s]; ignored shortly before touchdown."""
        left = self._duration - t
        if left < SETTLED or np.abs(goal - self.goal).max() < 1e-6:
            return
        x, v, a = self._along(t)
        self.goal, self._since = goal.copy(), t
        self._coefficients = quintic(x, v, a, goal, left)

    def move(self, t: float) -> None:
        """Set x, v, a to those at the time t since lift-off [s]; at the end the foot rests at the goal."""
        x, v, a = self._along(min(t, self._duration))
        s, T, h = min(t / self._duration, 1.0), self._duration, self._height
        # 64 h s³ (1 − s)³, of height h at s = 1/2
        x[2] += 64.0 * h * (s * (1.0 - s)) ** 3
        v[2] += 192.0 * h * (s * (1.0 - s)) ** 2 * (1.0 - 2.0 * s) / T
        a[2] += 384.0 * h * s * (1.0 - s) * (1.0 - 5.0 * s * (1.0 - s)) / (T * T)
        self.x, self.v, self.a = x, v, a

    def _along(self, t: float) -> tuple[Array, Array, Array]:
        s, c = t - self._since, self._coefficients
        powers = s ** np.arange(6.0)
        k = np.arange(6.0)
        x = powers @ c
        v = (k[1:] * powers[:5]) @ c[1:]
        a = (k[2:] * k[1:5] * powers[:4]) @ c[2:]
        return x, v, a


def quintic(x: Array, v: Array, a: Array, goal: Array, duration: float) -> Array:
    """Return the coefficients of 1, s, …, s⁵ from (x, v, a) at s = 0 to rest at `goal` at s = duration (6, n)."""
    T = duration
    d, w, b = goal - x - T * v - 0.5 * T * T * a, -v - T * a, -a
    return np.array(
        [
            x,
            v,
            0.5 * a,
            (10.0 * d - 4.0 * T * w + 0.5 * T * T * b) / T**3,
            (-15.0 * d + 7.0 * T * w - T * T * b) / T**4,
            (6.0 * d - 3.0 * T * w + 0.5 * T * T * b) / T**5,
        ]
    )
