"""Limits of the solution: names, bounds of the joint accelerations, and of those of distances between links."""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import FLAG, REAL, VECTOR, compiled
from idyn.jit.entry import Borrowed, Output, entry_point
from idyn.model.robot import Robot
from idyn.tasks.modes import ModeRows
from idyn.tasks.stack import TaskLimits
from idyn.types import Array, Kinematics


class LinkDistances(NamedTuple):
    """Bounds rows · v̇ ≥ least [m/s²] that keep links apart. rows (k, nv), least (k); links: names of the two links (k)"""

    rows: Array
    least: Array
    links: tuple[tuple[str, str], ...]

    def keep(self, motion: Array) -> bool:
        """Return whether a motion v̇ (nv) is within the bounds."""
        return not len(self.least) or bool((self.rows @ motion >= self.least).all())


def names_of(robot: Robot, keys: Sequence[str], modes: ModeRows, apart: LinkDistances) -> list[str]:
    """Return a name for each limit of a `idyn.tasks.limited.program.Program`."""
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
    _fill_bounds()(given, (lower, upper), dt, limits.braking, limits.acceleration, limits.joints)
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


@cache
def _fill_bounds() -> Callable[..., None]:
    given = Borrowed(VECTOR, VECTOR, VECTOR, VECTOR, VECTOR)
    return entry_point(fill_bounds, given, Output(VECTOR, VECTOR), REAL, REAL, REAL, FLAG)


@compiled
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
