"""Joint feedback: from tracking errors to demanded accelerations  [ZD §7.2; MATHEMATICS §8].

q̈_des = q̈_ref + Kp (q_ref − q) + Kd (q̇_ref − q̇) + Ki ∫ (q_ref − q) dt

q_ref − q is the difference on the configuration manifold (`Robot.joint_error`). With gains on torque and q̈_ref replaced by 0
this is PID control.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Annotated

import numpy as np

from controllers.command import Reference
from controllers.config.loading import Settings
from controllers.config.tables import within
from idyn.jit.compiled import REAL, VECTOR, CompileTask, compiled, several
from idyn.jit.entry import Borrowed, Output, entry_point
from idyn.model.robot import Robot
from idyn.types import Array


class FeedbackSettings(Settings, frozen=True):
    """Feedback gains on acceleration, the same for every joint.

    On torque (`[torque_feedback]`) the units are: kp [N·m/rad], kd [N·m·s/rad], ki [N·m/(rad s)], integral_limit [N·m].

    kp: [1/s²]; √kp is the angular frequency of the stiffness and must stay well below 1/dt
    kd: [1/s]; 2√kp is critical damping. 1/dt demands the reference velocity at the end of the next period, whatever the
        measured velocity is. Compliant ground requires this: a rigid law interprets the motion of the ground under the feet as
        motion of the robot and amplifies it
    ki: [1/s³]
    integral_limit: limit of the integral term [rad/s²]
    """

    kp: Annotated[float, within(0, 1e7, "1/s² (on torque: N·m/rad)")] = 900.0
    kd: Annotated[float, within(0, 1e5, "1/s (on torque: N·m·s/rad)")] = 60.0
    ki: Annotated[float, within(0, 1e8, "1/s³ (on torque: N·m/(rad s))")] = 0.0
    integral_limit: Annotated[float, within(0, 1e6, "rad/s² (on torque: N·m)")] = 20.0


MOTION, SUMS = Borrowed(VECTOR, VECTOR, VECTOR, VECTOR), Output(VECTOR, VECTOR)
"""Types of the arguments `motion` and `sums` of `_add`."""


class JointFeedback:
    """PID on joint positions. Stores the integral."""

    def __init__(self, settings: FeedbackSettings, robot: Robot) -> None:
        self._settings = settings
        self._error, self._one_axis_each = robot.joint_error, robot.one_axis_each
        self._integral = np.zeros(robot.na)
        self.active = max(settings.kp, settings.kd, settings.ki) > 0.0

    @cached_property
    def _add(self) -> Callable[..., bool]:
        return entry_point(_add, MOTION, several(REAL, 4), SUMS)

    def compile_tasks(self) -> list[CompileTask]:
        """Return tasks that compile the kernel of this class; see `idyn.prediction.precompile`."""
        return [partial(getattr, self, "_add")]

    def reset(self) -> None:
        """Set the integral to zero."""
        self._integral[:] = 0.0

    def add_to(self, base: Array, reference: Reference, joints: tuple[Array, Array], dt: float) -> Array:
        """Return `base` plus the feedback term (na): q̈_des [rad/s²] if `base` is the reference acceleration.

        joints: measured angles [rad] and speeds [rad/s] (na)
        Raises ValueError if the sizes differ.
        """
        angles, speeds = joints
        s, error = self._settings, reference.q - angles if self._one_axis_each else self._error(angles, reference.q)
        total, gains = np.empty(len(base)), (s.kp, s.kd, s.ki * dt, s.integral_limit)
        if not self._add((base, error, reference.v, speeds), gains, (self._integral, total)):
            sizes = f"{len(base)}, {len(error)}, {len(reference.v)}"
            raise ValueError(f"expected base, position error and reference velocity of {len(speeds)} joints, got {sizes}")
        return total


@compiled
def _add(
    motion: tuple[Array, Array, Array, Array], gains: tuple[float, float, float, float], sums: tuple[Array, Array]
) -> bool:
    """Fill `base` plus the feedback term (na) and update the integral. Return False if the sizes differ.

    motion: (base, position errors, reference velocities, measured velocities), each (na)
    gains: (kp, kd, ki dt, limit of the integral)
    sums: output: (integral, total), each (na)
    """
    (base, error, v, speeds), (kp, kd, ki_dt, limit), (integral, total), n = motion, gains, sums, len(sums[1])
    if not len(base) == len(error) == len(v) == len(speeds) == len(integral) == n:
        return False
    for k in range(n):
        # Kp (q_ref − q) + Kd (q̇_ref − q̇) + Ki ∫ (q_ref − q) dt
        correction = kp * error[k] + kd * (v[k] - speeds[k])
        if ki_dt > 0.0:
            integral[k] += ki_dt * error[k]
            if abs(integral[k]) > limit:
                integral[k] = limit if integral[k] > 0.0 else -limit
        total[k] = base[k] + (correction + integral[k])
    return True
