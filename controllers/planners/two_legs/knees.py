"""How far the legs may straighten: a straight knee moves its foot neither nearer to the hip nor farther away.

A foot that is to lift then takes the base with it: g1 that was caught on feet 0.4 m apart was thrown upwards by 0.5 m/s.
"""

from collections.abc import Iterator

import numpy as np

from controllers.planners.two_legs.feet import Foot
from idyn.model.robot import Robot
from idyn.types import Array

BENT = 0.2  # least angle of a knee from straight, at most half of the stance's [rad]
SAMPLES, EXACT = 21, 1e-3  # number of angles of a joint that are tried; error of that where it is straight [rad]


def bent_knees(robot: Robot, stance: Array, feet: tuple[Foot, Foot]) -> tuple[tuple[str, float, float], ...]:
    """Return the least and largest angles of the knees [rad], see `idyn.tasks.TaskLimits.angles`.

    stance: level configuration (nq)
    The knee is the joint of a leg that changes the distance from hip to foot most; legs where this joint slides have none. It
    is straight where the distance from hip to ankle, the next joint, is largest, and bends to the side of the stance; if that
    is nearly straight, to the side where there is more room.
    """
    return tuple(found for foot in feet for found in _knee(robot, stance, foot, feet))


def _knee(robot: Robot, stance: Array, foot: Foot, feet: tuple[Foot, Foot]) -> Iterator[tuple[str, float, float]]:
    tree, limits, angles = robot.tree, robot.limits, robot.joint_angles(stance)
    first, last = (tree.support[robot.frames.attached(each.frame).joint, tree.a] for each in feet)
    own = np.flatnonzero(tree.support[robot.frames.attached(foot.frame).joint, tree.a] & (first != last)).tolist()
    low, high = np.maximum(limits.q_min, angles - np.pi), np.minimum(limits.q_max, angles + np.pi)

    def length(joint: int, angle: float, ankle: int | None) -> float:
        """Return the distance from hip to ankle, None: to the sole, with one joint at another angle [m]."""
        moved = angles.copy()
        moved[joint] = angle
        q = robot.with_joint_angles(stance, moved)
        places = robot.terms(q, np.zeros(robot.nv)).placements[tree.dof_joint[tree.a], 9:]
        sole = robot.frames.placement(foot.frame, q)
        end = sole.translation + sole.rotation @ foot.centre if ankle is None else places[ankle]
        return float(np.linalg.norm(end - places[own[0]]))

    found: tuple[float, int] = 0.0, -1
    for k in own:
        lengths = [length(k, angle, None) for angle in np.linspace(low[k], high[k], SAMPLES)]
        found = max(found, (max(lengths) - min(lengths), k))
    k = found[1]
    if k < 0 or np.abs(robot.terms(stance, np.zeros(robot.nv)).axes[tree.a[k], 3:]).max() < 0.1:
        return
    ankle = next((joint for joint in own if joint > k), None)
    straight, near = 0.5 * (low[k] + high[k]), 0.5 * (high[k] - low[k])
    while near > EXACT:
        tried = np.clip(np.linspace(straight - near, straight + near, SAMPLES), low[k], high[k])
        straight, near = max((length(k, angle, ankle), angle) for angle in tried.tolist())[1], 2.0 * near / (SAMPLES - 1)
    way = float(angles[k]) - straight
    side = float(np.sign(way)) if abs(way) > BENT else 1.0 if high[k] - straight >= straight - low[k] else -1.0
    bend = side * way  # of the stance
    bound = straight + side * min(BENT, 0.5 * bend if bend > 0.0 else bend)
    yield robot.joint_names[k], *((bound, np.inf) if side > 0.0 else (-np.inf, bound))
