"""The problem of one tick: equations of the tasks, and its solution for given contact modes.

Two solutions of the same problem: `follow` without limits, by kernels; `resolve` with limits, for ticks in which one binds.
"""

from typing import NamedTuple

import numpy as np

from idyn.laws.law import SLIPS, Law
from idyn.model.robot import Robot
from idyn.tasks.fields import fill_roots
from idyn.tasks.follow import SLIDE, follow, push
from idyn.tasks.forces import ContactTask
from idyn.tasks.kinematics import TaskKinematics
from idyn.tasks.limited.held import HeldMotion, held_motion
from idyn.tasks.limited.levels import resolve
from idyn.tasks.limited.program import Program, program_of
from idyn.tasks.limits import distance_bounds, joint_bounds, names_of
from idyn.tasks.modes import ModeRows, mode_rows, opposing
from idyn.tasks.motion import MotionTask, Rows
from idyn.tasks.outcomes import MET
from idyn.tasks.stack import TaskStack
from idyn.terms.stages import Dynamics
from idyn.types import Array, ContactSet, Kinematics

SAME_DIRECTION = float(np.cos(np.radians(2.0)))
"""Sliding directions with a larger cosine count as equal."""


class Asked(NamedTuple):
    """A task with its equations. of_force: whether they are for contact forces"""

    task: MotionTask | ContactTask
    rows: Rows
    of_force: bool


class Solution(NamedTuple):
    """Motion and forces nearest to the tasks for given contact modes.

    kinds: of the modes, see `idyn.tasks.follow` (n); directions: of sliding along s and t, as used (n, 2)
    motion: v̇ (nv); force: f, rows S, T, N (3n); None: no contact task asks for forces, and no limit was considered
    active: limits (`idyn.tasks.limits`) that prevent a smaller error of a level (levels, k); None: no limit binds
    relaxed: names of limits that were widened
    """

    kinds: Array
    directions: Array
    motion: Array
    force: Array | None
    active: Array | None = None
    relaxed: tuple[str, ...] = ()


class RowStack:
    """The equations of several tasks, one below the other, in order of their levels. rows: all of them"""

    def __init__(self, count: int, columns: int) -> None:
        self.rows, self._end, self._ends = Rows.zeros(count, columns), 0, dict[int, int]()

    def add(self, count: int, level: int) -> Rows:
        """Return views of the next `count` rows."""
        start, self._end = self._end, self._end + count
        self._ends[level] = self._end
        return self.rows.part(start, self._end)

    def arrays(self, levels: list[int]) -> tuple[Array, Array, Array, Array]:
        """A (r, columns), asked − drift (r), square roots of the weights (r), end of the rows of each level (levels)."""
        (A, asked, drift, roots), ends, end = self.rows, [], 0
        for level in levels:
            end = self._ends.get(level, end)
            ends.append(end)
        return A, asked - drift, roots, np.array(ends, np.int64)


