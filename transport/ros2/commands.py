"""Commands in messages of ROS 2: a velocity of the base, or angles of joints."""

from typing import Any

import numpy as np

from idyn.errors import InputError
from idyn.tasks.motion import PostureTask
from idyn.types import Array

TWIST, JOINTS = "geometry_msgs/Twist", "sensor_msgs/JointState"


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


def posture_of(joints: dict[str, Any]) -> PostureTask:
    """Return the task that a `sensor_msgs/JointState` with positions, and perhaps velocities, commands.

    Raises InputError for efforts, and for vectors of a wrong length or with a number that is not finite.
    """
    names, angles, speeds = joints["name"], joints["position"], joints["velocity"]
    if joints["effort"]:
        raise InputError(f"{JOINTS}.effort", "expected none: the server computes the torques")
    if not names:
        raise InputError(f"{JOINTS}.name", "expected at least one joint")
    for field, values in (("position", angles), ("velocity", speeds or [0.0] * len(names))):
        if len(values) != len(names) or not np.isfinite(values).all():
            raise InputError(f"{JOINTS}.{field}", f"expected {len(names)} finite numbers, got {values}")
    return PostureTask(name="joint_commands", joints=names, angles=angles, velocity=speeds or None)
