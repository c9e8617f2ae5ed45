"""Gains of the drives, sent beside the torque, with which the drives track the reference while replies are missing:

τ + kp (q_ref(t) − q) + kd (q̇_ref(t) − q̇)

While replies arrive, these gains do not act: feedback is then computed by the controller, from the state of the whole robot.
"""

from collections.abc import Collection

import numpy as np

from controllers.config.loading import NonNegative, Settings
from controllers.robot.damping import carried
from idyn.model.robot import Robot
from idyn.types import Array, Record

PERIOD = 1e-3
"""Largest period of the drives [s]."""


class DriveSettings(Settings, frozen=True):
    """Drive gains of every joint that follows the reference. Both 0: no gains are sent; in an outage, the drives only damp.

    kp: [N·m/rad]; it must support the robot without feed-forward torque: the robot's weight times the height of its hips, or a
        little more
    kd: [N·m·s/rad]. Joints whose inertia is too small for it have a share of both gains, see `controllers.robot.damping`
    """

    kp: NonNegative = 0.0
    kd: NonNegative = 0.0


class DriveGains(Record, frozen=True):
    """Drive gains of each motor: kp [N·m/rad] and kd [N·m·s/rad] (na)."""

    kp: Array
    kd: Array


def drive_gains(settings: DriveSettings, robot: Robot, q: Array, gripping: Collection[str]) -> DriveGains | None:
    """Return the gains of all motors, or None if both gains are 0.

    q: configuration whose inertia carries them; gripping: joints that do not follow the reference; their gains are 0
    Joints with several degrees of freedom have kp = 0: a drive cannot subtract their positions.
    """
    if settings.kp == settings.kd == 0.0:
        return None
    follows = np.array([name not in gripping for name in robot.joint_names], dtype=np.float64)
    follows *= carried(settings.kd, robot, q, PERIOD)
    return DriveGains(kp=settings.kp * follows * (robot.tree.q_index >= 0), kd=settings.kd * follows)
