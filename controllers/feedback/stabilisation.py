"""VIIP: virtual compressive forces at the standing feet that push the base to where it should be  [ZD §7.3; MATHEMATICS §8].

    w = Kp (x_des ⊖ x) + Kv (v_des − v)                 wrench on the base (6)
    f = max(0, N_b w)                                   along each contact's normal
    τ = −N_qᵀ f
with N_b, N_q the base's and the joints' columns of the contacts' normal rows. Friction is left alone: such forces never pull
and never slip. The wrench is met as far as pushing from below can meet it; nothing is inverted, so gains are not stiffnesses.

`literal` does what the authors' software does instead of what it says: all three rows of each contact, N, S and T, are taken,
and of the tangential components the positive ones are kept.
"""

import math

import numpy as np

from controllers.config.loading import Settings
from controllers.robot import attitude
from controllers.robot.kinematics import contact_places
from idyn.errors import ConfigError
from idyn.model.robot import Robot
from idyn.terms.dynamics import contact_jacobian
from idyn.types import Array, ContactSet, Kinematics

Gains = tuple[float, float, float, float, float, float]
NONE: Gains = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


class StabilisationSettings(Settings, frozen=True):
    """Gains for the base, in its own frame: forward, left, up, roll, pitch, yaw. All zero: off.

    kp: on place: height and tilt only, the others must be 0 [N/m, N·m/rad]
    kv: on velocity [N·s/m, N·m·s/rad]
    literal: as in the authors' software, see above
    """

    kp: Gains = NONE
    kv: Gains = NONE
    literal: bool = False


class Stabilisation:
    """Joint torques from the error of the base. Keeps no memory."""

    def __init__(self, settings: StabilisationSettings, robot: Robot, height: float) -> None:
        """height: of the base above the standing feet's contact points when all is well [m]"""
        self.active = any(settings.kp) or any(settings.kv)
        for field in ("kp", "kv"):
            if any(not 0 <= gain < np.inf for gain in getattr(settings, field)):
                raise ConfigError(f"stabilisation.{field}", f"expected finite gains ≥ 0, got {list(getattr(settings, field))}")
        if any(settings.kp[i] for i in (0, 1, 5)):
            raise ConfigError("stabilisation.kp", "expected 0 for forward, left and yaw: only height and tilt have a place")
        if self.active and not robot.floating:
            raise ConfigError("stabilisation", "needs a floating base")
        self._robot, self._height, self._literal = robot, height, settings.literal
        self._kp, self._kv = np.array(settings.kp), np.array(settings.kv)

    def torque(self, at: Kinematics, contacts: ContactSet, velocity: Array) -> Array:
        """[N·m] (na) for the standing contacts; velocity: desired, forward, left [m/s], turn [rad/s] (3)."""
        robot = self._robot
        tau = np.zeros(robot.na)
        if not len(contacts):
            return tau
        wrench = self._kp * self._error(at, contacts) + self._kv * (_planar(velocity) - at.v[:6])
        J = contact_jacobian(robot, at, contacts)
        for i in range(len(contacts)):
            for row in J[[3 * i + 2, 3 * i, 3 * i + 1]] if self._literal else J[3 * i + 2 : 3 * i + 3]:
                tau -= row[robot.tree.a] * max(0.0, float(row[:6] @ wrench))
        return tau

    def _error(self, at: Kinematics, contacts: ContactSet) -> Array:
        """Height and tilt that are missing, in the base's frame (6)."""
        up = attitude.up(at.q[3:7])
        lacking = self._height - (at.q[2] - contacts.points[:, 2].mean())
        angle = math.atan2(math.hypot(up[0], up[1]), up[2])
        size = angle / max(math.hypot(up[0], up[1]), 1e-12)
        return np.concatenate([lacking * up, [-up[1] * size, up[0] * size, 0.0]])


def standing_height(robot: Robot, stance: Array) -> float:
    """Of the base above the contact places at a configuration (nq) [m]; 0 without contact places."""
    if not robot.spheres.keys:
        return 0.0
    return float(stance[2] - (contact_places(robot, stance)[:, 2] - robot.spheres.radii).mean())


def _planar(velocity: Array) -> Array:
    return np.array([velocity[0], velocity[1], 0.0, 0.0, 0.0, velocity[2]])
