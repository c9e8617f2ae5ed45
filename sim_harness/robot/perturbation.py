"""Perturbed initial states for runs with different seeds."""

import numpy as np

from controllers.config.loading import NonNegative, Settings
from controllers.robot.kinematics import TOLERANCE, angles_for_places, contact_places
from controllers.robot.stance import close_chains, closing
from idyn.errors import ConfigError
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

    The base is displaced while the feet stay in place; those of legs of two hinges are carried along sideways. Chains stay
    closed, in their velocities too. Raises ConfigError if the legs do not reach.
    """
    q, v = np.array(stance), np.zeros(robot.nv)
    if seed is None:
        return q, v
    rng = np.random.default_rng(seed)
    shift, speeds = rng.uniform(-settings.shift, settings.shift, 3), rng.normal(0.0, settings.speed, robot.na)
    if robot.floating:
        q[:3] += shift
        angles = angles_for_places(robot, q, contact_places(robot, stance), nearly=max(settings.shift, TOLERANCE))
        if angles is None:
            raise ConfigError("experiment.perturbation.shift", f"the legs do not reach the feet from a base moved by {shift} m")
        q = robot.with_joint_angles(q, angles)
    v[robot.tree.a] = speeds
    if robot.closures.keys:
        q = close_chains(robot, q)
        v = closing(robot, q, v)
    return q, v