class TaskProblem:
    """The tasks at one state, with contacts, dynamics and limits.

    asked: tasks with their equations, in order of their levels; levels: the levels that are present
    """

    def __init__(self, robot: Robot, state: Kinematics, contacts: ContactSet, stack: TaskStack, law: Law, d: Dynamics) -> None:
        self.robot, self.state, self.contacts, self.stack, self.law, self.dynamics = robot, state, contacts, stack, law, d
        kinematics, self.asked = TaskKinematics(robot, state), []
        counts = [(task, isinstance(task, ContactTask), task.count(robot)) for task in sorted(stack.tasks, key=_level)]
        pushes = sum([count for _, of_force, count in counts if of_force])
        motion = RowStack(sum([count for _, _, count in counts]) - pushes, robot.nv)
        forces = RowStack(pushes, 3 * len(contacts))
        for task, of_force, count in counts:
            rows = (forces if of_force else motion).add(count, task.level)
            task.fill(contacts if of_force else kinematics, rows)
            fill_roots(task.weight, rows.roots)
            self.asked.append(Asked(task, rows, of_force))
        self.levels = list(dict.fromkeys([task.level for task, _, _ in counts]))
        self._motion, self._forces, self._pushes = motion.arrays(self.levels), forces.arrays(self.levels), pushes > 0
        self.joint_bounds = joint_bounds(robot, robot.joint_angles(state.q), state.v[robot.tree.a], d.given.dt, stack.limits)
        self.apart = distance_bounds(robot, state, d.given.dt, stack.limits)

    def follow(self, kinds: Array, directions: Array) -> Solution | None:
        """Return the solution if no limit of the motion binds and all contact tasks are met, else None."""
        fields, out = self.dynamics.fields, (np.empty(self.robot.nv), np.empty(self.robot.na))
        friction = self._friction(kinds, directions)
        within = follow()(fields, (kinds, friction), self._motion, self.joint_bounds, out)
        motion = out[0]
        if slides(kinds):
            directions = self.sliding(motion)
            friction = self._friction(kinds, directions)
            within = follow()(fields, (kinds, friction), self._motion, self.joint_bounds, out)
        if not (within and self.apart.keep(motion)):
            return None
        if not self._pushes:
            return Solution(kinds, directions, motion, None)
        A, wanted, _, _ = self._forces
        force = np.empty(A.shape[1])
        push()(fields, (kinds, friction), self._forces, (motion,), (force,))
        if np.abs(A @ force - wanted).max() > MET * max(1.0, float(np.abs(wanted).max())):
            return None
        return Solution(kinds, directions, motion, force)

    def resolve(self, kinds: Array, directions: Array) -> Solution:
        """Return the solution within the limits."""
        for _ in range(2):
            held, rows, program = self.linear(kinds, directions)
            resolution = resolve(program)
            motion = held.acceleration.at(resolution.x)
            if not slides(kinds):
                break
            directions = self.sliding(motion)
        relaxed: tuple[str, ...] = ()
        if len(resolution.relaxed):
            names = names_of(self.robot, self.contacts.keys, rows, self.apart)
            relaxed = tuple(dict.fromkeys(names[row] for row in resolution.relaxed.tolist()))
        return Solution(kinds, directions, motion, held.force.at(resolution.x), resolution.active, relaxed)

    def linear(self, kinds: Array, directions: Array) -> tuple[HeldMotion, ModeRows, Program]:
        """Return motion and forces as functions of coordinates, the rows of the modes, and the program."""
        limits, robot = self.stack.limits, self.robot
        rows = mode_rows(kinds, self._friction(kinds, directions), self.contacts.mu, self.law, limits)
        held = held_motion(self.dynamics, rows)
        bounds = *self.joint_bounds, limits.torque * robot.limits.tau_max, self.apart.rows, self.apart.least
        return held, rows, program_of(self.dynamics, held, rows, (self._motion, self._forces), bounds, robot.total_mass)

    def sliding(self, motion: Array) -> Array:
        """Return the directions of sliding û_T of a motion v̇ (n, 2)."""
        given = self.dynamics.given
        v_hat = given.dt * motion + (1.0 - given.keep) * given.own["v"]
        u_hat = self.dynamics.own["J"] @ v_hat + self.dynamics.own["drift"]
        return unit_directions(u_hat.reshape(-1, 3)[:, :2])

    def _friction(self, kinds: Array, directions: Array) -> Array:
        """Return the friction per normal force of contacts that slide (n, 2)."""
        friction = np.zeros((len(kinds), 2))
        if not slides(kinds):
            return friction
        for i in np.flatnonzero(kinds == SLIDE).tolist():
            friction[i] = opposing(self.law, float(self.contacts.mu[i]), directions[i])
        return friction


def slides(kinds: Array) -> bool:
    """Return whether a contact slides."""
    return SLIDE in kinds.tolist()


def unit_directions(velocities: Array) -> Array:
    """Return unit vectors of velocities (n, 2); 0 for speeds that count as sticking."""
    speeds = np.sqrt((velocities * velocities).sum(axis=1, keepdims=True))
    return np.where(speeds > SLIPS, velocities / np.maximum(speeds, SLIPS), 0.0)


def _level(task: MotionTask | ContactTask) -> int:
    return task.level
