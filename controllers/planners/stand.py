"""Standing: the stance is held, at the commanded height and attitude of the base."""

import math
from functools import cached_property

import numpy as np

from controllers.command import Reference, Steering
from controllers.contact.terrain import Known
from controllers.planners.legs import Legs
from controllers.planners.pose import BasePose, PoseSettings, Reach, check_pose
from idyn.contact.terrain import Terrain
from idyn.errors import InputError
from idyn.model.robot import Robot
from idyn.tasks import TaskStack
from idyn.types import Array, ContactSet, Kinematics, State

UNREACHED = "reference out of reach: a leg does not reach its foot at the commanded height and attitude"


class Stand:
    """Holds the stance of a robot on legs as `Legs` describes. The feet stay in place while the base moves."""

    def __init__(self, robot: Robot, stance: Array, pose: PoseSettings) -> None:
        """stance: level configuration (nq). Raises ConfigError for legs of another structure."""
        self._legs, self._na = Legs(robot, stance), robot.na
        self._angles, zero = self._legs.angles(stance), np.zeros(robot.na)
        self._feet = self._legs.feet(self._angles)
        self._base = BasePose(pose)
        self._still, self._bent = Reference(q=self._angles[: robot.na], v=zero, a=zero), self._angles
        self._steering, self._t, self._last, self._moves = Steering(), math.nan, self._still, False
        self._reach = Reach(self._legs, self._angles, self._feet, (robot.limits.q_min, robot.limits.q_max))

    @cached_property
    def limits(self) -> Array:
        """Limits of height [m], roll and pitch [rad] (3, 2)."""
        return self._reach.limits(self._base.bounds)

    def check(self, steering: Steering, tasks: TaskStack | None = None) -> None:
        """Raise InputError for a steering that cannot be followed, with the field of a command."""
        if steering.velocity is not None:
            raise InputError("velocity", "the controller's reference has no gait that could follow it")
        if steering.gait is not None:
            raise InputError("gait", "the controller's reference is no gait")
        if steering.posed:
            check_pose(steering.pose, self.limits)

    def steer(self, steering: Steering) -> None:
        """Move to the height and attitude of a steering."""
        if steering is not self._steering:
            self._steering = steering
            self._base.target[:] = steering.pose
            self._moves = True

    def on(self, terrain: Terrain, known: Known) -> None:
        """The feet stay where they are on any terrain."""

    def prepare(self) -> None:
        """Compile the kernels that steering needs."""
        _ = self.limits

    def reset(self) -> None:
        """Return to the stance at once."""
        self._base.reset()
        self._steering, self._t, self._last, self._moves = Steering(), math.nan, self._still, False
        self._bent = self._angles

    def at(self, t: float, state: State | Kinematics, contacts: ContactSet) -> Reference:
        """Return the reference at time t [s], independent of the state. t must not decrease."""
        base, dt = self._base, 0.0 if math.isnan(self._t) else t - self._t
        self._t = t
        if not self._moves:
            return self._last
        m, na = len(self._angles), self._na
        motion = self._bent.copy(), np.empty(m), np.empty(m)
        reached = self._reach.stand(base.fields, self._legs.fields, dt, (self._feet,), motion)
        self._bent, q, v, a = motion[0], *(part[:na] for part in motion)
        self._moves = bool(base.dx.any() or base.ddx.any() or (base.x != base.target).any())
        self._last = Reference(q=q, v=v, a=a, pose=base.x.copy(), problem="" if reached else UNREACHED)
        if not base.x.any() and not base.dx.any():
            self._last, self._bent = self._still, self._angles
        return self._last
