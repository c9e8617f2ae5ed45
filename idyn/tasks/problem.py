"""The problem of one tick: equations of the tasks, and its solution for given contact modes.

Two solutions of the same problem: `follow` without limits, by kernels; `resolve` with limits, for ticks in which one binds.

The error of a task that is not met would fall along the gradient Aᵀ W (A x − b). Something prevents this: rows that contacts
hold, limits that are active, tasks of higher levels, and other tasks of the same level. The gradient is written as a sum over
their rows; those with a large share are named.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from idyn.laws.law import SLIPS, Law
from idyn.model.robot import Robot
from idyn.tasks.follow import OPEN, SLIDE, follow
from idyn.tasks.forces import ContactTask
from idyn.tasks.frames import TaskKinematics
from idyn.tasks.held import HeldMotion, Program, held_motion, program_of
from idyn.tasks.levels import resolve, solved
from idyn.tasks.modes import ModeRows, corners_of, distance_bounds, joint_bounds, mode_rows, names_of, opposing
from idyn.tasks.motion import MotionTask, Rows, fill_roots
from idyn.tasks.outcomes import MET, TaskOutcome, near
from idyn.tasks.stack import TaskStack
from idyn.terms.stages import Dynamics
from idyn.types import Array, ContactSet, Kinematics, Prediction

SAME_DIRECTION = float(np.cos(np.radians(2.0)))
"""Sliding directions with a larger cosine count as equal."""


class Asked(NamedTuple):
    """A task with its equations. of_force: whether they are for contact forces"""

    task: MotionTask | ContactTask
    rows: Rows
    of_force: bool


class Solution(NamedTuple):
    """Motion and forces nearest to the tasks for given contact modes.

    motion: v̇ (nv); force: f, rows S, T, N (3n); None: no contact task asks for forces, and no limit was considered
    """

    kinds: Array  # of the modes, see `idyn.tasks.follow` (n)
    directions: Array  # of sliding along s and t, as used (n, 2)
    motion: Array
    force: Array | None
    # limits (`idyn.tasks.modes`) that prevent a smaller error of a level (levels, k); None: no limit binds
    active: Array | None = None
    relaxed: tuple[str, ...] = ()  # names of limits that were widened
    # of `TaskProblem.follow`: whether the forces are within their limits, and the dimension of their choice
    within: bool = True
    choice: int = 0


class Layout(NamedTuple):
    """Where the equations of tasks are, in order of their levels: those of motions and of forces, each one below the other."""

    spans: tuple[tuple[int, int], ...]  # begin and end of the rows of each task
    levels: list[int]  # that are present
    counts: tuple[int, int]  # number of rows of motions, of forces
    ends: tuple[Array, Array]  # end of the rows of each level: of motions, of forces


@lru_cache(maxsize=256)
def layout_of(sizes: tuple[tuple[int, bool, int], ...]) -> Layout:
    """Return where the equations are. sizes: (level, whether they are for forces, number of rows) of each task"""
    spans, counts, ends = [], [0, 0], dict[int, tuple[int, int]]()
    for level, of_force, count in sizes:
        spans.append((counts[of_force], counts[of_force] + count))
        counts[of_force] += count
        ends[level] = counts[0], counts[1]
    motions, forces = np.array(list(ends.values()), np.int64).reshape(-1, 2).T.copy()
    return Layout(tuple(spans), list(ends), (counts[0], counts[1]), (motions, forces))


class TaskProblem:
    """The tasks at one state, with contacts, dynamics and limits.

    asked: tasks with their equations, in order of their levels; levels: the levels that are present
    """

    def __init__(self, robot: Robot, state: Kinematics, contacts: ContactSet, stack: TaskStack, law: Law, d: Dynamics) -> None:
        self.robot, self.state, self.contacts, self.stack, self.law, self.dynamics = robot, state, contacts, stack, law, d
        kinematics, self.asked, tasks = TaskKinematics(robot, state), [], sorted(stack.tasks, key=_level)
        sizes = tuple([(task.level, isinstance(task, ContactTask), task.count(robot)) for task in tasks])
        spans, self.levels, (motions, pushes), ends = layout_of(sizes)
        motion, forces = Rows.zeros(motions, robot.nv), Rows.zeros(pushes, 3 * len(contacts))
        for task, (_, of_force, _), span in zip(tasks, sizes, spans, strict=True):
            rows = (forces if of_force else motion).part(*span)
            task.fill(contacts if of_force else kinematics, rows)
            fill_roots(task.weight, rows.roots)
            self.asked.append(Asked(task, rows, of_force))
        self._motion = motion.A, motion.asked - motion.drift, motion.roots, ends[0]
        self._forces, self.pushes = (forces.A, forces.asked, forces.roots, ends[1]), pushes > 0
        self.joint_bounds = joint_bounds(robot, robot.joint_angles(state.q), state.v[robot.tree.a], d.given.dt, stack.limits)
        self.apart = distance_bounds(robot, state, d.given.dt, stack.limits)

    def follow(self, kinds: Array, directions: Array) -> Solution | None:
        """Return the solution if no limit of the motion binds and all contact tasks are met, else None. Its forces are None
        unless a contact task or a law that `holds_still` needs them."""
        dynamics, limits, law = self.dynamics, self.stack.limits, self.law
        needed = self.pushes or (law.holds_still and not self.robot.closures.keys)
        motion, force = out = np.empty(self.robot.nv), np.empty(3 * len(kinds) if needed else 0)
        bounds, unlimited = (limits.friction_margin, limits.normal_force), law.unlimited_friction
        if not law.holds_still:  # it may have other forces
            bounds, unlimited = (0.0, -np.inf), True
        given = (*self.joint_bounds, corners_of(law)), bounds, unlimited
        friction = self._friction(kinds, directions)
        within, choice = follow(dynamics, (kinds, friction), self._motion, self._forces, *given, out)
        if slides(kinds):
            directions = self.sliding(motion)
            friction = self._friction(kinds, directions)
            within, choice = follow(dynamics, (kinds, friction), self._motion, self._forces, *given, out)
        if choice < 0 or not self.apart.keep(motion):
            return None
        if self.pushes:
            A, wanted, _, _ = self._forces
            if np.abs(A @ force - wanted).max() > MET * max(1.0, float(np.abs(wanted).max())):
                return None
        return Solution(kinds, directions, motion, force if needed else None, within=within, choice=choice)

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


SHARE = 0.05
"""Obstacles with a smaller share of the largest one are not named."""

Groups = list[tuple[str, Array]]
"""Pairs (name, rows)."""


def outcomes_of(
    asked: Sequence[Asked],
    v: Array,
    solution: Solution,
    answer: Prediction,
    differences: Callable[[], tuple[str, ...]],
    again: Callable[[], TaskProblem],
) -> tuple[TaskOutcome, ...]:
    """Return the outcome of each task.

    v: velocity of the state (nv); differences: returns contacts whose predicted modes differ, in words
    again: returns the problem of this tick anew
    """
    outcomes = []
    for k, (task, rows, of_force) in enumerate(asked):
        quantity = solution.force if of_force else solution.motion
        held = rows.A @ quantity + rows.drift

        def obstacles(k: int = k) -> tuple[str, ...]:
            return _obstacles(again(), solution, k)

        predicted = predicted_value(asked[k], answer, v)
        changed = differences() if not near(held, predicted, rows.asked) else ()
        if not answer.status.ok:
            changed = (f"the law has no certified solution ({answer.status})", *changed)
        outcomes.append(TaskOutcome(task.label(), task.level, rows.asked, predicted, held, changed, obstacles))
    return tuple(outcomes)


def predicted_value(asked: Asked, answer: Prediction, v: Array) -> Array:
    """Return what the contact law predicts for the rows of a task (r)."""
    quantity = answer.p / answer.dt if asked.of_force else (answer.v_plus - v) / answer.dt
    value: Array = asked.rows.A @ quantity + asked.rows.drift
    return value


def _obstacles(problem: TaskProblem, solution: Solution, k: int) -> tuple[str, ...]:
    """Return what prevents task k, by decreasing influence."""
    held, modes, program = problem.linear(solution.kinds, solution.directions)
    asked = problem.asked[k]
    (A, wanted, drift, roots), affine = asked.rows, held.force if asked.of_force else held.acceleration
    value = solution.force if asked.of_force else solution.motion
    gradient = A.T @ (roots**2 * (A @ value + drift - wanted))
    if np.linalg.norm(gradient) < 1e-9 * np.linalg.norm(wanted):
        return ("its own rows contradict each other",)
    found: list[tuple[float, str]] = []
    # the error that is left if only contacts and dynamics restrict the task, with its gradient
    weighted, target = roots[:, None] * (A @ affine.slope), roots * (wanted - drift - A @ affine.offset)
    rest = weighted @ solved(weighted, target, float(np.abs(A).max())) - target
    if np.linalg.norm(rest) > MET * max(1.0, float(np.linalg.norm(wanted))):
        fixed = _fixed(problem, solution, held.rows, modes.held)
        found += [(1.0, "the contacts do not transmit this force")] if asked.of_force else _shares(fixed, A.T @ (roots * rest))
    free = affine.slope.T @ gradient
    if np.linalg.norm(free) > 1e-7 * np.linalg.norm(A) * np.linalg.norm(gradient):
        names = names_of(problem.robot, problem.contacts.keys, modes, problem.apart)
        level = problem.levels.index(asked.task.level)
        active = [] if solution.active is None else np.nonzero(solution.active[: level + 1])[1].tolist()
        limits = [(names[row], program.G[row : row + 1]) for row in active]
        found += _shares([*limits, *_other_tasks(problem, solution, held, k)], free)
    largest = max((share for share, _ in found), default=0.0)
    named = sorted(((share, name) for share, name in found if share > SHARE * largest), reverse=True)
    return tuple(dict.fromkeys(name for _, name in named)) or ("its own rows contradict each other",)


def _other_tasks(problem: TaskProblem, solution: Solution, held: HeldMotion, k: int) -> Groups:
    """Return rows on the coordinates: of tasks of higher levels; gradients of tasks of the same level."""
    groups, level = [], problem.asked[k].task.level
    for i, other in enumerate(problem.asked):
        if i == k or other.task.level > level:
            continue
        affine, value = (held.force, solution.force) if other.of_force else (held.acceleration, solution.motion)
        rows = other.rows.A @ affine.slope
        if other.task.level == level:
            error = other.rows.A @ value + other.rows.drift - other.rows.asked
            rows = (rows.T @ (other.rows.roots**2 * error))[None]
        groups.append((f"task {other.task.label()}", rows))
    return groups


def _fixed(problem: TaskProblem, solution: Solution, rows: Array, held: Array) -> Groups:
    """Return rows on v̇ that cannot change: held contacts, closures, dynamics of unactuated joints."""
    groups = []
    for i, key in enumerate(problem.contacts.keys):
        of = np.flatnonzero(held // 3 == i)
        if solution.kinds[i] != OPEN:
            groups.append((f"contact {key} ({'slides' if solution.kinds[i] == SLIDE else 'sticks'})", rows[of]))
    m, k = len(held), 3 * len(problem.robot.closures.keys)
    groups.append(("closed chains", rows[m : m + k]))
    groups.append(("no contact force acts on the base this way", rows[m + k :]))
    return groups


def _shares(groups: Groups, gradient: Array) -> list[tuple[float, str]]:
    """Return the size of each group's part in the gradient, as the smallest combination of all rows that gives it."""
    groups = [(name, rows) for name, rows in groups if len(rows) and rows.any()]
    if not groups:
        return []
    scaled = [rows / np.linalg.norm(rows) for _, rows in groups]
    factors = np.linalg.lstsq(np.vstack(scaled).T, gradient, rcond=1e-9)[0]
    shares, start = [], 0
    for (name, _), rows in zip(groups, scaled, strict=True):
        part = rows.T @ factors[start : start + len(rows)]
        shares.append((float(np.linalg.norm(part)), name))
        start += len(rows)
    return shares
