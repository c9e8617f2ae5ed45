"""The problem of one tick: equations of the tasks, and its solution for given contact modes.

The error of a task that is not met would fall along the gradient Aᵀ W (A x − b). Something prevents this: rows that contacts
hold, limits that are active, tasks of higher levels, and other tasks of the same level. The gradient is written as a sum over
their rows; those with a large share are named.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np

from idyn.prediction.request import Request
from idyn.prediction.rungs import Out, outputs, verified
from idyn.prediction.solve import workspace_for
from idyn.tasks.forces import ContactTask
from idyn.tasks.held import OPEN, SLIDE, STICK
from idyn.tasks.modes import distance_bounds, name_of
from idyn.tasks.motion import PYTHON, MotionTask, Rows, TaskMotion
from idyn.tasks.outcomes import MET, TaskOutcome
from idyn.tasks.plan import KIND, Equations, equations_in, refuse, stacked
from idyn.tasks.stack import TaskStack
from idyn.tasks.tick import REJECTED, SolvedValues, compare, rows_on_levels, run_tick, solve_modes
from idyn.terms.dynamics import NO_FORCES, NOTHING, checked, contact_arrays
from idyn.terms.inputs import numbers
from idyn.types import Array, Prediction

HINDERS = 1e-6
"""Share of the largest multiplier of its level beyond which a limit counts as active."""

UNORDERED = "order of the levels"
"""What is named besides limits where the levels are not strict."""

DAMPED = "the robot is nearly singular"
"""What is named where rows are damped, see `TaskLimits.singular`."""


class Asked(NamedTuple):
    """A task with its equations. of_force: whether they are for contact forces"""

    task: MotionTask | ContactTask
    rows: Rows
    of_force: bool


class Solution(NamedTuple):
    """Motion and forces nearest to the tasks for given contact modes."""

    kinds: Array  # of the modes, see `idyn.tasks.held` (n)
    directions: Array  # of sliding along s and t, as used (n, 2)
    block: Array  # equations, motion and forces, see `idyn.tasks.plan.Equations`
    q_ddot: Array  # (na)
    active: Array  # numbers of the active limits, see `idyn.tasks.limits` (k)
    multipliers: Array  # of the active limits in each level (levels, k)
    relaxed: tuple[str, ...]  # names of limits that nothing meets together
    choice: int  # dimension of the choice of forces
    damped: bool  # whether rows of motions are, see `TaskLimits.singular`
    answer: Prediction | None  # with these forces, if they are certified as the law's

    def hinders(self) -> Array:
        """Return whether a limit prevents a smaller error of a level (levels, k)."""
        sizes = np.abs(self.multipliers)
        found: Array = sizes > HINDERS * sizes.max(axis=1, initial=0.0, keepdims=True)
        return found


class TaskProblem:
    """The tasks at one state, with contacts, dynamics and limits.

    request: without a demand, its state is the kinematics; tasks: in order of their levels; plan: of the stack
    limits: those of forces and torques hold for `first`, the solution for the intended contact modes
    """

    def __init__(self, request: Request, stack: TaskStack, *, limited: bool = True) -> None:
        robot, contacts, guess = request.robot, request.contacts, request.guess
        n = len(contacts.keys)
        last = None if guess is None else guess.carried_over(guess.force, contacts.keys)
        self.method, self._limits = workspace_for(robot, n).method(request), stack.limits
        self.tasks, self.plan = stacked(robot, stack, contacts.keys)
        self.plan.limit(robot, request.law, stack.limits)
        stack.fill_kinds(contacts, self.plan.own["modes"])
        try:
            first = self._run(request, last, limited)
        except (AttributeError, TypeError, ValueError):  # wrong types for Pinocchio or compiled code
            first = None
        if first is None:
            state, contacts, applied, last = checked(robot, request.state, contacts, request.applied, last)
            if guess is not None:
                guess = msgspec.structs.replace(guess, tau=numbers("guess.tau", guess.tau))
            plain = msgspec.structs.replace(request, state=state, contacts=contacts, applied=applied, guess=guess)
            first = self._run(plain, last, limited)
            if first is None:
                raise AssertionError("compiled code rejected checked data")
        self.first = first

    def _run(self, r: Request, last: Array | None, limited: bool) -> Solution | None:
        """Run the tick. Return None for malformed data."""
        robot, plan, n, method = r.robot, self.plan, len(r.contacts.keys), self.method
        self.state = at = robot.kinematics(r.state)
        self.request = r
        self.apart = distance_bounds(robot, at, r.dt, self._limits)
        placements = at.placements
        if robot.far:
            robot.place(robot.near(at.q))
            placements = robot.placements
        bounds, modes = (self.apart.rows, self.apart.least), (np.empty(n, np.int64), np.zeros((n, 2)))
        results = modes, (np.empty(plan.size), np.empty(robot.na)), outputs(r)
        given = (
            (at.q, at.v, NOTHING if r.applied is None else r.applied),
            contact_arrays(r.contacts),
            (NO_FORCES, NOTHING) if last is None or r.guess is None else (last, r.guess.tau),
            (robot.joint_angles(at.q), placements, robot.origin),
        )
        values = run_tick(method.finish, plan, given, bounds, results, limited)
        if values[0] == REJECTED:
            return None
        if values[0] >= 0:
            refuse(self.tasks, plan, values[0])
        if plan.by_python:
            self._fill(TaskMotion(robot, at.q, at.v), results[1][0])
            values = solve_modes(method.finish, plan, bounds, results, limited)
        return self._solution(values, results)

    def solve(self, kinds: Array, directions: Array) -> Solution:
        """Return the solution within the limits for other contact modes. directions: of sliding, 0: unknown (n, 2)"""
        first, bounds = self.first, (self.apart.rows, self.apart.least)
        found = first.block.copy(), np.empty(len(first.q_ddot))
        results = (kinds.copy(), directions.copy()), found, outputs(self.request)
        return self._solution(solve_modes(self.method.finish, self.plan, bounds, results, True), results)

    def _solution(self, values: SolvedValues, results: tuple[tuple[Array, Array], tuple[Array, Array], Out]) -> Solution:
        modes, found, out = results
        _, k, choice, exact, violated, damped, certified = values
        plan, relaxed = self.plan, tuple[str, ...]()
        active, multipliers = plan.none
        if k:
            own = plan.own
            active, multipliers = own["active"][:k].copy(), own["multipliers"][:, :k].copy()
            if violated or not exact:
                names = map(self.name, active[own["missed"][:k]].tolist())
                relaxed = *dict.fromkeys(names), *(() if exact else (UNORDERED,))
        answer = verified(self.request, self.method, out, choice) if certified else None
        return Solution(*modes, *found, active, multipliers, relaxed, choice, damped > 0, answer)

    def _fill(self, motion: TaskMotion, block: Array) -> None:
        """Fill the equations that kernels do not fill."""
        at = self.equations(block)
        for task, (first, last), row in zip(self.tasks, self.plan.layout.spans, self.plan.own["table"], strict=True):
            if isinstance(task, MotionTask) and row[KIND] == PYTHON:
                task.fill(motion, Rows(at.A[first:last], *at.values[:, first:last]))

    def equations(self, block: Array) -> Equations:
        """Return equations, motion and forces of a solution."""
        (rows, pushes), r = self.plan.layout.counts, self.request
        return equations_in(block, rows, pushes, r.robot.nv, len(r.contacts.keys))

    def asked(self, block: Array) -> list[Asked]:
        """Return the tasks with their equations, in order of their levels. block: of a solution"""
        found, at = [], self.equations(block)
        for task, (first, last) in zip(self.tasks, self.plan.layout.spans, strict=True):
            of_force = isinstance(task, ContactTask)
            A, values = (at.F, at.pushes) if of_force else (at.A, at.values)
            found.append(Asked(task, Rows(A[first:last], *values[:, first:last]), of_force))
        return found

    def compare(self, solution: Solution, answer: Prediction, v: Array) -> tuple[tuple[Array, Array], Array]:
        """Return what is asked, what a solution and what the law's answer achieve, of motions and of forces (3, ·), and how far
        that is from each other, see `idyn.tasks.tick.compare`. v: of the state (nv)"""
        rows, pushes = self.plan.layout.counts
        out = np.empty((3, rows)), np.empty((3, pushes)), np.empty((len(self.tasks), 4))
        compare(self.plan, (solution.block, solution.kinds), (answer.v_plus, v, answer.p), answer.dt, out)
        return out[:2], out[2]

    def name(self, number: int) -> str:
        """Return the name of a limit."""
        r = self.request
        return name_of(r.robot, r.contacts.keys, len(self.plan.own["corners"]), self.apart, number)

    def rows_of(self, solution: Solution, motions: Array, forces: Array) -> tuple[Array, Array, Array]:
        """Return rows on the coordinates of the levels: of the active limits (k, ·), of rows on v̇ (r, nv) and on f (r, 3n); and
        the friction per normal force of contacts that slide (n, 2)."""
        which, k, n = (solution.active, motions, forces), len(solution.active), len(solution.kinds)
        found, friction = np.empty((k + len(motions), self.request.robot.na + 3 * n)), np.empty((n, 2))
        modes, bounds = (solution.kinds, solution.directions), (self.apart.rows, self.apart.least)
        size = rows_on_levels(self.method.finish, self.plan, bounds, modes, (solution.block,), which, (found, friction))
        return found[:k, :size], found[k:, :size], friction


SHARE = 1e-3
"""Obstacles with a smaller share of the largest one are not named."""

Groups = list[tuple[str, Array]]
"""Pairs (name, rows)."""


def outcomes_of(
    problem: TaskProblem,
    before: Request,
    stack: TaskStack,
    solution: Solution,
    answer: Prediction,
    differences: Callable[[], tuple[str, ...]],
) -> tuple[TaskOutcome, ...]:
    """Return the outcome of each task.

    before: request with the state as it was; differences: returns contacts whose predicted modes differ, in words
    """
    outcomes, (achieved, largest) = [], problem.compare(solution, answer, before.state.v)
    find, words = partial(_obstacles, before, stack, solution), tuple[str, ...]()
    tasks = zip(problem.tasks, problem.plan.layout.spans, largest.tolist(), strict=True)
    for k, (task, (first, last), (unlike, off, missed, size)) in enumerate(tasks):
        close = MET * max(1.0, size)
        if unlike > close and not words:  # the same ones for all tasks
            words = differences()
        changed = words if unlike > close else ()
        if not answer.status.ok:
            changed = (f"the law has no certified solution ({answer.status})", *changed)
        values = achieved[isinstance(task, ContactTask)][:, first:last]
        outcomes.append(TaskOutcome(task.label(), task.level, values, missed, off <= close, changed, k, find))
    return tuple(outcomes)


def _obstacles(before: Request, stack: TaskStack, solution: Solution, k: int) -> tuple[str, ...]:
    """Return what prevents task k, by decreasing influence."""
    problem = TaskProblem(before, stack)
    every, at = problem.asked(solution.block), problem.equations(solution.block)
    asked, nv, n3 = every[k], len(at.motion), len(at.force)
    (A, wanted, drift, roots), value = asked.rows, at.force if asked.of_force else at.motion
    gradient = A.T @ (roots**2 * (A @ value + drift - wanted))
    if np.linalg.norm(gradient) < 1e-9 * np.linalg.norm(wanted):
        return (DAMPED,) if solution.damped else ("its own rows contradict each other",)
    found: list[tuple[float, str]] = []
    others = [(other, A_k) for i, other in enumerate(every) if i != k and (A_k := _pull(asked, other, at)) is not None]
    stacked = [
        (roots[:, None] * A, asked.of_force),
        (gradient[None], asked.of_force),
        *((A_k, o.of_force) for o, A_k in others),
    ]
    motions = np.vstack([np.zeros((len(rows), nv)) if of_force else rows for rows, of_force in stacked])
    forces = np.vstack([rows if of_force else np.zeros((len(rows), n3)) for rows, of_force in stacked])
    limits, coordinates, friction = problem.rows_of(solution, motions, forces)
    # the error that is left if only contacts and dynamics restrict the task, with its gradient
    weighted, target = coordinates[: len(A)], roots * (wanted - drift - A @ value)
    reached = _span(weighted, float(np.abs(roots[:, None] * A).max()))
    rest = reached @ (reached.T @ target) - target
    if np.linalg.norm(rest) > MET * max(1.0, float(np.linalg.norm(wanted))):
        fixed = _fixed(problem, solution.kinds, friction)
        found += [(1.0, "the contacts do not transmit this force")] if asked.of_force else _shares(fixed, A.T @ (roots * rest))
    free = coordinates[len(A)]
    if np.linalg.norm(free) > 1e-7 * np.linalg.norm(A) * np.linalg.norm(gradient):
        level, start, groups = problem.plan.layout.levels.index(asked.task.level), len(A) + 1, []
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


def _pull(asked: Asked, other: Asked, at: Equations) -> Array | None:
    """Return the rows of a task of a higher level, or the gradient of one of the same level; None for one of a lower level."""
    if other.task.level > asked.task.level:
        return None
    A, wanted, drift, roots = other.rows
    if other.task.level < asked.task.level:
        return A
    value = at.force if other.of_force else at.motion
    return (A.T @ (roots**2 * (A @ value + drift - wanted)))[None]


def _fixed(problem: TaskProblem, kinds: Array, friction: Array) -> Groups:
    """Return rows on v̇ that cannot change: held contacts, closures, dynamics of unactuated joints. kinds, friction: of the
    contact modes (n), (n, 2)"""
    groups, r, dynamics = list[tuple[str, Array]](), problem.request, problem.method.problem.dynamics
    own, u = dynamics.own, r.robot.tree.u
    pushes = [own["G"][:, u]]
    for i, key in enumerate(r.contacts.keys):
        rows, kind = own["J"][3 * i : 3 * i + 3], kinds[i]
        if kind == OPEN:
            continue
        sticks = kind == STICK and r.contacts.mu[i] > 0.0
        pushes.append(rows[:, u] if sticks else (np.array([*friction[i], 1.0]) @ rows[:, u])[None])
        groups.append((f"contact {key} ({'slides' if kind == SLIDE else 'sticks'})", rows if sticks else rows[2:]))
    groups.append(("closed chains", own["G"]))
    _, values, spans = np.linalg.svd(np.vstack(pushes))
    rank = int((values > 1e-9 * values.max(initial=0.0)).sum())
    groups.append(("no contact force acts on the base this way", spans[rank:] @ dynamics.given.own["M"][u]))
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
