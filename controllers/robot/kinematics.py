"""Inverse kinematics: joint angles that carry the base elsewhere while the contact places stay where they are.

For any robot, while something is built. Legs that walk have their own, `controllers.planners.legs`: it runs in the tick, and
gives speeds and accelerations with the angles.
"""

import numpy as np

from idyn.contact.contacts import centres_of
from idyn.errors import ConfigError
from idyn.model.robot import Robot
from idyn.types import Array

CLOSED = 1e-5
"""A chain that is open by less counts as closed [m]."""

TOLERANCE = 1e-11
"""Largest error of a contact place that counts as solved [m]."""


def contact_places(robot: Robot, q: Array) -> Array:
    """Centres of all contact spheres [m] (n, 3)."""
    return centres_of(robot, q, robot.spheres)


def angles_for_base_shift(robot: Robot, q: Array, shift: Array, where: str = "reference") -> Array:
    """Joint angles (na) that hold the contact places of q while the base moves by `shift` [m] (3) without turning.

    Raises ConfigError, naming `where`, when the legs do not reach.
    """
    moved = np.array(q)
    moved[:3] += shift
    angles = angles_for_places(robot, moved, contact_places(robot, q))
    if angles is None:
        raise ConfigError(where, f"the contact places cannot be held when the base moves by {np.array(shift)} m")
    return angles


def angles_for_places(robot: Robot, q: Array, places: Array) -> Array | None:
    """Joint angles (na) that put the contact places at `places` [m] (n, 3) with the base of q; None when they do not reach.

    Gauss–Newton with the contact Jacobian, from the joint angles of q. Closed chains stay so, by joints without a motor.
    """
    moved, still = np.array(q), np.zeros(robot.nv)
    joints = robot.tree.a if not robot.closures.keys else np.arange(6 if robot.floating else 0, robot.nv)
    for _ in range(50):
        gaps, G = robot.closure_gaps(moved)
        error = np.concatenate([(places - contact_places(robot, moved)).ravel(), -gaps])
        if np.abs(error[: places.size]).max() < TOLERANCE and np.abs(gaps).max(initial=0.0) < CLOSED:
            return robot.joint_angles(moved)
        axes = robot.terms(moved, still).axes
        step, rows = np.zeros(robot.nv), np.vstack([contact_jacobian(robot, axes, places), G])
        step[joints] = np.linalg.lstsq(rows[:, joints], error, rcond=1e-9)[0]
        moved = robot.integrate(moved, np.clip(step, -0.2, 0.2))
    return None


def contact_jacobian(robot: Robot, axes: Array, points: Array) -> Array:
    """World velocities of the first n contact places' bodies at `points` [m] (n, 3) per velocity (3n, nv)."""
    rows = []
    for joint, point in zip(robot.spheres.joints, points, strict=False):
        velocity = axes[:, :3] + np.cross(axes[:, 3:], point)
        rows.append(np.where(robot.tree.support[joint][:, None], velocity, 0.0).T)
    return np.vstack(rows)
