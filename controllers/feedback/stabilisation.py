"""VIIP: virtual compressive forces at the standing feet, which correct the base  [ZD §7.3; MATHEMATICS §8].

    w = Kp (x_des ⊖ x) + Kv (v_des − v)                 wrench on the base (6)
    f = max(0, N_b w)                                   along each contact's normal
    τ = −N_qᵀ f
N_b, N_q are the columns of the base and of the joints in the normal rows of the contact Jacobian. The forces have no tangential
part: they neither pull nor slip. They realise the wrench only as far as pushing forces can. As no system of equations is solved
for w, the gains are not the stiffness and damping of the base.

`literal` reproduces the authors' software, which differs from the paper: it uses all three rows of each contact, N, S and T,
and keeps the positive tangential components.
"""

import math

import numpy as np

from controllers.config.loading import Settings
from controllers.robot.kinematics import contact_places
from idyn.errors import ConfigError
from idyn.model import so3
from idyn.model.robot import Robot
from idyn.terms.dynamics import contact_jacobian
from idyn.types import Array, ContactSet, Kinematics

Gains = tuple[float, float, float, float, float, float]
ZERO: Gains = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
LEVEL = np.zeros(3)


class StabilisationSettings(Settings, frozen=True):
    """Gains in the base frame: forward, left, up, roll, pitch, yaw. All zero: off.

    kp: on position and attitude [N/m, N·m/rad]; only height, roll and pitch: the others must be 0
    kv: on velocity [N·s/m, N·m·s/rad]
    literal: as in the authors' software, see above
    """

    kp: Gains = ZERO
    kv: Gains = ZERO
    literal: bool = False


class Stabilisation:
    """Joint torques from the errors of the base. Stateless."""

    def __init__(self, settings: StabilisationSettings, robot: Robot, height: float) -> None:
        """height: nominal height of the base above the contact points of the standing feet [m]. Raises ConfigError."""
        self.active = any(settings.kp) or any(settings.kv)
        for field in ("kp", "kv"):
            if any(not 0 <= gain < np.inf for gain in getattr(settings, field)):
                raise ConfigError(f"stabilisation.{field}", f"expected finite gains ≥ 0, got {list(getattr(settings, field))}")
        if any(settings.kp[i] for i in (0, 1, 5)):
            raise ConfigError("stabilisation.kp", "expected 0 for forward, left and yaw: only height and tilt have a reference")
        if self.active and not robot.floating:
            raise ConfigError("stabilisation", "expected a robot with a floating base, got a fixed one")
        self._robot, self._height, self._literal = robot, height, settings.literal
        self._kp, self._kv = np.array(settings.kp), np.array(settings.kv)

    def torque(self, at: Kinematics, contacts: ContactSet, velocity: Array | None, pose: Array | None = None) -> Array:
        """Return the joint torques for the standing contacts [N·m] (na).

        velocity: desired velocity of the base, forward, left [m/s], turn [rad/s] (3); None: zero
        pose: desired height relative to the nominal one [m], roll, pitch [rad] (3); None: zero
        """
        robot = self._robot
        tau = np.zeros(robot.na)
        if not len(contacts):
            return tau
        # w = Kp (x_des ⊖ x) + Kv (v_des − v)
        desired = np.zeros(6) if velocity is None else _planar(velocity)
        wrench = self._kp * self._error(at, contacts, LEVEL if pose is None else pose) + self._kv * (desired - at.v[:6])
        # τ = −N_qᵀ max(0, N_b w); `literal`: rows N, S, T of each contact
        J = contact_jacobian(robot, at, contacts)
        for i in range(len(contacts)):
            for row in J[[3 * i + 2, 3 * i, 3 * i + 1]] if self._literal else J[3 * i + 2 : 3 * i + 3]:
                tau -= row[robot.tree.a] * max(0.0, float(row[:6] @ wrench))
        return tau

    def _error(self, at: Kinematics, contacts: ContactSet, pose: Array) -> Array:
        """Return the errors x_des ⊖ x of height and tilt in the base frame (6). pose: see `torque`"""
        (height, roll, pitch), up = pose.tolist(), so3.up(at.q[3:7])
        too_low = self._height + height - (at.q[2] - contacts.points[:, 2].mean())
        desired = np.array([-math.sin(pitch), math.cos(pitch) * math.sin(roll), math.cos(pitch) * math.cos(roll)])
        axis = np.cross(desired, up)  # the base turns about it by the angle between the two
        sine = float(np.linalg.norm(axis))
        angle = math.atan2(sine, float(desired @ up))
        return np.concatenate([too_low * up, axis * (angle / max(sine, 1e-12))])


def standing_height(robot: Robot, stance: Array) -> float:
    """Return the height of the base above the contact points at a configuration (nq) [m]; 0 without contact spheres or base."""
    if not (robot.spheres.keys and robot.floating):
        return 0.0
    return float(stance[2] - (contact_places(robot, stance)[:, 2] - robot.spheres.radii).mean())


def _planar(velocity: Array) -> Array:
    return np.array([velocity[0], velocity[1], 0.0, 0.0, 0.0, velocity[2]])
