"""The problem of one tick: equations of the tasks, its solution for given contact modes, and the outcomes."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np

from idyn.errors import InputError
from idyn.prediction.request import Request
from idyn.prediction.rungs import Out, outputs, verified
from idyn.prediction.solve import Method, workspace_for
from idyn.tasks.forces import ContactTask
from idyn.tasks.held import SLIDE
from idyn.tasks.limits import distance_bounds
from idyn.tasks.motion import PYTHON, MotionTask
from idyn.tasks.obstacles import OTHERS, find_shares
from idyn.tasks.outcomes import MET, TaskOutcome
from idyn.tasks.plan import KIND, Equations, Plan, equations_in, part_of, refuse, stacked
from idyn.tasks.stack import TaskStack
from idyn.tasks.tick import REJECTED, SolvedValues, compare, run_tick, solve_modes
from idyn.terms.dynamics import NO_FORCES, NOTHING, checked, contact_arrays
from idyn.terms.inputs import numbers
from idyn.types import Array, Prediction

UNORDERED = "order of the levels"
"""What is named besides limits where the levels are not strict."""

SHARE = 1e-3
"""Obstacles with a smaller share of the largest one are not named."""


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
    answer: Prediction | None  # with these forces, if they are certified as the law's


class TaskProblem:
    """The tasks at one state, with contacts, dynamics and limits.

    request: without a demand, its state is the kinematics; tasks: in order of their levels; plan: of the stack
    last: contact forces of the last tick in the world [N] (n, 3), or None
    limited: whether the limits of forces and torques hold for `first`, the solution for the intended contact modes
    """

    def __init__(self, request: Request, stack: TaskStack, *, limited: bool = True) -> None:
        guess, self.stack = request.guess, stack
        self.last = None if guess is None else guess.carried_over(guess.force, request.contacts.keys)
        self.method, self.tasks, self.plan = self._prepared(request, stack)
        self.first = self._tick(request, limited)

    def _prepared(self, r: Request, stack: TaskStack) -> tuple[Method, list[MotionTask | ContactTask], Plan]:
        """Set ground model, numbers of the tasks, limits and intended contact modes for kernels. Raises InputError."""
        method = workspace_for(r.robot, len(r.contacts.keys)).method(r)
        tasks, plan = stacked(r.robot, stack, r.contacts.keys)
        plan.limit(r.robot, r.law, stack.limits)
        stack.fill_kinds(r.contacts, plan.own["modes"])
        return method, tasks, plan

    def _tick(self, r: Request, limited: bool, solves: bool = True) -> Solution:
        """Run the tick, with or without its solution. Raises InputError for malformed data."""
        try:
            found = self._run(r, limited, solves)
        except (AttributeError, TypeError, ValueError):  # wrong types for Pinocchio or compiled code
            found = None
        if found is None:
            state, contacts, applied, self.last = checked(r.robot, r.state, r.contacts, r.applied, self.last)
            guess = r.guess and msgspec.structs.replace(r.guess, tau=numbers("guess.tau", r.guess.tau))
            plain = msgspec.structs.replace(r, state=state, contacts=contacts, applied=applied, guess=guess)
            found = self._run(plain, limited, solves)
            if found is None:
                raise AssertionError("compiled code rejected checked data")
        return found

    def _run(self, r: Request, limited: bool, solves: bool) -> Solution | None:
        """Run the tick. Return None for malformed data."""
        robot, plan, n, method = r.robot, self.plan, len(r.contacts.keys), self.method
        plan.holder = self.holder = object()
        self.state = at = robot.kinematics(r.state)
        self.request = r
        self.apart = distance_bounds(robot, at, r.dt, self.stack.limits)
        placements = at.placements
        if robot.far:
            robot.place(robot.near(at.q))
            placements = robot.placements
        bounds, modes = (self.apart.rows, self.apart.least), (np.empty(n, np.int64), np.zeros((n, 2)))
        results = modes, (np.empty(plan.size), np.empty(robot.na)), outputs(r)
        given = (
            (at.q, at.v, NOTHING if r.applied is None else r.applied),
            contact_arrays(r.contacts),
            (NO_FORCES, NOTHING) if self.last is None or r.guess is None else (self.last, r.guess.tau),
            (robot.joint_angles(at.q), placements, robot.origin),
        )
        values = run_tick(method.finish, plan, given, bounds, results, limited, solves and not plan.by_python)
        if values[0] == REJECTED:
            return None
        if values[0] >= 0:
            refuse(self.tasks, plan, values[0])
        if solves and plan.by_python:
            self._fill(robot.near(at.q), at.v, results[1][0])
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
        _, k, choice, exact, violated, certified = values
        plan = self.plan
        active, multipliers = plan.none
        relaxed: tuple[str, ...] = ()
        if k:
            own = plan.own
            active, multipliers = own["active"][:k].copy(), own["multipliers"][:, :k].copy()
            if violated or not exact:
                names = map(self.name, active[own["missed"][:k]].tolist())
                relaxed = *dict.fromkeys(names), *(() if exact else (UNORDERED,))
        answer = verified(self.request, self.method, out, choice) if certified else None
        return Solution(*modes, *found, active, multipliers, relaxed, choice, answer)

    def _fill(self, q: Array, v: Array, block: Array) -> None:
        """Fill the equations that kernels do not fill. q (nq), v (nv): see `MotionTask.fill`"""
        for k, task in enumerate(self.tasks):
            if isinstance(task, MotionTask) and self.plan.own["table"][k, KIND] == PYTHON:
                task.fill(self.request.robot, q, v, part_of(self.plan, self.equations(block), k))

    def equations(self, block: Array) -> Equations:
        """Return equations, motion and forces of a solution."""
        (rows, pushes), r = self.plan.counts, self.request
        return equations_in(block, rows, pushes, r.robot.nv, len(r.contacts.keys))

    def compare(self, solution: Solution, answer: Prediction, v: Array) -> tuple[tuple[Array, Array], Array]:
        """Return what is asked, what a solution and what the law's answer achieve, of motions and of forces (3, ·), and how far
        that is from each other, see `idyn.tasks.tick.compare`. v: of the state (nv)"""
        rows, pushes = self.plan.counts
        out = np.empty((3, rows)), np.empty((3, pushes)), np.empty((len(self.tasks), 5))
        compare(self.plan, (solution.block, solution.kinds), (answer.v_plus, v, answer.p), answer.dt, out)
        return out[:2], out[2]

    def name(self, number: int) -> str:
        """Return the name of a limit, by its number in `idyn.tasks.limits`."""
        robot, keys, per = self.request.robot, self.request.contacts.keys, 1 + len(self.plan.own["corners"])
        i, facet = divmod(number, per)
        if i < len(keys):
            return f"{'friction' if facet else 'normal force'} of contact {keys[i]}"
        joint, which = divmod(number - len(keys) * per, 4)
        if joint < robot.na:
            return f"{'torque' if which < 2 else 'motion'} limit of {robot.joint_names[joint]}"
        one, other = self.apart.links[number - len(keys) * per - 4 * robot.na]
        return f"self-collision of {one} and {other}"

    def obstacles(self, before: Request, solution: Solution, k: int) -> tuple[str, ...]:
        """Return what prevents task k, by decreasing influence.

        before: request with the state as it was
        Raises InputError if masks, joints or contacts of the tasks have changed since the tick, or its data became malformed.
        """
        plan, bounds, s = self.plan, (self.apart.rows, self.apart.least), solution
        plan.limit(before.robot, before.law, self.stack.limits)
        shares = np.empty(len(s.active) + len(self.tasks) + len(s.kinds) + len(OTHERS))
        found = s.block, s.active, s.multipliers
        mine = plan.holder is self.holder
        if not (mine and find_shares(self.method.finish, plan, bounds, (s.kinds, s.directions), found, k, (shares,))):
            # the records hold another tick
            prepared = self._prepared(before, msgspec.structs.replace(self.stack, tasks=self.tasks))
            if prepared[2].key != plan.key:
                raise InputError("tasks", "expected masks, joints and contacts as in the tick whose obstacles are asked for")
            self.method, self.tasks, self.plan = prepared
            again = self._tick(before, limited=False, solves=False)
            self.equations(s.block).tick[0] = self.equations(again.block).tick[0]
            return self.obstacles(before, solution, k)
        sizes = shares.tolist()
        least = SHARE * max(sizes)
        named = sorted(((size, self._obstacle(i, solution)) for i, size in enumerate(sizes) if size > least), reverse=True)
        return tuple(dict.fromkeys(name for _, name in named)) or ("its own rows contradict each other",)

    def _obstacle(self, i: int, solution: Solution) -> str:
        """Return the name of an obstacle, by its place among the shares of `find_shares`."""
        if i < len(solution.active):
            return self.name(int(solution.active[i]))
        i -= len(solution.active)
        if i < len(self.tasks):
            return f"task {self.tasks[i].label()}"
        i -= len(self.tasks)
        if i < len(solution.kinds):
            return f"contact {self.request.contacts.keys[i]} ({'slides' if solution.kinds[i] == SLIDE else 'sticks'})"
        return OTHERS[i - len(solution.kinds)]


def outcomes_of(
    problem: TaskProblem,
    before: Request,
    solution: Solution,
    answer: Prediction,
    differences: Callable[[], tuple[str, ...]],
) -> tuple[TaskOutcome, ...]:
    """Return the outcome of each task.

    before: request with the state as it was; differences: returns contacts whose predicted modes differ, in words
    """
    outcomes, (achieved, largest) = [], problem.compare(solution, answer, before.state.v)
    find, words = partial(problem.obstacles, before, solution), None
    tasks = zip(problem.tasks, problem.plan.spans, largest.tolist(), strict=True)
    for k, (task, (first, last), (unlike, off, missed, size, _)) in enumerate(tasks):
        close = MET * max(1.0, size)
        if unlike > close and words is None:  # the same ones for all tasks
            words = differences()
        changed = words or () if unlike > close else ()
        if not answer.status.ok:
            changed = (f"the law has no certified solution ({answer.status})", *changed)
        values = achieved[isinstance(task, ContactTask)][:, first:last]
        outcomes.append(TaskOutcome(task.label(), task.level, values, missed, off <= close, changed, k, find))
    return tuple(outcomes)
