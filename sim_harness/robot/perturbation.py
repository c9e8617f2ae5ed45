"""How the runs of different seeds begin."""

import numpy as np

from controllers.config.loading import NonNegative, Settings
from controllers.robot.kinematics import angles_for_base_shift
from idyn.model.robot import Robot
from idyn.types import Array


class PerturbationSettings(Settings, frozen=True):
    """How far runs of different seeds begin from the stance.

    shift: largest displacement of a floating base along each axis over feet that stay [m]
    speed: standard deviation of the joint speeds [rad/s]
    """

    shift: NonNegative = 0.0
    speed: NonNegative = 0.0


def perturbed(robot: Robot, stance: Array, settings: PerturbationSettings, seed: int | None) -> tuple[Array, Array]:
    """The first configuration (nq) and velocity (nv) of a seed's run: the base is moved over feet that stay."""
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
