"""Fingers: how the joints are moved that hold an object  [ZD §7.2.2].

Fingers that are told where to go leave open how hard they press: at rest on an object, any squeeze goes with their motion, none
included, and with finite friction so does an object that falls. Fingers that are told how hard to turn leave nothing open.
"""

from collections.abc import Iterable

import msgspec
import numpy as np

from controllers.command import Reference
from controllers.config.loading import Kind, NonNegative
from idyn.errors import ConfigError, nearest
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet


class Grip:
    """What gripping joints are to do, tick by tick; here: none grips.

    joints: names of those that grip
    pressing: of these, those that press with a known torque; the motion of all others is prescribed
    """

    pressing: tuple[str, ...] = ()

    def __init__(self, robot: Robot, joints: tuple[str, ...] = ()) -> None:
        self.joints = joints

    def torque(self, angles: Array, speeds: Array) -> Array | None:
        """Torques of the joints that press, 0 at the others [N·m] (na), at angles [rad] and speeds [rad/s] (na); None where
        none presses."""
        return None

    def applied(self, torque: Array | None) -> Array | None:
        """Those torques (na) as a generalised force (nv)."""
        return None

    def prescribed(self, values: Array) -> Array:
        """Of values for all actuated joints (na) those for joints whose motion is prescribed."""
        return values

    def filled(self, values: Array) -> Array:
        """The inverse of `prescribed`: 0 at the joints that press (na)."""
        return values

    def reference(self, reference: Reference, contacts: ContactSet, angles: Array) -> Reference:
        """`reference` with the part of joints that grip at a speed replaced. angles: of the actuated joints [rad] (na)."""
        return reference


class SpringGrip(Grip):
    """Joints press with τ = kp (target − θ) − kd θ̇. The prediction knows τ, and takes their motion for what comes of it."""

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
    """The motion of joints is prescribed, the paper's way; their positions are free."""

    def __init__(self, settings: "SpeedGripSettings", robot: Robot) -> None:
        super().__init__(robot, settings.joints)
        self._settings, self._joints = settings, _indices(settings.joints, robot)
        self._moves = robot.tree.support[:, robot.tree.a[self._joints]]

    def reference(self, reference: Reference, contacts: ContactSet, angles: Array) -> Reference:
        held = contacts.gaps <= self._settings.touching
        moved = self._moves[contacts.bodies] != self._moves[contacts.others]
        touching = (moved & held[:, None]).any(axis=0)
        q, v, a = reference.q.copy(), reference.v.copy(), reference.a.copy()
        q[self._joints] = angles[self._joints]
        v[self._joints] = np.where(touching, self._settings.squeeze, self._settings.close)
        a[self._joints] = 0.0
        return msgspec.structs.replace(reference, q=q, v=v, a=a)


class GripSettings(Kind, frozen=True):
    """Base of how joints grip instead of following the trajectory.

    joints: their names
    """

    joints: tuple[str, ...]

    def build(self, robot: Robot) -> Grip:
        """Raises ConfigError for joints that the robot does not have."""
        raise NotImplementedError


class SpringGripSettings(GripSettings, frozen=True, tag="spring"):
    """targets: of the springs, one for each joint [rad]
    kp [N·m/rad], kd [N·m·s/rad]: of the springs; kd dt must stay below a joint's lightest inertia, or it shakes
    """

    targets: tuple[float, ...]
    kp: NonNegative = 20.0
    kd: NonNegative = 0.03

    def build(self, robot: Robot) -> Grip:
        if len(self.targets) != len(self.joints):
            raise ConfigError("grip.targets", f"expected {len(self.joints)}, one for each joint, got {len(self.targets)}")
        return SpringGrip(self, robot)


class SpeedGripSettings(GripSettings, frozen=True, tag="speed"):
    """squeeze: speed of a joint whose body touches something [rad/s]; 0 holds still. Through a rigid object it is a demand that
        cannot be met: `consistency` decides what becomes of it
    close: speed of one whose body touches nothing [rad/s]
    touching: a contact up to this gap is one [m]
    """

    squeeze: float = 0.0
    close: float = 1.0
    touching: NonNegative = 1e-4

    def build(self, robot: Robot) -> Grip:
        return SpeedGrip(self, robot)


AnyGrip = SpringGripSettings | SpeedGripSettings
"""`[grip]` of a controller."""


def _indices(joints: Iterable[str], robot: Robot) -> Array:
    """Where these joints are among the actuated ones. Raises ConfigError for one that is not, or that has several axes."""
    for name in joints:
        if name not in robot.joint_names:
            raise ConfigError("grip.joints", f"no actuated joint named '{name}'{nearest(name, robot.joint_names)}")
    found = np.array([robot.joint_names.index(name) for name in joints], dtype=np.int64)
    for name in np.array(robot.joint_names)[found][robot.tree.q_index[found] < 0]:
        raise ConfigError("grip.joints", f"expected joints of one axis, got '{name}'")
    return found


def released(robot: Robot, joints: Iterable[str]) -> Robot:
    """The robot with `joints` among the unactuated ones: their motion is no longer prescribed. Its own scratch."""
    described = robot.description
    more = tuple(name for name in joints if name not in described.unactuated)
    if not more:
        return robot
    tau_max = {name: tau for name, tau in described.tau_max.items() if name not in more}
    return robot.variant(unactuated=described.unactuated + more, tau_max=tau_max)
