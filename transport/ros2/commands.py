"""Commands in messages of ROS 2: a velocity of the base, or angles of joints."""

from typing import Any

import numpy as np

from idyn.errors import InputError
from idyn.tasks.motion import PostureTask
from idyn.types import Array

TWIST, TRAJECTORY = "geometry_msgs/Twist", "trajectory_msgs/JointTrajectory"


def command_of(kind: str, message: dict[str, Any]) -> dict[str, Any]:
    """Return what a message commands, as arguments of `PlannerClient.command`. Raises InputError."""
    return {"velocity": velocity_of(message)} if kind == TWIST else {"tasks": [posture_of(message)]}


def velocity_of(twist: dict[str, Any]) -> Array:
    """Return the velocity that a `geometry_msgs/Twist` commands: forward, left [m/s], turn [rad/s] (3).

    A robot on legs follows no other components. Raises InputError for a number that is not finite.
    """
    velocity = np.array([twist["linear"]["x"], twist["linear"]["y"], twist["angular"]["z"]])
    if not np.isfinite(velocity).all():
        raise InputError(TWIST, f"expected finite numbers, got {velocity.tolist()}")
    return velocity


def posture_of(trajectory: dict[str, Any]) -> PostureTask:
    """Return the task that a `trajectory_msgs/JointTrajectory` of one point commands.

    The point has positions, and perhaps velocities and accelerations. Raises InputError for more points, for efforts, and for
    vectors of a wrong length.
    """
    names, points = trajectory["joint_names"], trajectory["points"]
    if len(points) != 1:
        raise InputError(f"{TRAJECTORY}.points", f"expected 1 point, got {len(points)}; send the next one when it is due")
    point = points[0]
    if point["effort"]:
        raise InputError(f"{TRAJECTORY}.points.effort", "expected none: the server computes the torques")
    for field in ("positions", "velocities", "accelerations"):
        required = field == "positions"
        if len(point[field]) != len(names) and (required or point[field]):
            raise InputError(f"{TRAJECTORY}.points.{field}", f"expected {len(names)} numbers, got {len(point[field])}")
        if not np.isfinite(point[field]).all():
            raise InputError(f"{TRAJECTORY}.points.{field}", f"expected finite numbers, got {point[field]}")
    return PostureTask(
        name="joint_trajectory",
        joints=names,
        angles=point["positions"],
        velocity=point["velocities"] or None,
        acceleration=point["accelerations"] or None,
    )
