"""The locomotion planner: a commanded base velocity into footsteps, foot motion and joint references  [ZD §7.2.1].

Feet and base move in a plan of their own, in which the base follows the command exactly and standing feet stay where they
are. A foot that lifts off swings along cubics to where it will stand under its hip in the middle of its next stance. Joints
follow from the feet as the base sees them,

    x = Rᵀ (f − c),     ẋ = Rᵀ ḟ − u − ω × x,     ẍ = Rᵀ f̈ − ω × Rᵀ ḟ − u̇ − ω̇ × x − ω × ẋ
with c, R the base's place and heading, u its velocity in its own frame, f a foot. So standing feet move backwards as fast as
the base is to move forwards, and touch down without sliding.

Across the plane the plan is blind; in height it looks: a foot that comes down aims at the level of the feet that stand, seen
from the base as it really is. Once it stands, it goes to its height below a level base, which levels the base. A foot that
loses the ground goes after it, and no foot lifts while another one that is to carry instead does not touch yet.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from controllers.command import Reference, Schedule
from controllers.planners.gait import GaitSettings
from controllers.planners.legs import Legs
from controllers.planners.path import Path, PathSettings
from controllers.planners.plan import Plan
from controllers.planners.steps import follow, forget
from idyn.jit.compiled import INDICES, REAL, VECTOR
from idyn.jit.crossing import Filled, Lent, entrance
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, Kinematics, State

UNREACHED = "the planner wants a foot where its leg does not reach"

MEASURED, CONTACTS, MOTION = Lent(VECTOR, VECTOR, VECTOR), Lent(INDICES, VECTOR), Filled(VECTOR, VECTOR, VECTOR)
"""What `follow` takes besides the plan and the time."""


class Locomotion:
    """Feet that step as the gait says, under a base that follows the path. Owns the plan."""

    def __init__(
        self, robot: Robot, stance: Array, start: float, gait: GaitSettings, path: PathSettings, period: float
    ) -> None:
        """
        stance: level configuration in which the robot starts (nq)
        start: when the gait begins [s]; period: of the ticks [s]
        """
        self._robot, self._path, self.legs = robot, Path(path), Legs(robot)
        self._keys, self._rows = robot.spheres.keys, robot.spheres.rows(robot.spheres.keys)  # of the last contacts
        self._angles = robot.joint_angles(stance)
        self._feet = self.legs.feet(self._angles)
        hips = _around(self._feet, robot.center_of_mass(stance) - stance[:3])
        self.plan = Plan(self.legs, self._path, hips, gait, (start, period), self._angles)
        self.reset()

    def reset(self) -> None:
        """Everything back to the stance."""
        self._path.reset()
        self.plan.ways.rest(self._feet)
        self.plan.angles[:] = self._angles
        forget(self.plan.fields)

    @cached_property
    def _follow(self) -> Callable[..., bool]:
        """The entrance to `follow`; the first time it is asked for, that is compiled."""
        return entrance(follow, Plan.TYPE, REAL, MEASURED, CONTACTS, MOTION)

    def at(self, t: float, state: State | Kinematics, contacts: ContactSet) -> Reference:
        """The reference at time t [s]; times never go back. The path is followed by the base of `state`."""
        motion = np.empty(self._robot.na), np.empty(self._robot.na), np.empty(self._robot.na)
        robot, q = self._robot, state.q
        measured = q, state.v, q[robot.tree.q_index] if robot.one_axis_each else robot.joint_angles(q)
        if contacts.keys is not self._keys:
            self._keys, self._rows = contacts.keys, robot.spheres.rows(contacts.keys)
        near = self._rows, np.ascontiguousarray(contacts.gaps, np.float64)
        reached = self._follow(self.plan.fields, t, measured, near, motion)
        return Reference(
            q=motion[0],
            v=motion[1],
            a=motion[2],
            schedule=Schedule(stance=~self.plan.swinging, time_to_switch=self.plan.wait.copy()),
            base=self.plan.u.copy(),
            problem="" if reached else UNREACHED,
        )


def _around(feet: Array, centre: Array) -> Array:
    """The feet (n, 3) moved together in the plane, so that `centre` (3) is above their middle: a trot stands on diagonals."""
    shift = centre - feet.mean(axis=0)
    shift[2] = 0.0
    return feet + shift
