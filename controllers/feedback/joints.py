"""Joint feedback: from tracking errors to a demanded acceleration  [ZD §7.2; MATHEMATICS §8].

q̈_des = q̈_ref + Kp (q_ref − q) + Kd (q̇_ref − q̇) + Ki ∫ (q_ref − q) dt

q_ref − q is the way on the manifold (`Robot.joint_error`). The same errors with gains on torque are the whole of PID control.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from controllers.command import Reference
from controllers.config.loading import NonNegative, Settings
from idyn.jit.compiled import REAL, VECTOR, compiled, several
from idyn.jit.crossing import Filled, Lent, entrance
from idyn.model.robot import Robot
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


MOTION, SUMS = Lent(VECTOR, VECTOR, VECTOR, VECTOR), Filled(VECTOR, VECTOR)
"""What `_add` takes."""


class JointFeedback:
    """PID on joint positions; owns the integral."""

    def __init__(self, settings: FeedbackSettings, robot: Robot) -> None:
        self._settings = settings
        self._error, self._one_axis_each = robot.joint_error, robot.one_axis_each
        self._integral = np.zeros(robot.na)
        self.active = max(settings.kp, settings.kd, settings.ki) > 0.0  # whether any gain is not zero

    @cached_property
    def _add(self) -> Callable[..., bool]:
        return entrance(_add, MOTION, several(REAL, 4), SUMS)

    def reset(self) -> None:
        """Forget the integral."""
        self._integral[:] = 0.0

    def added(self, wanted: Array, reference: Reference, joints: tuple[Array, Array], dt: float) -> Array:
        """What is wanted plus the correction (na): q̈_des [rad/s²] where the reference's acceleration is wanted.

        joints: measured angles [rad] and speeds [rad/s] (na)
        """
        angles, speeds = joints
        s, error = self._settings, reference.q - angles if self._one_axis_each else self._error(angles, reference.q)
        total, gains = np.empty(len(wanted)), (s.kp, s.kd, s.ki * dt, s.integral_limit)
        if not self._add((wanted, error, reference.v, speeds), gains, (self._integral, total)):
            raise ValueError(
                f"expected a reference and joints of one size, got {len(wanted)}, {len(error)}, {len(reference.v)}"
            )
        return total


@compiled
def _add(
    motion: tuple[Array, Array, Array, Array], gains: tuple[float, float, float, float], sums: tuple[Array, Array]
) -> bool:
    """Fill what is wanted plus the correction (na), and carry the integral on. Whether all are of one size.

    motion: what is wanted, the errors, the wanted rates, the measured ones; gains: kp, kd, ki dt and the integral's limit
    sums: the integral and the total
    """
    (wanted, error, v, speeds), (kp, kd, ki_dt, limit), (integral, total), n = motion, gains, sums, len(sums[1])
    if not len(wanted) == len(error) == len(v) == len(speeds) == len(integral) == n:
        return False
    for k in range(n):
        # Kp (q_ref − q) + Kd (q̇_ref − q̇) + Ki ∫ (q_ref − q) dt
        correction = kp * error[k] + kd * (v[k] - speeds[k])
        if ki_dt > 0.0:
            integral[k] += ki_dt * error[k]
            if abs(integral[k]) > limit:
                integral[k] = limit if integral[k] > 0.0 else -limit
        total[k] = wanted[k] + (correction + integral[k])
    return True
