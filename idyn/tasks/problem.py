"""The problem of one tick: equations of the tasks, and its solution for given contact modes.

The error of a task that is not met would fall along the gradient Aᵀ W (A x − b). Something prevents this: rows that contacts
hold, limits that are active, tasks of higher levels, and other tasks of the same level. The gradient is written as a sum over
their rows; those with a large share are named.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from idyn.laws.law import SLIPS, Law
from idyn.model.robot import Robot
from idyn.tasks.forces import ContactTask
from idyn.tasks.held import OPEN, SLIDE, STICK
from idyn.tasks.modes import distance_bounds, name_of, opposing
from idyn.tasks.motion import MotionTask, Rows, TaskMotion
from idyn.tasks.nearest import Pair, fill_rows_of, solve_tasks
from idyn.tasks.outcomes import MET, TaskOutcome, compare
from idyn.tasks.plan import EXTRA, Plan, begin, refuse, stacked
from idyn.tasks.read import roots_of
from idyn.tasks.stack import TaskStack
from idyn.terms.stages import Dynamics
from idyn.types import Array, ContactSet, Kinematics, Prediction

HINDERS = 1e-6
"""Share of the largest multiplier of its level beyond which a limit counts as active."""

UNORDERED = "order of the levels"
"""What is named besides limits where the levels are not strict."""

DAMPED = "the robot is nearly singular"
"""What is named where rows are damped, see `TaskLimits.singular`."""

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
    multipliers: Array  # of the active limits in each level (levels, k)
    relaxed: tuple[str, ...]  # names of limits that nothing meets together
    choice: int  # dimension of the choice of forces
    damped: bool  # whether rows of motions are, see `TaskLimits.singular`

    def hinders(self) -> Array:
        """Return whether a limit prevents a smaller error of a level (levels, k)."""
        sizes = np.abs(self.multipliers)
        found: Array = sizes > HINDERS * sizes.max(axis=1, initial=0.0, keepdims=True)
        return found


class TaskProblem:
    """The tasks at one state, with contacts, dynamics and limits.

    tasks: in order of their levels; plan: of the stack; modes: intended kinds of the contact modes (n)
    """

    def __init__(self, robot: Robot, state: Kinematics, contacts: ContactSet, stack: TaskStack, law: Law, d: Dynamics) -> None:
        self.robot, self.state, self.contacts, self.law, self.dynamics = robot, state, contacts, law, d
        (self.tasks, plan), n, q, v = stacked(robot, stack, len(contacts)), len(contacts), state.q, state.v
        self.plan = plan
        plan.limit(robot, law, stack.limits)
        (motions, pushes), self.modes = plan.layout.counts, np.empty(n, np.int64)
        self._motion = np.zeros((motions, robot.nv)), np.zeros((3, motions))
        self._forces = np.zeros((pushes, 3 * n)), np.zeros((3, pushes))
        placements = state.placements
        if robot.far:
            robot.place(robot.near(q))
            placements = robot.placements
        given, out = (robot.joint_angles(q), placements, robot.origin), (*self._motion, self.modes)
        stack.fill_kinds(contacts, plan.own["modes"])
        malformed = begin(d, plan, given, out)
        if malformed >= 0:
            refuse(self.tasks, plan, malformed)
        if plan.filled or pushes:
            self._fill(TaskMotion(robot, q, v))
        self.apart = distance_bounds(robot, state, d.given.dt, stack.limits)

    def _fill(self, motion: TaskMotion) -> None:
        """Fill the equations that kernels do not fill."""
        for k, (task, rows, of_force) in enumerate(self.asked):
            if of_force:
                task.fill(self.contacts, rows)
                rows.roots[:] = roots_of(task.weight, len(rows.roots))
            elif k in self.plan.filled:
                task.fill(motion, rows)

    @property
    def asked(self) -> list[Asked]:
        """Tasks with their equations, in order of their levels."""
        found = []
        for task, (first, last) in zip(self.tasks, self.plan.layout.spans, strict=True):
            of_force = isinstance(task, ContactTask)
            A, values = self._forces if of_force else self._motion
            found.append(Asked(task, Rows(A[first:last], *values[:, first:last]), of_force))
        return found

    @property
    def levels(self) -> list[int]:
        """Levels that are present."""
        return self.plan.layout.levels

    @property
    def pushes(self) -> bool:
        """Whether there are tasks on forces."""
        return len(self._forces[0]) > 0

    def solve(self, kinds: Array, directions: Array, *, limited: bool = True) -> Solution:
        """Return the solution within the limits. limited: whether those of forces and torques hold"""
        if not slides(kinds):
            return self._solve(kinds, directions, limited)
        if not directions.any():
            directions = self.sliding(np.zeros(self.robot.nv))
        first = self._solve(kinds, directions, limited)
        return self._solve(kinds, self.sliding(first.motion), limited)

    def _solve(self, kinds: Array, directions: Array, limited: bool) -> Solution:
        robot, count = self.robot, len(kinds)
        most = robot.na + 3 * count + EXTRA
        motion, force, numbers = np.empty(robot.nv), np.empty(3 * count), np.empty(most, np.int64)
        multipliers, named = np.empty((len(self.levels), most)), np.empty(most, np.bool_)
        out, relaxed = (motion, force, numbers, multipliers, named), tuple[str, ...]()
        k, choice, exact, violated, damped = solve_tasks(*self._given(kinds, directions), out, limited)
        if violated or not exact:
            names = map(self.name, numbers[:k][named[:k]].tolist())
            relaxed = *dict.fromkeys(names), *(() if exact else (UNORDERED,))
        return Solution(kinds, directions, motion, force, numbers[:k], multipliers[:, :k], relaxed, choice, damped > 0)

    def _given(self, kinds: Array, directions: Array) -> tuple[Dynamics, Plan, Pair, Pair, Pair, Pair]:
        """Return what kernels get: dynamics, plan, contact modes, equations, distances of links."""
        return (
            self.dynamics,
            self.plan,
            (kinds, self._friction(kinds, directions)),
            self._motion,
            self._forces,
            (self.apart.rows, self.apart.least),
        )

    def compare(self, solution: Solution, answer: Prediction, v: Array) -> tuple[tuple[Array, Array], Array]:
        """Return what is asked, what a solution and what the law's answer achieve, of motions and of forces (3, ·), and how far
        that is from each other, see `compare`. v: of the state (nv)"""
        (A, values), (F, forces), spans = self._motion, self._forces, self.plan.own["spans"]
        out = np.empty((3, len(A))), np.empty((3, len(F))), np.empty((len(spans), 4))
        achieved = (solution.motion, solution.force), (answer.v_plus, v, answer.p)
        compare((A, values), (F, forces), *achieved, answer.dt, spans, out)
        return out[:2], out[2]

    def name(self, number: int) -> str:
        """Return the name of a limit."""
        return name_of(self.robot, self.contacts.keys, len(self.plan.own["corners"]), self.apart, number)

    def rows_of(self, solution: Solution, motions: Array, forces: Array) -> tuple[Array, Array]:
        """Return rows on the coordinates of the levels: of the active limits (k, ·), of rows on v̇ (r, nv) and on f (r, 3n)."""
        which, k = (solution.active, motions, forces), len(solution.active)
        found = np.empty((k + len(motions), self.robot.na + 3 * len(solution.kinds)))
        size = fill_rows_of(*self._given(solution.kinds, solution.directions), which, (found,))
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


SHARE = 0.05
"""Obstacles with a smaller share of the largest one are not named."""

Groups = list[tuple[str, Array]]
"""Pairs (name, rows)."""


def outcomes_of(
    problem: TaskProblem,
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
    outcomes, (achieved, largest) = [], problem.compare(solution, answer, v)
    tasks = zip(problem.tasks, problem.plan.layout.spans, largest.tolist(), strict=True)
    for k, (task, (first, last), (unlike, off, missed, size)) in enumerate(tasks):
        asked, held, predicted = achieved[isinstance(task, ContactTask)]
        close = MET * max(1.0, size)
        changed = () if unlike <= close else differences()
        if not answer.status.ok:
            changed = (f"the law has no certified solution ({answer.status})", *changed)
        rows, obstacles = (asked[first:last], predicted[first:last], held[first:last]), partial(_obstacles, again, solution, k)
        outcomes.append(TaskOutcome(task.label(), task.level, *rows, missed, off <= close, changed, obstacles))
    return tuple(outcomes)


def _obstacles(again: Callable[[], TaskProblem], solution: Solution, k: int) -> tuple[str, ...]:
    """Return what prevents task k, by decreasing influence."""
    problem = again()
    asked, nv, n3 = problem.asked[k], problem.robot.nv, 3 * len(solution.kinds)
    (A, wanted, drift, roots), value = asked.rows, solution.force if asked.of_force else solution.motion
    gradient = A.T @ (roots**2 * (A @ value + drift - wanted))
    if np.linalg.norm(gradient) < 1e-9 * np.linalg.norm(wanted):
        return (DAMPED,) if solution.damped else ("its own rows contradict each other",)
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
        for i in np.flatnonzero(solution.hinders()[: level + 1].any(axis=0)).tolist():
            groups.append((problem.name(int(solution.active[i])), limits[i : i + 1]))
        for other, rows in others:
            groups.append((f"task {other.task.label()}", coordinates[start : start + len(rows)]))
            start += len(rows)
        found += _shares(groups, free)
    if solution.damped and not asked.of_force:
        found.append((max((share for share, _ in found), default=1.0), DAMPED))
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
