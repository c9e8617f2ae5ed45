"""What the drives at the joints are told beside the torque, so that they can go on by themselves while an answer is missing:

τ + kp (q_ref(t) − q) + kd (q̇_ref(t) − q̇)

While answers come the gains do not act: feedback is then the controller's, which knows the whole robot.
"""

from collections.abc import Collection

import numpy as np

from controllers.config.loading import NonNegative, Settings
from idyn.model.robot import Robot
from idyn.types import Array, Record


class DriveSettings(Settings, frozen=True):
    """Gains of every joint that follows a reference. Both 0: the drives have none, and damp when an answer is missing for long.

    kp: [N·m/rad]. The robot is to stand on it alone: about its weight times the height of its hips, or a little more
    kd: [N·m·s/rad]; well below the inertia of a lower leg over the drives' own period, or the damping itself shakes
    """

    kp: NonNegative = 0.0
    kd: NonNegative = 0.0


class DriveGains(Record, frozen=True):
    """kp [N·m/rad] and kd [N·m·s/rad] of each motor (na)."""

    kp: Array
    kd: Array


def drive_gains(settings: DriveSettings, robot: Robot, gripping: Collection[str]) -> DriveGains | None:
    """Gains of all motors; 0 for those named in `gripping`, which follow no reference. kp is 0, too, for joints with several
    degrees of freedom, whose positions a drive cannot subtract. None when both gains are 0."""
    if settings.kp == settings.kd == 0.0:
        return None
    follows = np.array([name not in gripping for name in robot.joint_names], dtype=np.float64)
    return DriveGains(kp=settings.kp * follows * (robot.tree.q_index >= 0), kd=settings.kd * follows)
