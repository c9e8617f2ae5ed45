"""Outcome of each task: asked, predicted, and what prevents it.

The error of a task that is not met would fall along the gradient Aᵀ W (A x − b). Something prevents this: rows that contacts
hold, limits that are active, tasks of higher levels, and other tasks of the same level. The gradient is written as a sum over
their rows; those with a large share are named.
"""

from collections.abc import Callable, Sequence

import numpy as np

from idyn.tasks.follow import OPEN, SLIDE
from idyn.tasks.limited.held import HeldMotion
from idyn.tasks.limited.levels import solved
from idyn.tasks.limits import names_of
from idyn.tasks.outcomes import MET, TaskOutcome, near
from idyn.tasks.problem import Asked, Solution, TaskProblem
from idyn.types import Array, Prediction

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
