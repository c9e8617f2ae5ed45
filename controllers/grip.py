"""Grip: control of the joints of fingers that hold an object  [ZD §7.2.2]. A prescribed finger motion does not determine the
grip force: fingers at rest are consistent with any internal force, including zero. Prescribed finger torques determine it."""

from collections.abc import Iterable

import msgspec
import numpy as np

from controllers.command import Reference
from controllers.config.loading import Kind, NonNegative
from idyn.errors import ConfigError, nearest
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet

CLOSING, TOUCHING = 1.0, 1e-4
"""Of a grip at given speeds: speed of a joint whose body touches none [rad/s]; largest gap of a body that touches [m]."""


class Grip:
    """Control of gripping joints, tick by tick. The base class is a grip without joints.

    joints: names of the joints that grip
    pressing: names of those that press with a known torque; the motion of all other joints is prescribed
    """

    pressing: tuple[str, ...] = ()

    def __init__(self, robot: Robot, joints: tuple[str, ...] = ()) -> None:
        self.joints = joints

    def torque(self, angles: Array, speeds: Array) -> Array | None:
        """Return the torques of the joints that press, 0 at the others [N·m] (na); None without such joints.

        angles, speeds: of the actuated joints [rad], [rad/s] (na)
        """
        return None

    def applied(self, torque: Array | None) -> Array | None:
        """Return a torque from `torque` (na) as a generalised force (nv); None without joints that press."""
        return None

    def prescribed(self, values: Array) -> Array:
        """Return the values of the joints with prescribed motion, from values of all actuated joints (na)."""
        return values

    def filled(self, values: Array) -> Array:
        """Return values for all actuated joints (na): `values` at joints with prescribed motion, 0 at joints that press."""
        return values

    def reference(self, reference: Reference, contacts: ContactSet, angles: Array) -> Reference:
        """Return `reference` with the motion of joints that grip at a given speed replaced.

        angles: of the actuated joints [rad] (na)
        """
        return reference


class SpringGrip(Grip):
    """Joints that press with τ = kp (target − θ) − kd θ̇. The prediction uses τ as known and computes their motion."""

    def __init__(self, settings: "SpringGripSettings", robot: Robot) -> None:
        super().__init__(robot, settings.joints)
        self.pressing = settings.joints
        self._settings, self._springs = settings, _indices(settings.joints, robot)
        self._targets = np.array(settings.targets)
        self._driven = np.setdiff1d(np.arange(robot.na), self._springs)
        self._a, self._nv = robot.tree.a, robot.nv

    def torque(self, angles: Array, speeds: Array) -> Array:
        s, k, tau = self._settings, self._springs, np.zeros(len(angles))
        tau[k] = s.kp * (self._targets - angles[k]) - s.kd * speeds[k]
        return tau

    def applied(self, torque: Array | None) -> Array | None:
        force = np.zeros(self._nv)
        force[self._a] = torque
        return force

    def prescribed(self, values: Array) -> Array:
        return values[self._driven]

    def filled(self, values: Array) -> Array:
        full = np.zeros(len(self._a))
        full[self._driven] = values
        return full


class SpeedGrip(Grip):
    """Joints that grip with a prescribed speed and free position, as in the paper."""

    def __init__(self, settings: "SpeedGripSettings", robot: Robot) -> None:
        super().__init__(robot, settings.joints)
        self._settings, self._joints = settings, _indices(settings.joints, robot)
        self._moves = robot.tree.support[:, robot.tree.a[self._joints]]

    def reference(self, reference: Reference, contacts: ContactSet, angles: Array) -> Reference:
        held = contacts.gaps <= TOUCHING
        moved = self._moves[contacts.bodies] != self._moves[contacts.others]
        touching = (moved & held[:, None]).any(axis=0)
        q, v, a = reference.q.copy(), reference.v.copy(), reference.a.copy()
        q[self._joints] = angles[self._joints]
        v[self._joints] = np.where(touching, self._settings.squeeze, CLOSING)
        a[self._joints] = 0.0
        return msgspec.structs.replace(reference, q=q, v=v, a=a)


class GripSettings(Kind, frozen=True):
    """Base of the settings of a grip: joints that do not follow the trajectory."""

    joints: tuple[str, ...]  # their names

    def build(self, robot: Robot) -> Grip:
        """Build the grip. Raises ConfigError for joints that the robot does not have."""
        raise NotImplementedError


class SpringGripSettings(GripSettings, frozen=True, tag="spring"):
    """Grip by virtual springs and dampers in the joints."""

    targets: tuple[float, ...]  # rest angles of the springs, one per joint [rad]
    # kp, kd: stiffness [N·m/rad] and damping [N·m·s/rad]; kd dt must stay below the smallest inertia of a joint for stability
    kp: NonNegative = 20.0
    kd: NonNegative = 0.03

    def build(self, robot: Robot) -> Grip:
        if len(self.targets) != len(self.joints):
            raise ConfigError("grip.targets", f"expected {len(self.joints)} angles, one per joint, got {len(self.targets)}")
        return SpringGrip(self, robot)


class SpeedGripSettings(GripSettings, frozen=True, tag="speed"):
    """Grip at given joint speeds."""

    # speed of a joint whose body touches another body [rad/s]; 0: the joint stops. A rigid object makes this demand infeasible;
    # `consistency` determines how it is changed
    squeeze: float = 0.0

    def build(self, robot: Robot) -> Grip:
        return SpeedGrip(self, robot)


AnyGrip = SpringGripSettings | SpeedGripSettings  # type of `[grip]` in the file of a controller


def _indices(joints: Iterable[str], robot: Robot) -> Array:
    """Return the indices of these joints among the actuated ones.

    Raises ConfigError for a joint that is not actuated or has several degrees of freedom.
    """
    for name in joints:
        if name not in robot.joint_names:
            raise ConfigError("grip.joints", f"no actuated joint named '{name}'{nearest(name, robot.joint_names)}")
    found = np.array([robot.joint_names.index(name) for name in joints], dtype=np.int64)
    for name in np.array(robot.joint_names)[found][robot.tree.q_index[found] < 0]:
        raise ConfigError("grip.joints", f"expected joints with one degree of freedom, got '{name}'")
    return found


def released(robot: Robot, joints: Iterable[str]) -> Robot:
    """Return a robot in which `joints` are unactuated, so that their motion is not prescribed. It has its own buffers."""
    described = robot.description
    more = tuple(name for name in joints if name not in described.unactuated)
    if not more:
        return robot
    tau_max = {name: tau for name, tau in described.tau_max.items() if name not in more}
    return robot.variant(unactuated=described.unactuated + more, tau_max=tau_max)
