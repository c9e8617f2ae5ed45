"""Contact modes: the forces that a mode permits, f = B ζ, the rows of contact velocity that it holds, and its inequalities.

mode    forces                      held rows     inequalities
stick   s, t, n                     S, T, N       facets of the friction cone, f_N ≥ the least force
slide   (−μ e, 1), polygon: (μ d, 1)     N             f_N ≥ the least force
open    –                           –             N v̂ ≥ −φ/dt
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from idyn.laws.law import Law, polygon
from idyn.library.kernels import entry
from idyn.library.records import Vector, written
from idyn.model.robot import Robot
from idyn.tasks.follow import OPEN, STICK
from idyn.tasks.stack import TaskLimits
from idyn.types import Array, Kinematics

ROUND = polygon(8)
"""Corners of the polygon that stands for the friction cone of laws with round cones."""


class ModeRows(NamedTuple):
    """Linear description of the modes of n contacts."""

    B: Array  # columns of permitted forces in rows S, T, N of each contact (3n, m)
    held: Array  # indices of the held rows of the contact Jacobian
    facets: Array  # rows on f with facets · f ≥ least (k, 3n); least [N] (k)
    least: Array
    of: tuple[tuple[int, str], ...]  # contact and kind of each row, for outcomes (k)


def corners_of(law: Law) -> Array:
    """Return the corners of the polygon within which friction is planned (k, 2)."""
    return ROUND if law.round_cones else law.directions


def mode_rows(kinds: Array, friction: Array, mu: Array, law: Law, limits: TaskLimits) -> ModeRows:
    """Return the linear description of contact modes.

    kinds: of the modes (n); friction: per normal force of contacts that slide (n, 2); mu: friction coefficients (n)
    """
    arrays = kinds, friction, mu, corners_of(law)
    given = tuple(array.tobytes() for array in arrays)
    return _mode_rows(given, law.unlimited_friction, limits.friction_margin, limits.normal_force)


@lru_cache(maxsize=256)
def _mode_rows(given: tuple[bytes, ...], unlimited: bool, margin: float, least: float) -> ModeRows:
    """Return `mode_rows` for the bytes of its arrays: modes and friction rarely change from tick to tick. given: of kinds,
    friction, mu, and corners of the friction polygon (k, 2); unlimited: whether every μ > 0 counts as ∞"""
    kinds, friction, mu, corners = given
    slip, polygon_corners = (np.frombuffer(each).reshape(-1, 2) for each in (friction, corners))
    mus = np.frombuffer(mu)
    reaches, n = np.where(np.isinf(mus) | ((mus > 0.0) & unlimited), np.inf, mus * (1.0 - margin)), len(mus)
    columns: list[Array] = []
    held: list[int] = []
    facets: list[tuple[Array, float, tuple[int, str]]] = []
    for i, kind in enumerate(np.frombuffer(kinds, np.int64).tolist()):
        if kind == OPEN:
            continue
        normal = _row(n, i, np.zeros(2), 1.0)
        facets.append((normal, least, (i, "normal force")))
        if kind == STICK and mus[i] > 0.0:
            columns += [_row(n, i, np.array([1.0, 0.0]), 0.0), _row(n, i, np.array([0.0, 1.0]), 0.0), normal]
            held += [3 * i, 3 * i + 1, 3 * i + 2]
            if reaches[i] < np.inf:
                # between corners d and d′: (d + d′) · f_T ≤ μ (d + d′) · d f_N
                for a, b in zip(polygon_corners, np.roll(polygon_corners, -1, axis=0), strict=True):
                    facets.append((_row(n, i, -(a + b), reaches[i] * float((a + b) @ a)), 0.0, (i, "friction")))
        else:
            columns.append(_row(n, i, slip[i], 1.0))
            held.append(3 * i + 2)
    return ModeRows(
        B=np.ascontiguousarray(np.array(columns).reshape(len(columns), 3 * n).T),
        held=np.array(held, np.int64),
        facets=np.array([row for row, _, _ in facets]).reshape(len(facets), 3 * n),
        least=np.array([least for _, least, _ in facets]),
        of=tuple(which for _, _, which in facets),
    )


def _row(n: int, i: int, tangential: Array, normal: float) -> Array:
    row = np.zeros(3 * n)
    row[3 * i : 3 * i + 2], row[3 * i + 2] = tangential, normal
    return row


def opposing(law: Law, mu: float, direction: Array) -> Array:
    """Return the friction per normal force of a contact that slides along a unit direction (2): against it for round cones,
    else μ times the corner of the polygon that opposes it most. 0 for an unknown direction (0), and for unlimited friction."""
    if not direction.any() or np.isinf(mu) or law.unlimited_friction:
        return np.zeros(2)
    corners = law.directions
    against: Array = -direction if law.round_cones else corners[int(np.argmin(corners @ direction))]
    return mu * against


class LinkDistances(NamedTuple):
    """Bounds rows · v̇ ≥ least [m/s²] that keep links apart. rows (k, nv), least (k); links: names of the two links (k)"""

    rows: Array
    least: Array
    links: tuple[tuple[str, str], ...]

    def keep(self, motion: Array) -> bool:
        """Return whether a motion v̇ (nv) is within the bounds."""
        return not len(self.least) or bool((self.rows @ motion >= self.least).all())


def names_of(robot: Robot, keys: Sequence[str], modes: ModeRows, apart: LinkDistances) -> list[str]:
    """Return a name for each limit of a `idyn.tasks.held.Program`."""
    contacts = [f"{kind} of contact {keys[i]}" for i, kind in modes.of]
    return (
        contacts
        + [f"torque limit of {name}" for name in robot.joint_names]
        + [f"motion limit of {name}" for name in robot.joint_names]
        + [f"self-collision of {one} and {other}" for one, other in apart.links]
    )


def joint_bounds(robot: Robot, angles: Array, v: Array, dt: float, limits: TaskLimits) -> tuple[Array, Array]:
    """Return bounds of the joint accelerations [rad/s²] (na): velocity limits, and position limits that leave the way to stop
    with the deceleration `limits.braking`. They never contradict each other.

    The joint velocity v′ after dt may be at most the root of v′²/2c = q_max − q − v′ dt, c the deceleration, and 0 at or
    beyond the limit; bounds that a joint cannot meet at once are approached with the deceleration c.
    """
    own, (lower, upper) = robot.limits, np.empty((2, robot.na))
    given = angles, v, own.q_min, own.q_max, own.v_max
    fill_bounds(given, (lower, upper), dt, limits.braking, limits.acceleration, limits.joints)
    return lower, upper


def distance_bounds(robot: Robot, state: Kinematics, dt: float, limits: TaskLimits) -> LinkDistances:
    """Return bounds that keep the distances of `limits.self_collision`, as those of joint positions: the speed s of approach
    after dt may be at most the root of s²/2c = distance − least distance − s dt, c the deceleration. Links that are too near
    move apart in the same manner. Bounds that links cannot meet at once are approached with the deceleration c."""
    kept = limits.self_collision
    if kept is None:
        return _no_distances(robot.nv)
    links, distances, rows = kept.near(robot, state)
    room, c = distances - kept.distance, kept.braking
    fastest = np.copysign(np.sqrt((c * dt) ** 2 + 2.0 * c * np.abs(room)) - c * dt, room)
    return LinkDistances(rows, np.minimum((-fastest - rows @ state.v) / dt, c), links)


@lru_cache(maxsize=16)
def _no_distances(nv: int) -> LinkDistances:
    return LinkDistances(np.zeros((0, nv)), np.zeros(0), ())


@entry((Vector, Vector, Vector, Vector, Vector), written((Vector, Vector)), float, float, float, bool)
def fill_bounds(given: tuple[Array, ...], out: tuple[Array, Array], dt: float, c: float, most: float, limited: bool) -> None:
    """Fill `joint_bounds`. given: (angles, velocities, least and largest angles, largest speeds), each (na); c: deceleration;
    most: largest acceleration; limited: whether the joints have limits"""
    (q, v, q_min, q_max, v_max), (lower, upper) = given, out
    for k in range(len(q)):
        lower[k], upper[k] = -most, most
        if limited:
            fastest = min(v_max[k], np.sqrt((c * dt) ** 2 + 2.0 * c * max(q_max[k] - q[k], 0.0)) - c * dt)
            slowest = -min(v_max[k], np.sqrt((c * dt) ** 2 + 2.0 * c * max(q[k] - q_min[k], 0.0)) - c * dt)
            upper[k] = min(max((fastest - v[k]) / dt, -c, -most), most)
            lower[k] = min(max(min((slowest - v[k]) / dt, c), -most), most)
