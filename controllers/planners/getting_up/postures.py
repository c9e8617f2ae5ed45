"""Postures of a robot that gets up, given for the legs of its left side and mirrored to those of the right side."""

import numpy as np

from idyn.errors import ConfigError, nearest
from idyn.model.robot import Robot
from idyn.types import Array, Record

MIRRORED = 0.02
"""Largest distance between a joint and the mirror image of its counterpart [m]; the same for the directions of their axes."""


class Sides(Record, frozen=True):
    """Symmetry of a robot about the xz plane of its base.

    left: whether a joint is on the left side (na)
    partner: the joint on the other side (na)
    sign: angle of the partner in a mirrored posture, per angle of the joint, 1 or −1 (na)
    """

    left: Array
    partner: Array
    sign: Array


def sides_of(robot: Robot) -> Sides:
    """Return the symmetry of a robot. Raises ConfigError for a robot whose joints are not in pairs of hinges."""
    neutral = robot.neutral()
    joints = robot.tree.dof_joint[robot.tree.a]
    axes = robot.terms(neutral, np.zeros(robot.nv)).axes[robot.tree.a, 3:].copy()
    places = robot.place(neutral)[1][joints].copy()
    # the mirror image of a rotation about w is one about −(w − 2 w_y e_y)
    images, turned = places * [1.0, -1.0, 1.0], axes * [-1.0, 1.0, -1.0]
    along = turned @ axes.T
    apart = np.linalg.norm(images[:, None] - places[None], axis=2) + (1.0 - np.abs(along))
    partner = apart.argmin(axis=1)
    alone = (apart.min(axis=1) > MIRRORED) | (partner == np.arange(len(partner)))
    if alone.any():
        name = robot.joint_names[int(alone.argmax())]
        raise ConfigError("reference.kind", f"'get-up' needs legs of hinges in pairs left and right; '{name}' has no partner")
    sign = np.sign(np.take_along_axis(along, partner[:, None], axis=1)[:, 0])
    return Sides(left=places[:, 1] > 0.0, partner=partner, sign=sign)


def posture(robot: Robot, sides: Sides, others: Array, angles: dict[str, float], where: str) -> Array:
    """Return a symmetric posture [rad] (na).

    others: angles of joints that are left out [rad] (na); angles: of joints of the left side; where: path in errors
    Raises ConfigError for an unknown joint, one of the right side, or an angle beyond its limits.
    """
    result, names = others.copy(), list(robot.joint_names)
    for name, angle in angles.items():
        if name not in names or not sides.left[names.index(name)]:
            left = [each for each, there in zip(names, sides.left, strict=True) if there]
            raise ConfigError(f"{where}.{name}", f"expected a joint of the left side{nearest(name, left)}")
        k = names.index(name)
        result[k], result[sides.partner[k]] = angle, sides.sign[k] * angle
    return within_limits(robot, result, where)


def within_limits(robot: Robot, angles: Array, where: str) -> Array:
    """Return the angles [rad] (na). Raises ConfigError, with the path `where`, for a joint beyond its limits."""
    limits = robot.limits
    beyond = (angles < limits.q_min) | (angles > limits.q_max)
    if beyond.any():
        k = int(beyond.argmax())
        expected = f"expected {limits.q_min[k]:g} to {limits.q_max[k]:g} rad of {robot.joint_names[k]}"
        raise ConfigError(where, f"{expected}, got {angles[k]:g}")
    return angles
