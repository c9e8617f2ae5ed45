"""Inverse kinematics for any robot: joint angles that put the contact spheres at given places for a given base.

Used when controllers and experiments are built. Gaits use `controllers.planners.legs`, which runs in the tick and also gives
speeds and accelerations.
"""

from collections.abc import Callable

import numpy as np

from idyn.contact.contacts import centres_of
from idyn.errors import ConfigError
from idyn.model.robot import Robot
from idyn.types import Array

CLOSED = 1e-5  # a closed chain with gaps smaller than this counts as closed [m]
TOLERANCE = 1e-11  # largest position error of a contact sphere in a solution [m]


KNOTS = 41  # solutions along a motion of the base
STANDS = 0.05  # a contact sphere higher than this above the lowest one is no foot [m]


def contact_places(robot: Robot, q: Array) -> Array:
    """Return the centres of all contact spheres in the world frame [m] (n, 3)."""
    return centres_of(robot, q, robot.spheres)


def feet_of(robot: Robot, q: Array) -> Array:
    """Return the indices of the contact spheres on which the robot stands at a configuration on a plane z = const (n).

    The others touch the ground when the robot lies.
    """
    bottoms = contact_places(robot, q)[:, 2] - robot.spheres.radii
    return np.flatnonzero(bottoms <= bottoms.min(initial=np.inf) + STANDS)


def angles_for_base_shift(robot: Robot, q: Array, shift: Array, where: str = "reference") -> Array:
    """Return joint angles (na) that keep the feet of q in place while the base is shifted by `shift` [m] (3).

    Raises ConfigError with the path `where` if the legs do not reach.
    """
    moved = np.array(q)
    moved[:3] += shift
    feet = feet_of(robot, q)
    angles = angles_for_places(robot, moved, contact_places(robot, q)[feet], rows=feet)
    if angles is None:
        raise ConfigError(where, f"the legs do not reach the contact points when the base moves by {np.array(shift)} m")
    return angles


def angles_along(robot: Robot, q: Array, s: Array, shifts: Array, where: str) -> Callable[[float, int], Array]:
    """Return θ(s, n): n-th derivative of the joint angles (na) that keep the feet of q in place while the base is shifted.

    A spline joins the solutions at the places s (k), where the shifts are `shifts` [m] (k, 3). It is exact to 1e-8 rad for 41
    solutions along centimetres. Raises ConfigError with the path `where` if the legs do not reach.
    """
    from scipy.interpolate import CubicSpline  # noqa: PLC0415  (its import takes longer than that of a controller without it)

    spline: Callable[[float, int], Array] = CubicSpline(s, [angles_for_base_shift(robot, q, shift, where) for shift in shifts])
    return spline


def angles_for_places(
    robot: Robot, q: Array, places: Array, nearly: float = TOLERANCE, rows: Array | None = None
) -> Array | None:
    """Return joint angles (na) that put contact spheres at `places` [m] (n, 3) with the base of q; None if out of reach.

    nearly: largest position error of the nearest solution, where there is no exact one [m]
    rows: indices of the spheres (n); None: all of them

    Gauss–Newton steps with the contact Jacobian, from the joint angles of q. Joints without a motor are moved so that
    chains stay closed.
    """
    moved, still = np.array(q), np.zeros(robot.nv)
    rows = np.arange(len(places)) if rows is None else rows
    joints = robot.tree.a if not robot.closures.keys else np.arange(6 if robot.floating else 0, robot.nv)
    for _ in range(50):
        gaps, G = robot.closure_gaps(moved)
        error = np.concatenate([(places - contact_places(robot, moved)[rows]).ravel(), -gaps])
        if np.abs(error[: places.size]).max() < TOLERANCE and np.abs(gaps).max(initial=0.0) < CLOSED:
            return robot.joint_angles(moved)
        nearest = moved, float(np.abs(error).max())
        # δθ = argmin ‖[J; G] δθ − [x_des − x; −g]‖, with |δθ| ≤ 0.2 rad
        axes = robot.terms(moved, still).axes
        step, J = np.zeros(robot.nv), np.vstack([contact_jacobian(robot, axes, places, rows), G])
        step[joints] = np.linalg.lstsq(J[:, joints], error, rcond=1e-9)[0]
        moved = robot.integrate(moved, np.clip(step, -0.2, 0.2))
    return robot.joint_angles(nearest[0]) if nearest[1] < nearly else None


def contact_jacobian(robot: Robot, axes: Array, points: Array, rows: Array | None = None) -> Array:
    """Jacobian of the world velocities of n points on the bodies of n contact spheres (3n, nv).

    axes: linear and angular velocity per unit velocity, see `Kinematics` (nv, 6)
    points: in the world frame [m] (n, 3)
    rows: indices of the spheres (n); None: the first n
    """
    joints = robot.spheres.joints[: len(points)] if rows is None else robot.spheres.joints[rows]
    blocks = []
    for joint, point in zip(joints, points, strict=True):
        velocity = axes[:, :3] + np.cross(axes[:, 3:], point)
        blocks.append(np.where(robot.tree.support[joint][:, None], velocity, 0.0).T)
    return np.vstack(blocks)
