"""The problem of one tick: equations of the tasks, and its solution for given contact modes.

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
from idyn.tasks.forces import ContactTask
from idyn.tasks.frames import TaskKinematics
from idyn.tasks.held import OPEN, SLIDE, STICK
from idyn.tasks.modes import corners_of, distance_bounds, joint_bounds, name_of, opposing, reach_of
from idyn.tasks.motion import MotionTask, Rows, fill_roots
from idyn.tasks.nearest import fill_rows_of, solve_tasks
from idyn.tasks.outcomes import MET, TaskOutcome, near
from idyn.tasks.stack import TaskStack
from idyn.terms.stages import Dynamics
from idyn.types import Array, ContactSet, Kinematics, Prediction

EXTRA = 16
"""Number of active limits beyond that of the coordinates: those that nothing meets together."""

RELAXED, HINDERS = 1e-6, 1e-6
"""Violation beyond which a limit is named as one that cannot be met; share of the largest multiplier of its level beyond which
one counts."""

SOFTLY, UNORDERED = 1e-3, "order of the levels"
"""Where the levels are not strict: the violation of a soft limit from which on it is named; what is named besides."""

NO_LIMITS, NONE_HINDERS = np.zeros(0, np.int64), np.zeros((0, 0), np.bool_)

SAME_DIRECTION = float(np.cos(np.radians(2.0)))
"""Sliding directions with a larger cosine count as equal."""


class Asked(NamedTuple):
    """A task with its equations. of_force: whether they are for contact forces"""

    task: MotionTask | ContactTask
    rows: Rows
    of_force: bool


class Solution(NamedTuple):
    """Motion and forces nearest to the tasks for given contact modes.

    motion: v̇ (nv); force: f, rows S, T, N (3n)
    """

    kinds: Array  # of the modes, see `idyn.tasks.held` (n)
    directions: Array  # of sliding along s and t, as used (n, 2)
    motion: Array
    force: Array
    active: Array  # numbers of the active limits, see `idyn.tasks.limits` (k)
    hinders: Array  # whether a limit prevents a smaller error of a level (levels, k)
    relaxed: tuple[str, ...]  # names of limits that nothing meets together
    choice: int  # dimension of the choice of forces


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

    def solve(self, kinds: Array, directions: Array, *, limited: bool = True) -> Solution:
        """Return the solution within the limits. limited: whether those of forces and torques hold"""
        if not slides(kinds):
            return self._solve(kinds, directions, limited)
        if not directions.any():
            directions = self.sliding(np.zeros(self.robot.nv))
        first = self._solve(kinds, directions, limited)
        return self._solve(kinds, self.sliding(first.motion), limited)

    def _solve(self, kinds: Array, directions: Array, limited: bool) -> Solution:
        robot, given, count = self.robot, self.limits(limited=limited), len(kinds)
        most = robot.na + 3 * count + EXTRA
        motion, force, numbers = np.empty(robot.nv), np.empty(3 * count), np.empty(most, np.int64)
        multipliers, missed = np.zeros((len(self.levels), most)), np.empty(most)
        contact, out = (kinds, self._friction(kinds, directions)), (motion, force, numbers, multipliers, missed)
        dynamics, mass = self.dynamics, robot.total_mass
        k, choice, exact = solve_tasks(dynamics, contact, self._motion, self._forces, given, out, mass)
        if k == 0 and exact:
            return Solution(kinds, directions, motion, force, NO_LIMITS, NONE_HINDERS, (), choice)
        violated = numbers[:k][missed[:k] < -(RELAXED if exact else SOFTLY)].tolist()
        relaxed = *dict.fromkeys(map(self.name, violated)), *(() if exact else (UNORDERED,))
        multipliers = multipliers[:, :k]
        largest = np.abs(multipliers).max(axis=1, initial=0.0, keepdims=True)
        hinders = np.abs(multipliers) > HINDERS * largest
        return Solution(kinds, directions, motion, force, numbers[:k].copy(), hinders, relaxed, choice)

    def limits(self, *, limited: bool) -> tuple[Array, ...]:
        """Return the fields of `Limits` after the first."""
        limits, robot, mu, apart = self.stack.limits, self.robot, self.contacts.mu, self.apart
        if limited:
            most, least = robot.limits.tau_max, np.array([limits.normal_force])
            most, reach = most if limits.torque == 1.0 else most * limits.torque, reach_of(self.law, mu, limits)
        else:
            most, reach, least = np.full(robot.na, np.inf), np.full(len(mu), np.inf), np.array([-np.inf])
        return corners_of(self.law), reach, *self.joint_bounds, most, apart.rows, apart.least, least

    def name(self, number: int) -> str:
        """Return the name of a limit."""
        return name_of(self.robot, self.contacts.keys, len(corners_of(self.law)), self.apart, number)

    def rows_of(self, solution: Solution, motions: Array, forces: Array) -> tuple[Array, Array]:
        """Return rows on the coordinates of the levels: of the active limits (k, ·), of rows on v̇ (r, nv) and on f (r, 3n)."""
        contact = solution.kinds, self._friction(solution.kinds, solution.directions)
        which, k = (solution.active, motions, forces), len(solution.active)
        found = np.empty((k + len(motions), self.robot.na + 3 * len(solution.kinds)))
        given, mass = self.limits(limited=True), self.robot.total_mass
        size = fill_rows_of(self.dynamics, contact, self._motion, self._forces, given, which, (found,), mass)
        return found[:k, :size], found[k:, :size]

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
    asked, nv, n3 = problem.asked[k], problem.robot.nv, 3 * len(solution.kinds)
    (A, wanted, drift, roots), value = asked.rows, solution.force if asked.of_force else solution.motion
    gradient = A.T @ (roots**2 * (A @ value + drift - wanted))
    if np.linalg.norm(gradient) < 1e-9 * np.linalg.norm(wanted):
        return ("its own rows contradict each other",)
    found: list[tuple[float, str]] = []
    others = [
        (other, A_k) for i, other in enumerate(problem.asked) if i != k and (A_k := _pull(asked, other, solution)) is not None
    ]
    stacked = [
        (roots[:, None] * A, asked.of_force),
        (gradient[None], asked.of_force),
        *((A_k, o.of_force) for o, A_k in others),
    ]
    motions = np.vstack([np.zeros((len(rows), nv)) if of_force else rows for rows, of_force in stacked])
    forces = np.vstack([rows if of_force else np.zeros((len(rows), n3)) for rows, of_force in stacked])
    limits, coordinates = problem.rows_of(solution, motions, forces)
    # the error that is left if only contacts and dynamics restrict the task, with its gradient
    weighted, target = coordinates[: len(A)], roots * (wanted - drift - A @ value)
    reached = _span(weighted, float(np.abs(roots[:, None] * A).max()))
    rest = reached @ (reached.T @ target) - target
    if np.linalg.norm(rest) > MET * max(1.0, float(np.linalg.norm(wanted))):
        fixed = _fixed(problem, solution)
        found += [(1.0, "the contacts do not transmit this force")] if asked.of_force else _shares(fixed, A.T @ (roots * rest))
    free = coordinates[len(A)]
    if np.linalg.norm(free) > 1e-7 * np.linalg.norm(A) * np.linalg.norm(gradient):
        level, start, groups = problem.levels.index(asked.task.level), len(A) + 1, []
        for i in np.flatnonzero(solution.hinders[: level + 1].any(axis=0)).tolist():
            groups.append((problem.name(int(solution.active[i])), limits[i : i + 1]))
        for other, rows in others:
            groups.append((f"task {other.task.label()}", coordinates[start : start + len(rows)]))
            start += len(rows)
        found += _shares(groups, free)
    largest = max((share for share, _ in found), default=0.0)
    named = sorted(((share, name) for share, name in found if share > SHARE * largest), reverse=True)
    return tuple(dict.fromkeys(name for _, name in named)) or ("its own rows contradict each other",)


def _span(A: Array, scale: float) -> Array:
    """Return an orthonormal basis of the columns of A, as columns. scale: size of entries of A that are not zero"""
    columns, values, _ = np.linalg.svd(A, full_matrices=False)
    return columns[:, values > 1e-9 * scale]


def _pull(asked: Asked, other: Asked, solution: Solution) -> Array | None:
    """Return the rows of a task of a higher level, or the gradient of one of the same level; None for one of a lower level."""
    if other.task.level > asked.task.level:
        return None
    A, wanted, drift, roots = other.rows
    if other.task.level < asked.task.level:
        return A
    value = solution.force if other.of_force else solution.motion
    return (A.T @ (roots**2 * (A @ value + drift - wanted)))[None]


def _fixed(problem: TaskProblem, solution: Solution) -> Groups:
    """Return rows on v̇ that cannot change: held contacts, closures, dynamics of unactuated joints."""
    groups, own, u = list[tuple[str, Array]](), problem.dynamics.own, problem.robot.tree.u
    pushes = [own["G"][:, u]]
    for i, key in enumerate(problem.contacts.keys):
        rows, kind = own["J"][3 * i : 3 * i + 3], solution.kinds[i]
        if kind == OPEN:
            continue
        sticks = kind == STICK and problem.contacts.mu[i] > 0.0
        along = problem._friction(solution.kinds, solution.directions)[i]
        pushes.append(rows[:, u] if sticks else (np.array([*along, 1.0]) @ rows[:, u])[None])
        groups.append((f"contact {key} ({'slides' if kind == SLIDE else 'sticks'})", rows if sticks else rows[2:]))
    groups.append(("closed chains", own["G"]))
    _, values, spans = np.linalg.svd(np.vstack(pushes))
    rank = int((values > 1e-9 * values.max(initial=0.0)).sum())
    groups.append(("no contact force acts on the base this way", spans[rank:] @ problem.dynamics.given.own["M"][u]))
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
