"""Perturbed initial states for runs with different seeds."""

import numpy as np

from controllers.config.loading import NonNegative, Settings
from controllers.robot.kinematics import angles_for_base_shift
from idyn.model.robot import Robot
from idyn.types import Array


class PerturbationSettings(Settings, frozen=True):
    """Perturbation of the initial stance.

    shift: largest displacement of a floating base along each axis, with fixed feet [m]
    speed: standard deviation of the joint velocities [rad/s]
    """

    shift: NonNegative = 0.0
    speed: NonNegative = 0.0


def perturbed(robot: Robot, stance: Array, settings: PerturbationSettings, seed: int | None) -> tuple[Array, Array]:
    """Return the initial configuration (nq) and velocity (nv) of a run. Without a seed this is the stance, at rest.

    The base is displaced while the feet stay in place.
    """
    q, v = np.array(stance), np.zeros(robot.nv)
    if seed is None:
        return q, v
    rng = np.random.default_rng(seed)
    shift, speeds = rng.uniform(-settings.shift, settings.shift, 3), rng.normal(0.0, settings.speed, robot.na)
    if robot.floating:
        q = robot.with_joint_angles(q, angles_for_base_shift(robot, stance, shift, "experiment.perturbation.shift"))
        q[:3] += shift
    v[robot.tree.a] = speeds
    return q, v
