"""The two feet of a robot: frames, soles, where they are, the path of a swing; and the divergent component of motion.

Points and vectors of the plane are complex numbers x + i y: the product with e^{iθ} turns by θ.

The DCM ξ (capture point) of a linear inverted pendulum in the plane, with its centre of mass c at the height h:

    ξ = c + ċ/ω,   ω = √(g/h),   ξ̇ = ω (ξ − p),   c̈ = ω² (c − p)      p: centre of pressure
While p moves at a constant rate ṗ for the duration D,

    ξ(0) = p(0) + ṗ/ω + (ξ(D) − p(D) − ṗ/ω) e^{−ωD}
so that a plan of p gives ξ by recursion from its end, where the errors vanish [Englsberger].
"""

from cmath import rect
from collections.abc import Sequence
from math import atan2, exp, inf
from typing import NamedTuple

import numpy as np

from idyn.errors import ConfigError
from idyn.model.frames import Placement
from idyn.model.robot import Robot
from idyn.types import Array

FLAT = 1e-3  # soles that are smaller than this are points [m]


class Pose(NamedTuple):
    """Pose of a sole on level ground: its centre in the world, in the plane and its height [m]; its heading [rad]."""

    place: complex
    height: float
    yaw: float
    above: float = 0.0  # height of its centre above its lowest point, where it tilts [m]

    def four(self) -> Array:
        """Return position and heading (4)."""
        return np.array([self.place.real, self.place.imag, self.height, self.yaw])


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

    def nearest(self, point: complex, pose: Pose) -> complex:
        """Return the point nearest to `point` on the line of an edge."""
        line = rect(1.0, pose.yaw) * (1.0, 1.0j)[self.along]
        return pose.place + line * (line.conjugate() * (point - pose.place)).real

    def pose(self, placed: Placement) -> Pose:
        """Return where the sole is, for its frame's pose."""
        x, y, z = (placed.translation + placed.rotation @ self.centre).tolist()
        c, s = (placed.rotation[:2] @ self.level[0]).tolist()
        ahead, aside = (self.level[:2] @ placed.rotation[2]).tolist()  # vertical parts of its axes
        return Pose(complex(x, y), z - self.radius, atan2(s, c), self.half[0] * abs(ahead) + self.half[1] * abs(aside))

    def corners(self, pose: Pose, margin: float) -> list[complex]:
        """Return the corners of the sole, moved inwards by a margin [m]."""
        x, y = (max(half - margin, 0.0) for half in self.half)
        turn = rect(1.0, pose.yaw)
        return [pose.place + turn * each for each in (complex(x, y), complex(x, -y), complex(-x, -y), complex(-x, y))]


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
        half=(0.5 * float(high[0] - low[0]), 0.5 * float(high[1] - low[1])),
    )
    return foot, float((placed.translation + middle)[1])


class Span(NamedTuple):
    """A part of a plan: duration [s], and the centre of pressure at its start and end, between which it moves at a constant
    rate [m]."""

    duration: float
    start: complex
    end: complex


def planned_dcm(spans: Sequence[Span], omega: float) -> complex:
    """Return ξ at the beginning of a plan [m] that ends at rest above the last centre of pressure. omega [1/s]"""
    dcm = spans[-1].end
    for span in reversed(spans):
        if span.duration > 0.0:
            lead = (span.end - span.start) / (span.duration * omega)
            dcm = span.start + lead + (dcm - span.end - lead) * exp(-omega * span.duration)
    return dcm


def nearest_inside(point: complex, corners: Sequence[complex]) -> complex:
    """Return the point of the convex hull of `corners` that is nearest to `point`."""
    hull = _hull(corners)
    if len(hull) == 1:
        return hull[0]
    nearest, least, inside = point, inf, len(hull) > 2
    for a, b in zip(hull, [*hull[1:], hull[0]], strict=True):
        edge = b - a
        way = edge.conjugate() * (point - a)  # products of the two vectors: inner, outer
        inside = inside and way.imag >= 0.0
        foot = a + min(max(way.real / abs(edge) ** 2, 0.0), 1.0) * edge
        distance = abs(point - foot)
        if distance < least:
            nearest, least = foot, distance
    return point if inside else nearest


