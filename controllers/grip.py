"""Fingers: how the joints are moved that hold an object  [ZD §7.2.2].

Fingers that are told where to go leave open how hard they press: at rest on an object, any squeeze goes with their motion, none
included, and with finite friction so does an object that falls. Fingers that are told how hard to turn leave nothing open.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec
import numpy as np

from controllers.command import Reference
from controllers.config import NonNegative, Settings
from idyn.errors import ConfigError, nearest
from idyn.robot import Robot
from idyn.types import Array, ContactSet


class GripSettings(Settings, frozen=True):
    """Joints that grip instead of following the trajectory, none by default.

    kind: 'spring': they press with τ = kp (target − θ) − kd θ̇; the prediction knows τ, and takes their motion for what comes of
        it. 'speed', the paper's way: their motion is prescribed, their positions are free
    joints: their names
    targets: of the springs, one for each joint [rad]; 'speed' has no use for them
    kp [N·m/rad], kd [N·m·s/rad]: of the springs; kd dt must stay below a joint's lightest inertia, or it shakes
    squeeze: speed of a joint whose body touches something [rad/s]; 0 holds still. Through a rigid object it is a demand that
        cannot be met: `consistency` decides what becomes of it
    close: speed of one whose body touches nothing [rad/s]
    touching: a contact up to this gap is one [m]
    """

    kind: Literal["spring", "speed"] = "spring"
    joints: tuple[str, ...] = ()
    targets: tuple[float, ...] = ()
    kp: NonNegative = 20.0
    kd: NonNegative = 0.03
    squeeze: float = 0.0
    close: float = 1.0
    touching: NonNegative = 1e-4


class Grip:
    """What gripping joints are to do, tick by tick.

    pressing: names of the joints with a spring; the motion of all others is prescribed
    """

    def __init__(self, settings: GripSettings, robot: Robot) -> None:
        """Raises ConfigError for joints that the robot does not have, and for springs without a target each."""
        for name in settings.joints:
            if name not in robot.joint_names:
                raise ConfigError("grip.joints", f"no actuated joint named '{name}'{nearest(name, robot.joint_names)}")
        spring = settings.kind == "spring"
        if spring and len(settings.targets) != len(settings.joints):
            raise ConfigError(
                "grip.targets", f"expected {len(settings.joints)}, one for each joint, got {len(settings.targets)}"
            )
        joints = np.array([robot.joint_names.index(name) for name in settings.joints], dtype=np.int64)
        self._settings = settings
        self._springs, self._joints = (joints, joints[:0]) if spring else (joints[:0], joints)
        self._targets = np.array(settings.targets if spring else ())
        self._moves = robot.tree.support[:, robot.tree.a[self._joints]]
        self._driven = np.setdiff1d(np.arange(robot.na), self._springs)
        self._a, self._nv = robot.tree.a, robot.nv
        self._no_torque = np.zeros(robot.na)
        self.pressing = settings.joints if spring else ()

    def torque(self, angles: Array, speeds: Array) -> Array:
        """Torques of the springs, 0 at the other joints [N·m] (na), at angles [rad] and speeds [rad/s] (na)."""
        if not self.pressing:
            return self._no_torque
        s, k, tau = self._settings, self._springs, self._no_torque.copy()
        tau[k] = s.kp * (self._targets - angles[k]) - s.kd * speeds[k]
        return tau

    def applied(self, torque: Array) -> Array | None:
        """The springs' torques (na) as a generalised force (nv), None without springs."""
        if not self.pressing:
            return None
        force = np.zeros(self._nv)
        force[self._a] = torque
        return force

    def prescribed(self, values: Array) -> Array:
        """Of values for all actuated joints (na) those for joints whose motion is prescribed."""
        return values[self._driven] if self.pressing else values

    def filled(self, values: Array) -> Array:
        """The inverse of `prescribed`: 0 at the springs (na)."""
        if not self.pressing:
            return values
        full = np.zeros(len(self._a))
        full[self._driven] = values
        return full

    def reference(self, reference: Reference, contacts: ContactSet, angles: Array) -> Reference:
        """`reference` with the part of joints that grip at a speed replaced. angles: of the actuated joints [rad] (na)."""
        if not len(self._joints):
            return reference
        held = contacts.gaps <= self._settings.touching
        moved = self._moves[contacts.bodies] != self._moves[contacts.others]
        touching = (moved & held[:, None]).any(axis=0)
        q, v, a = reference.q.copy(), reference.v.copy(), reference.a.copy()
        q[self._joints] = angles[self._joints]
        v[self._joints] = np.where(touching, self._settings.squeeze, self._settings.close)
        a[self._joints] = 0.0
        return msgspec.structs.replace(reference, q=q, v=v, a=a)


def released(robot: Robot, joints: Iterable[str]) -> Robot:
    """The robot with `joints` among the unactuated ones: their motion is no longer prescribed. Its own scratch."""
    described = robot.description
    more = tuple(name for name in joints if name not in described.unactuated)
    if not more:
        return robot
    tau_max = {name: tau for name, tau in described.tau_max.items() if name not in more}
    return robot.variant(unactuated=described.unactuated + more, tau_max=tau_max)
