"""Initial states of robots that lie: dropped, until they rest, with damped joints as after an emergency stop. For a
side the joints are held: with limp legs no quadruped stays there.
"""

from typing import Literal

import numpy as np

from controllers.config.loading import NonNegative, Settings
from controllers.robot.kinematics import TOLERANCE, angles_for_places, close_chains, closing, contact_places
from idyn.errors import ConfigError
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.world.world import World


class PerturbationSettings(Settings, frozen=True):
    """Perturbation of the initial stance."""

    shift: NonNegative = 0.0  # largest displacement of a floating base along each axis, with fixed feet [m]
    speed: NonNegative = 0.0  # standard deviation of the joint velocities [rad/s]


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


Pose = Literal["belly", "left", "right", "back", "any"]
"""What is below when the robot is dropped; 'any': a random attitude. The pose in which it comes to rest may be another one."""

ROLL = {"belly": 0.0, "left": -0.5 * np.pi, "right": 0.5 * np.pi, "back": np.pi}  # roll of the dropped base [rad]

TILT, OFF, ANY = 0.1, 0.2, 1.0
"""Largest random deviations of roll and pitch from the pose, of the joints from the stance, and of these for any pose [rad]."""

DROP, REST = 0.05, 2.0
"""Height of the lowest contact sphere above the ground when the robot is dropped [m]; time until it rests [s]."""

STOP = 100.0  # stiffness of held joints, and of the ends of the others, while the robot falls, per damping [1/s]


def lying(world: World, stance: Array, pose: Pose, damping: Array, seed: int | None) -> Array:
    """Return a resting configuration (nq). The world, on flat ground, is left in that state.

    stance: level configuration (nq); damping: of the joints [N·m·s/rad] (na); seed: of attitude and joint angles
    """
    robot, rng = world.robot, np.random.default_rng(seed or 0)
    limits, q = robot.limits, stance.copy()
    if pose == "any":
        turn = rng.normal(size=4)
        q[3:7] = turn / np.linalg.norm(turn)
    else:
        q[3:7] = _turned(ROLL[pose] + rng.uniform(-TILT, TILT), rng.uniform(-TILT, TILT))
    most = ANY if pose == "any" else OFF
    angles = robot.joint_angles(stance) + rng.uniform(-most, most, robot.na)
    angles, holds = np.clip(angles, limits.q_min, limits.q_max), pose in ("left", "right")
    q = robot.with_joint_angles(q, angles)
    places = contact_places(robot, q)
    distances, _ = world.terrain.query(places)
    q[2] += DROP - float((distances - robot.spheres.radii).min())
    world.reset(q)
    for _ in range(round(REST / 1e-3)):
        now, speeds = robot.joint_angles(world.q), world.v[robot.tree.a]
        beyond = np.maximum(limits.q_min - now, 0.0) - np.maximum(now - limits.q_max, 0.0)
        tau = damping * (STOP * (angles - now if holds else beyond) - speeds)
        world.step(np.clip(tau, -limits.tau_max, limits.tau_max), 1e-3)
    return world.q.copy()


def _turned(roll: float, pitch: float) -> Array:
    """Return the quaternion xyzw of a base that pitches, then rolls about its own axis (4)."""
    (r, p), (i, j) = np.cos([0.5 * roll, 0.5 * pitch]), np.sin([0.5 * roll, 0.5 * pitch])
    return np.array([i * p, r * j, -i * j, r * p])