def _hull(points: Sequence[complex]) -> list[complex]:
    """Return the corners of the convex hull, counterclockwise."""
    ordered = sorted(set(points), key=lambda point: (point.real, point.imag))
    hull: list[complex] = []
    for way in (ordered, ordered[::-1]):
        chain: list[complex] = []
        for p in way:
            while len(chain) > 1 and ((chain[-1] - chain[-2]).conjugate() * (p - chain[-2])).imag <= 0.0:  # no turn to the left
                chain.pop()
            chain.append(p)
        hull += chain[:-1]
    return hull or ordered


SETTLED = 0.06  # time before touchdown from which the target no longer changes [s]
QUICKEST, FASTEST = 0.25, 1.5  # least duration of a swing [s]; speed of a foot that lands sooner than planned [m/s]


class Swing:
    """Position and heading of a foot in the air.

    x, v, a: forward, left, up [m] and heading [rad], with their velocities and accelerations (4)
    goal: where the foot lands: position and heading (4)
    """

    def __init__(self, start: Array, goal: Array, duration: float, height: float) -> None:
        """start, goal: position and heading (4); height: of the highest point above start and goal [m]"""
        self._duration, self._height, self.goal = duration, height, goal.copy()
        self._phase = self._share = self._begun = 0.0  # share of the way up and down, at the time when the duration was set
        self._from, self._since = (start, np.zeros(4), np.zeros(4)), 0.0
        self._coefficients = quintic(*self._from, goal, duration)
        self.x, self.v, self.a = self._from

    def soonest(self, goal: Array) -> float:
        """Return the least time from now to touchdown at a goal (4) [s]."""
        far = float(np.abs(goal[:2] - self.x[:2]).max())
        return max(QUICKEST * (1.0 - self._share), far / FASTEST, SETTLED)

    def aim(self, goal: Array, t: float, within: float = inf) -> None:
        """Land at another goal (4), from the time t since lift-off on, and at most the time `within` later [s]; ignored shortly
        before touchdown."""
        left = self._duration - t
        if left < SETTLED or (np.abs(goal - self.goal).max() < 1e-6 and within >= left):
            return
        if within < left:
            self._phase, self._begun, self._duration, left = self._share, t, t + within, within
        x, v, a = self._along(t)
        self.goal, self._since = goal.copy(), t
        self._coefficients = quintic(x, v, a, goal, left)

    def move(self, t: float) -> None:
        """Set x, v, a to those at the time t since lift-off [s]; at the end the foot rests at the goal."""
        x, v, a = self._along(min(t, self._duration))
        T, h = (self._duration - self._begun) / (1.0 - self._phase), self._height
        s = self._share = min(self._phase + (t - self._begun) / T, 1.0)
        # 64 h s³ (1 − s)³, of height h at s = 1/2
        x[2] += 64.0 * h * (s * (1.0 - s)) ** 3
        v[2] += 192.0 * h * (s * (1.0 - s)) ** 2 * (1.0 - 2.0 * s) / T
        a[2] += 384.0 * h * s * (1.0 - s) * (1.0 - 5.0 * s * (1.0 - s)) / (T * T)
        self.x, self.v, self.a = x, v, a

    def _along(self, t: float) -> tuple[Array, Array, Array]:
        s = t - self._since
        s2, s3, s4 = s * s, s * s * s, s * s * s * s
        powers = [1.0, s, s2, s3, s4, s4 * s]
        rates = [0.0, 1.0, 2.0 * s, 3.0 * s2, 4.0 * s3, 5.0 * s4], [0.0, 0.0, 2.0, 6.0 * s, 12.0 * s2, 20.0 * s3]
        x, v, a = np.array([powers, *rates]) @ self._coefficients
        return x, v, a


def quintic(x: Array, v: Array, a: Array, goal: Array, duration: float) -> Array:
    """Return the coefficients of 1, s, …, s⁵ from (x, v, a) at s = 0 to rest at `goal` at s = duration (6, n)."""
    T, T2, T3 = duration, duration * duration, duration * duration * duration
    rows = [
        [1.0, 0.0, 0.0, 0.0],
        [0.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 0.5, 0.0],
        [0.0, -6.0 / T2, -1.5 / T, 10.0 / T3],
        [0.0, 8.0 / T3, 1.5 / T2, -15.0 / (T3 * T)],
        [0.0, -3.0 / (T3 * T), -0.5 / T3, 6.0 / (T3 * T2)],
    ]
    return np.array(rows) @ np.array([x, v, a, goal - x])
