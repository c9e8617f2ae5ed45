"""A pose of a robot that is fixed to the world in which its motors can hold it."""

import numpy as np
from scipy.optimize import least_squares

from controllers.robot.stance import standing
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.new.pose import Pose, middle, rounded

EASY, MOST = 0.5, 0.95
"""Largest share of a motor's torque in a pose that is used as it is; share beyond which a motor does not hold a pose."""

NEAR = 0.02
"""Weight of the distance from the middle pose beside the share of the torques [1/rad]."""

STARTS = 16
"""Number of starts of the search."""


def holding_pose(robot: Robot) -> Pose:
    """Return the middle pose if its motors hold it easily; else one with small torques that is near to it."""
    first = middle(robot)
    q = standing(robot, first)
    if load(robot, q) <= EASY:
        return Pose(first, "zero, or inside the limits")
    base = robot.joint_angles(q)
    low, high = np.maximum(robot.limits.q_min, base - np.pi), np.minimum(robot.limits.q_max, base + np.pi)
    inside = 0.1 * (high - low)

    def error(angles: Array) -> Array:
        there = robot.with_joint_angles(q, angles)
        return np.concatenate([_shares(robot, there), NEAR * (angles - base)])

    rng = np.random.default_rng(0)
    starts = [np.clip(base, low + inside, high - inside), *(rng.uniform(low, high) for _ in range(STARTS))]
    solutions = [least_squares(error, start, bounds=(low - 1e-9, high + 1e-9)).x for start in starts]
    best = min(solutions, key=lambda angles: load(robot, robot.with_joint_angles(q, angles)))
    angles = rounded(robot, dict(zip(robot.joint_names, best.tolist(), strict=True)))
    return Pose(angles, "computed, with small motor torques")


def load(robot: Robot, q: Array) -> float:
    """Return the largest share of its torque that a motor needs to hold a configuration."""
    return float(np.abs(_shares(robot, q)).max(initial=0.0))


def _shares(robot: Robot, q: Array) -> Array:
    """Return the holding torques over the torque limits (na)."""
    zero = np.zeros(robot.nv)
    shares: Array = robot.inverse_dynamics(q, zero, zero)[robot.tree.a] / robot.limits.tau_max
    return shares
