"""Contact modes and bounds of one tick, and names of its limits.

mode    forces                      held rows     inequalities
stick   s, t, n                     S, T, N       facets of the friction cone, f_N ≥ the least force
slide   (−μ e, 1), polygon: (μ d, 1)     N             f_N ≥ the least force
open    –                           –             N v̂ ≥ −φ/dt
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from idyn.model.robot import Robot
from idyn.tasks.stack import TaskLimits
from idyn.types import Array, Kinematics


class LinkDistances(NamedTuple):
    """Bounds rows · v̇ ≥ least [m/s²] that keep links apart. rows (k, nv), least (k); links: names of the two links (k)"""

    rows: Array
    least: Array
    links: tuple[tuple[str, str], ...]


def name_of(robot: Robot, keys: Sequence[str], corners: int, apart: LinkDistances, number: int) -> str:
    """Return the name of a limit, by its number in `idyn.tasks.limits`. corners: of the friction polygon"""
    i, facet = divmod(number, 1 + corners)
    if i < len(keys):
        return f"{'friction' if facet else 'normal force'} of contact {keys[i]}"
    joint, which = divmod(number - len(keys) * (1 + corners), 4)
    if joint < robot.na:
        return f"{'torque' if which < 2 else 'motion'} limit of {robot.joint_names[joint]}"
    one, other = apart.links[number - len(keys) * (1 + corners) - 4 * robot.na]
    return f"self-collision of {one} and {other}"


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
