"""How far the legs may straighten: a straight knee moves its foot neither nearer to the hip nor farther away.

A foot that is to lift then takes the base with it: g1 that was caught on feet 0.4 m apart was thrown upwards by 0.5 m/s.
"""

from collections.abc import Iterator

import numpy as np
from scipy.optimize import minimize_scalar

from controllers.planners.two_legs.feet import Foot
from idyn.model.robot import Robot
from idyn.types import Array

BENT = 0.2  # least angle of a knee from straight, at most half of the stance's [rad]
SAMPLES = 21  # of the angles of a joint


def bent_knees(robot: Robot, stance: Array, feet: tuple[Foot, Foot]) -> tuple[tuple[str, float, float], ...]:
    """Return the least and largest angles of the knees [rad], see `idyn.tasks.TaskLimits.angles`.

    stance: level configuration (nq)
    The knee is the joint of a leg that changes the distance from hip to foot most. It is straight where this is largest.
    """
    return tuple(found for foot in feet for found in _knee(robot, stance, foot, feet))


def _knee(robot: Robot, stance: Array, foot: Foot, feet: tuple[Foot, Foot]) -> Iterator[tuple[str, float, float]]:
    tree, limits, angles = robot.tree, robot.limits, robot.joint_angles(stance)
    first, last = (tree.support[robot.frames.attached(each.frame).joint, tree.a] for each in feet)
    turns = np.abs(robot.terms(stance, np.zeros(robot.nv)).axes[tree.a, 3:]).max(axis=1) > 0.1
    own = tree.support[robot.frames.attached(foot.frame).joint, tree.a] & (first != last)
    low, high = np.maximum(limits.q_min, angles - np.pi), np.minimum(limits.q_max, angles + np.pi)
    found: tuple[float, int] = 0.0, -1
    for k in np.flatnonzero(own & turns).tolist():
        lengths = [_length(robot, stance, foot, own, k, angle) for angle in np.linspace(low[k], high[k], SAMPLES)]
        found = max(found, (max(lengths) - min(lengths), k))
    if (k := found[1]) >= 0:
        shorter = minimize_scalar(
            lambda x: -_length(robot, stance, foot, own, k, x), bounds=(low[k], high[k]), method="bounded"
        )
        straight = float(shorter.x)
        way = angles[k] - straight
        bound = straight + float(np.copysign(min(BENT, 0.5 * abs(way)), way))
        yield robot.joint_names[k], *((bound, np.inf) if way >= 0.0 else (-np.inf, bound))


def _length(robot: Robot, stance: Array, foot: Foot, own: Array, joint: int, angle: float) -> float:
    """Return the distance from the first joint of a leg to its sole with one joint at another angle [m]."""
    angles = robot.joint_angles(stance)
    angles[joint] = angle
    q = robot.with_joint_angles(stance, angles)
    hip = robot.terms(q, np.zeros(robot.nv)).placements[robot.tree.dof_joint[robot.tree.a[own.argmax()]], 9:]
    at = robot.frames.placement(foot.frame, q)
    return float(np.linalg.norm(at.translation + at.rotation @ foot.centre - hip))
