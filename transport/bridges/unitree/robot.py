"""A robot of Unitree's message families by its robot file: motors, postures, gains and speeds of motions between them."""

from typing import NamedTuple

import numpy as np

from controllers.config.loading import load
from controllers.feedback import standing_height
from controllers.robot.kinematics import angles_for_base_shift, contact_jacobian, contact_places
from controllers.robot.load import RobotSettings, load_robot
from idyn.errors import ConfigError
from idyn.model.robot import Robot
from idyn.types import Array
from transport.bridges.unitree.messages import FAMILIES, Family

LOW, STEPS = 0.46, 10  # height of a robot that lies down, as a share of that of its stance, the rest it sinks; steps to it
QUICK = 60.0  # largest bandwidth of the motors' own feedback [1/s]: commands act two to three states late


class UnitreeRobot(NamedTuple):
    """A robot."""

    model: Robot
    family: Family  # of its messages
    motors: tuple[str, ...]  # joints of the motors of a message, in their order, '' for none; further motors are not used
    postures: dict[str, Array]  # 'stand' and, of a robot on more than two feet, 'lie': angles [rad] (na); others hang at first
    kp: Array  # of the motors between postures [N·m/rad] (na)
    kd: Array  # [N·m·s/rad] (na)
    pace: float  # √(g/height of the standing base), as of a pendulum: speeds grow with it [1/s]

    def bearing(self, angles: Array) -> Array:
        """Return the torques by which all contact places together bear the weight [N·m] (na). angles: [rad] (na)"""
        model = self.model
        terms = model.terms(model.with_joint_angles(model.neutral(), angles), np.zeros(model.nv))
        places = contact_places(model, model.with_joint_angles(model.neutral(), angles))
        J, (u, a) = contact_jacobian(model, terms.axes, places), (model.tree.u, model.tree.a)
        return np.asarray(terms.h[a] - J[:, a].T @ np.linalg.lstsq(J[:, u].T, terms.h[u], rcond=None)[0])


def unitree_robot(name: str) -> UnitreeRobot:
    """Return the robot of a robot file. Raises ConfigError for a file without `motors`, or with others than its joints have.

    The family of messages is that of the number of motors. A motor's feedback is critically damped with the inertia that it
    feels at the stance, 1/(M⁻¹)_jj, and as stiff as `QUICK` permits, at most weight × height, by which the robot stands.
    """
    model, stance = load_robot(name)
    motors = load("robots", name, RobotSettings).motors
    if wrong := sorted(set(filter(None, motors)) ^ set(model.joint_names)):
        order = "expected all joints of the model, in the order of the motors in the robot's own messages"
        raise ConfigError("robot.motors", f"{order}; wrong or missing: {', '.join(wrong)}")
    family = FAMILIES["go" if len(motors) <= FAMILIES["go"].motors else "hg"]
    if len(motors) > family.motors:
        raise ConfigError("robot.motors", f"expected at most {family.motors}, got {len(motors)}")
    height, postures = standing_height(model, stance), {"stand": model.joint_angles(stance)}
    if len({place.frame for place in model.description.contact}) > 2:
        postures["lie"] = _lowered(model, stance, (1.0 - LOW) * height)
    inertia = 1.0 / np.diag(np.linalg.inv(model.terms(stance, np.zeros(model.nv)).M))[model.tree.a]
    kp = np.minimum(QUICK**2 * inertia, model.weight * height)
    pace = float(np.sqrt(model.weight / (model.total_mass * height)))
    return UnitreeRobot(model, family, motors, postures, kp, 2.0 * np.sqrt(kp * inertia), pace)


def _lowered(model: Robot, stance: Array, depth: float) -> Array:
    """Return the angles (na) with the base `depth` [m] lower above the same feet, step by step, so that no leg bends over."""
    low, shift = stance, np.array([0.0, 0.0, -depth / STEPS])
    for _ in range(STEPS):
        low = model.with_joint_angles(low, angles_for_base_shift(model, low, shift, "robot.standing"))
        low[:3] += shift
    return np.clip(model.joint_angles(low), model.limits.q_min, model.limits.q_max)
