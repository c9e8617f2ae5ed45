"""Limits of the solution as linear bounds on the coordinates x of the held motion and forces, with a name for each row."""

from collections.abc import Sequence

import numpy as np

from idyn.model.robot import Robot
from idyn.tasks.held import Affine, HeldMotion
from idyn.tasks.levels import Bounds
from idyn.tasks.modes import ModeRows
from idyn.tasks.stack import TaskLimits
from idyn.types import Array


def bounds_of(
    robot: Robot, accelerations: tuple[Array, Array], limits: TaskLimits, held: HeldMotion, modes: ModeRows
) -> Bounds:
    """Return the bounds, rows in the order of `names_of`. accelerations: bounds of the joints, `joint_bounds`"""
    parts = [_bounds(_of_force(held.force, modes.facets), modes.least, np.full(len(modes.least), np.inf))]
    most = limits.torque * robot.limits.tau_max
    parts.append(_bounds(held.torque, -most, most))
    joints = Affine(held.acceleration.offset[robot.tree.a], held.acceleration.slope[robot.tree.a])
    parts.append(_bounds(joints, *accelerations))
    G, low, high = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Bounds(G, low, high)


def names_of(robot: Robot, keys: Sequence[str], modes: ModeRows) -> list[str]:
    """Return a name for each row of `bounds_of`."""
    contacts = [f"{kind} of contact {keys[i]}" for i, kind in modes.of]
    return (
        contacts
        + [f"torque limit of {name}" for name in robot.joint_names]
        + [f"motion limit of {name}" for name in robot.joint_names]
    )


def joint_bounds(robot: Robot, angles: Array, v: Array, dt: float, limits: TaskLimits) -> tuple[Array, Array]:
    """Return bounds of the joint accelerations [rad/s²] (na): velocity limits, and position limits that leave the way to stop
    with the deceleration `limits.braking`. They never contradict each other.

    The joint velocity v′ after dt may be at most the root of v′²/2c = q_max − q − v′ dt, c the deceleration, and 0 at or
    beyond the limit; bounds that a joint cannot meet at once are approached with the deceleration c.
    """
    most = np.full(robot.na, limits.acceleration)
    if not limits.joints:
        return -most, most
    c, own = limits.braking, robot.limits
    up, down = (np.maximum(each, 0.0) for each in (own.q_max - angles, angles - own.q_min))
    stop = [np.sqrt((c * dt) ** 2 + 2.0 * c * way) - c * dt for way in (up, down)]
    fastest = [np.minimum(own.v_max, each) for each in stop]
    upper = np.maximum((fastest[0] - v) / dt, -c)
    lower = np.minimum((-fastest[1] - v) / dt, c)
    return np.clip(lower, -most, most), np.clip(upper, -most, most)


def _of_force(force: Affine, rows: Array) -> Affine:
    return Affine(rows @ force.offset, rows @ force.slope)


def _bounds(value: Affine, lower: Array, upper: Array) -> Bounds:
    return Bounds(value.slope, lower - value.offset, upper - value.offset)
