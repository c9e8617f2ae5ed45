"""Outcome of each task: asked, predicted, and what prevents it.

The error of a task that is not met would fall along the gradient Aᵀ W (A x − b). Something prevents this: rows that contacts
hold, limits that are active, tasks of higher levels, and other tasks of the same level. The gradient is written as a sum over
their rows; those with a large share are named.
"""

from collections.abc import Sequence

import numpy as np

from idyn.model.robot import Robot
from idyn.tasks.forces import ContactTask
from idyn.tasks.limits import names_of
from idyn.tasks.motion import Rows, Task
from idyn.tasks.outcomes import TaskOutcome
from idyn.tasks.solved import Asked, Attempt
from idyn.types import Array, ContactSet, Kinematics, Prediction

MET = 1e-6
"""Error of a task that counts as zero, relative to the larger of 1 and what is asked."""

SHARE = 0.05
"""Obstacles with a smaller share of the largest one are not named."""

Groups = list[tuple[str, Array]]
"""Pairs (name, rows)."""


def outcomes_of(
    robot: Robot, contacts: ContactSet, attempt: Attempt, asked: Sequence[Asked], state: Kinematics
) -> tuple[tuple[TaskOutcome, ...], tuple[str, ...]]:
    """Return the outcome of each task, and the names of the limits that had to be relaxed."""
    solved, answer = attempt.solved, attempt.answer
    outcomes, names = [], None
    for k, (task, rows, _) in enumerate(asked):
        predicted, held = predicted_value(task, rows, answer, state), _held_value(attempt, task, rows)
        room = MET * max(1.0, float(np.abs(rows.asked).max(initial=0.0)))
        obstacles: tuple[str, ...] = ()
        if not np.abs(rows.asked - held).max(initial=0.0) <= room:
            names = names or names_of(robot, contacts.keys, solved.modes)
            obstacles = _obstacles(robot, contacts, attempt, asked, k, names)
        if not obstacles and not np.abs(held - predicted).max(initial=0.0) <= max(room, 1e-6 * robot.weight * _is_force(task)):
            obstacles = (_of_law(attempt, contacts),)
        outcomes.append(TaskOutcome(task.label(), task.level, rows.asked, predicted, held, obstacles))
    relaxed = solved.resolution.relaxed.tolist()
    names = names_of(robot, contacts.keys, solved.modes) if relaxed else []
    return tuple(outcomes), tuple(dict.fromkeys(names[row] for row in relaxed))


def predicted_value(task: Task, rows: Rows, answer: Prediction, state: Kinematics) -> Array:
    """Return what the contact law predicts for the rows of a task (r)."""
    quantity = answer.p / answer.dt if _is_force(task) else (answer.v_plus - state.v) / answer.dt
    value: Array = rows.A @ quantity + rows.drift
    return value


def _held_value(attempt: Attempt, task: Task, rows: Rows) -> Array:
    """Return the rows of a task at the solution (r)."""
    held, x = attempt.solved.held, attempt.solved.resolution.x
    value: Array = rows.A @ (held.force if _is_force(task) else held.acceleration).at(x) + rows.drift
    return value


def _is_force(task: Task) -> bool:
    return isinstance(task, ContactTask)


def _of_law(attempt: Attempt, contacts: ContactSet) -> str:
    """Return why the prediction differs from the solution of the tasks."""
    if not attempt.answer.status.ok:
        return f"no certified solution of the law ({attempt.answer.status})"
    return "memory of the contact forces, or another contact mode"


def _obstacles(
    robot: Robot, contacts: ContactSet, attempt: Attempt, asked: Sequence[Asked], k: int, names: Sequence[str]
) -> tuple[str, ...]:
    """Return what prevents task k, by decreasing influence."""
    solved = attempt.solved
    held, x = solved.held, solved.resolution.x
    task, rows, roots = asked[k]
    affine = held.force if _is_force(task) else held.acceleration
    gradient = rows.A.T @ (roots**2 * (rows.A @ affine.at(x) + rows.drift - rows.asked))
    if np.linalg.norm(gradient) < 1e-9 * np.linalg.norm(rows.asked):
        return ("its own rows contradict each other",)
    found: list[tuple[float, str]] = []
    # the error that is left if only contacts and dynamics restrict the task, with its gradient
    weighted = roots[:, None] * (rows.A @ affine.slope)
    wanted = roots * (rows.asked - rows.drift - rows.A @ affine.offset)
    rest = weighted @ np.linalg.lstsq(weighted, wanted, rcond=1e-9)[0] - wanted
    if np.linalg.norm(rest) > MET * max(1.0, float(np.linalg.norm(rows.asked))):
        if _is_force(task):
            found.append((1.0, "the contacts do not transmit this force"))
        else:
            found += _shares(_fixed(robot, contacts, attempt), rows.A.T @ (roots * rest))
    free = affine.slope.T @ gradient
    if np.linalg.norm(free) > 1e-7 * np.linalg.norm(rows.A) * np.linalg.norm(gradient):
        found += _shares(_in_the_way(attempt, asked, k, names), free)
    largest = max((share for share, _ in found), default=0.0)
    named = sorted(((share, name) for share, name in found if share > SHARE * largest), reverse=True)
    return tuple(dict.fromkeys(name for _, name in named)) or ("its own rows contradict each other",)


def _in_the_way(attempt: Attempt, asked: Sequence[Asked], k: int, names: Sequence[str]) -> Groups:
    """Return rows on the coordinates x: active limits, tasks of higher levels, and gradients of tasks of the same level."""
    solved, level = attempt.solved, asked[k].task.level
    held, x, groups = solved.held, solved.resolution.x, []
    present = list(dict.fromkeys(each.task.level for each in asked))
    for active in solved.resolution.active[: present.index(level) + 1]:
        groups += [(names[row], solved.bounds.G[row : row + 1]) for row in active.tolist()]
    for other in asked:
        if other is asked[k] or other.task.level > level:
            continue
        affine = held.force if _is_force(other.task) else held.acceleration
        rows = other.rows.A @ affine.slope
        if other.task.level == level:
            error = other.rows.A @ affine.at(x) + other.rows.drift - other.rows.asked
            rows = (rows.T @ (other.roots**2 * error))[None]
        groups.append((f"task {other.task.label()}", rows))
    return groups


def _fixed(robot: Robot, contacts: ContactSet, attempt: Attempt) -> Groups:
    """Return rows on v̇ that cannot change: held contacts, closures, dynamics of unactuated joints."""
    rows, held, groups = attempt.solved.held.rows, attempt.solved.modes.held, []
    for i, key in enumerate(contacts.keys):
        of = np.flatnonzero(held // 3 == i)
        if len(of):
            groups.append((f"contact {key} ({attempt.modes[i]})", rows[of]))
    m, k = len(held), 3 * len(robot.closures.keys)
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
