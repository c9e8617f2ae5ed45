"""Joint feedback: from tracking errors to a demanded acceleration  [ZD §7.2; MATHEMATICS §8].

q̈_des = q̈_ref + Kp (q_ref − q) + Kd (q̇_ref − q̇) + Ki ∫ (q_ref − q) dt

q_ref − q is the way on the manifold (`Robot.joint_error`). The same errors with gains on torque are the whole of PID control.
"""

import numpy as np

from controllers.command import Reference
from controllers.config import NonNegative, Settings
from idyn.robot import Robot
from idyn.types import Array


class FeedbackSettings(Settings, frozen=True):
    """Gains on acceleration, the same for every joint. On torque: kp [N·m/rad], kd [N·m·s/rad], ki [N·m/(rad s)], limit [N·m].

    kp: [1/s²]; √kp is the stiffness' angular frequency, which must stay well below 1/dt
    kd: [1/s]; 2√kp is critical damping. 1/dt demands the reference's velocity whatever was measured: needed on ground that
        yields, where a rigid law takes the legs' yielding for motion of the whole robot and, carrying it on, amplifies it
    ki: [1/s³]
    integral_limit: largest integral acceleration, where the integral stops growing [rad/s²]
    """

    kp: NonNegative = 900.0
    kd: NonNegative = 60.0
    ki: NonNegative = 0.0
    integral_limit: NonNegative = 20.0


class JointFeedback:
    """PID on joint positions; owns the integral."""

    def __init__(self, settings: FeedbackSettings, robot: Robot) -> None:
        self._settings = settings
        self._error = robot.joint_error
        self._integral = np.zeros(robot.na)

    @property
    def active(self) -> bool:
        """Whether any gain is not zero."""
        return max(self._settings.kp, self._settings.kd, self._settings.ki) > 0.0

    def reset(self) -> None:
        """Forget the integral."""
        self._integral[:] = 0.0

    def acceleration(self, reference: Reference, angles: Array, speeds: Array, dt: float) -> Array:
        """q̈_des [rad/s²] (na) for measured joint angles [rad] and speeds [rad/s] (na)."""
        return reference.a + self.correction(reference, angles, speeds, dt)

    def correction(self, reference: Reference, angles: Array, speeds: Array, dt: float) -> Array:
        """The part of it that comes from errors (na)."""
        s = self._settings
        error = self._error(angles, reference.q)
        correction = s.kp * error + s.kd * (reference.v - speeds)
        if s.ki > 0.0:
            self._integral += s.ki * dt * error
            np.clip(self._integral, -s.integral_limit, s.integral_limit, out=self._integral)
            correction += self._integral
        return correction
