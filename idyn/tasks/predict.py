"""`predict_tasks`: joint torques and contact forces that realise tasks, under a contact law."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from idyn.errors import InputError
from idyn.laws import law_of
from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.predict import DEFAULT, predict
from idyn.status import Conditions
from idyn.tasks.forces import ContactTask, contact_axes
from idyn.tasks.held import HeldMotion, held_motion
from idyn.tasks.kinematics import TaskKinematics
from idyn.tasks.levels import Equations, resolve
from idyn.tasks.limits import bounds_of
from idyn.tasks.modes import mode_rows
from idyn.tasks.outcomes import TaskPrediction
from idyn.tasks.reasons import outcomes_of, predicted_value
from idyn.tasks.solved import Asked, Attempt, Solved
from idyn.tasks.stack import Mode, TaskStack, row_weights
from idyn.terms.dynamics import checked, evaluate
from idyn.terms.stages import Dynamics, ReducedProblem
from idyn.types import Array, Consistency, ContactSet, Guess, Kinematics, Prediction, Selection, State

MOST_PASSES = 3

SAME_DIRECTION = np.cos(np.radians(2.0))
"""Sliding directions with a larger cosine count as equal."""

SLIPS = 1e-7
"""Tangential speed û of a contact that slides [m/s]."""

REST = 10.0
"""Rate at which joints come to rest that no task moves [1/s]."""


def predict_tasks(
    robot: Robot,
    state: State | Kinematics,
    contacts: ContactSet,
    stack: TaskStack,
    *,
    law: Law | str,
    dt: float,
    options: Options = DEFAULT,
    guess: Guess | None = None,
) -> TaskPrediction:
    """Predict the torques and contact forces that realise tasks over `dt` [s].

    1. equations of the tasks; modes of the contacts                             `idyn.tasks.motion`, `.forces`, `.stack`
    2. held motion: all accelerations v̇ and forces f that the modes permit       `idyn.tasks.held`
    3. levels: the v̇ and f nearest to the tasks within the limits                `idyn.tasks.levels`
    4. `predict` with the joint accelerations v̇_a, and f as preferred forces     `idyn.prediction.predict`
    5. where the predicted modes differ: steps 2 to 4 with them; the pass with the smallest errors is used
    6. outcome of each task                                                      `idyn.tasks.reasons`

    stack: tasks, limits and contact modes; the other arguments are those of `predict`. The fields `selection` and `consistency`
    of `options` are not used.

    Tasks that cannot be met are reported in `TaskPrediction.outcomes`, not raised. Raises InputError, naming the field, for
    malformed data.
    """
    law = law_of(law) if isinstance(law, str) else law
    if law.conditions in (Conditions.FREE, Conditions.GIVEN):
        raise InputError("law", f"expected a law that predicts contact forces, got '{law.name}'")
    last = None if guess is None else guess.carried_over(guess.force, contacts.keys)
    if type(state) is State or not robot.is_at(state):
        plain, contacts, _, last = checked(robot, state, contacts, None, last)
        state = robot.terms(plain.q, plain.v)
    kinematics = robot.kinematics(state)
    problem = _problem(robot, contacts)
    dynamics = evaluate(robot, kinematics, contacts, dt=dt, ground=options.ground, last=last, into=problem).dynamics
    options = _feasible(options)
    asked = _equations(robot, kinematics, contacts, stack)
    intended = modes = stack.modes_of(contacts, options.ground.touching)
    directions = _directions(_tangential(dynamics, dynamics.given.own["v"]))
    attempts: list[Attempt] = []
    seen: set[tuple[Mode, ...]] = set()
    while len(attempts) < MOST_PASSES:
        seen.add(modes)
        solved = _resolve(robot, kinematics, dynamics, (modes, directions), law, stack, asked)
        force = _in_world(contacts, solved.held.force.at(solved.resolution.x))
        answer = predict(
            robot, kinematics, contacts, solved.q_ddot(robot), law=law, dt=dt, options=options, guess=guess, preferred=force
        )
        attempts.append(Attempt(modes, solved, answer))
        modes, turned = _predicted(dynamics, answer, intended)
        same = (turned * solved.directions).sum(axis=1) >= SAME_DIRECTION
        if modes in seen and all(same[i] for i, mode in enumerate(modes) if mode is Mode.SLIDE):
            break
        directions = turned
    best = min(attempts, key=lambda each: _cost(each, asked, kinematics))
    outcomes, relaxed = outcomes_of(robot, contacts, best, asked, kinematics)
    return TaskPrediction(
        prediction=best.answer, q_ddot=best.solved.q_ddot(robot), outcomes=outcomes, relaxed=relaxed, passes=len(attempts)
    )


class _Feasible(Options, frozen=True):
    """Options of predictions whose demand is feasible by construction: no advice about their consistency."""

    advised: ClassVar[bool] = False


def _feasible(options: Options) -> Options:
    """Return these options for demands that contact impulses can realise, with forces near the preferred ones."""
    return _Feasible(
        selection=Selection.FORCE,
        consistency=Consistency.PROJECT,
        bounded=options.bounded,
        force_limit=options.force_limit,
        warm_start=options.warm_start,
        ground=options.ground,
    )


def _problem(robot: Robot, contacts: ContactSet) -> ReducedProblem:
    """Return the buffers for the dynamics of the robot with as many contacts."""
    key = "tasks", len(contacts)
    known = robot.scratch.get(key)
    if not isinstance(known, ReducedProblem):
        robot.scratch[key] = known = ReducedProblem(robot, len(contacts))
    return known


def _equations(robot: Robot, state: Kinematics, contacts: ContactSet, stack: TaskStack) -> list[Asked]:
    """Return the equations of all tasks, by level."""
    kinematics, asked = TaskKinematics(robot, state), []
    for task in sorted(stack.tasks, key=lambda task: task.level):
        rows = task.rows(contacts) if isinstance(task, ContactTask) else task.rows(kinematics)
        asked.append(Asked(task, rows, np.sqrt(row_weights(task, len(rows.asked)))))
    return asked


def _resolve(
    robot: Robot,
    state: Kinematics,
    dynamics: Dynamics,
    contact: tuple[tuple[Mode, ...], Array],
    law: Law,
    stack: TaskStack,
    asked: Sequence[Asked],
) -> Solved:
    """Return the motion and forces nearest to the tasks. contact: (modes, directions of sliding (n, 2)); where the motion that
    results slides in another direction, that one is used instead."""
    modes, directions = contact
    own, angles = dynamics.given.own, robot.joint_angles(state.q)
    for _ in range(2):
        rows = mode_rows(modes, directions, own["mu"], law, stack.limits)
        held = held_motion(dynamics, rows)
        bounds = bounds_of(robot, (angles, own["v"][robot.tree.a]), dynamics.given.dt, stack.limits, held, rows)
        levels = [*_levels(asked, held, robot.total_mass), *_rest(robot, state, held)]
        resolution = resolve(levels, bounds, held.force.slope.shape[1])
        if Mode.SLIDE not in modes:
            break
        v_hat = dynamics.given.dt * held.acceleration.at(resolution.x) + (1.0 - dynamics.given.keep) * own["v"]
        directions = _directions(_tangential(dynamics, v_hat))
    return Solved(rows, directions, held, bounds, levels, resolution)


def _levels(asked: Sequence[Asked], held: HeldMotion, mass: float) -> list[Equations]:
    """Return the equations of each level of tasks for the coordinates x, weighted; those of forces divided by the mass."""
    levels: dict[int, list[Equations]] = {}
    for task, (A, wanted, drift), roots in asked:
        value, scale = (held.force, 1.0 / mass) if isinstance(task, ContactTask) else (held.acceleration, 1.0)
        weights = roots * scale
        rows = Equations(weights[:, None] * (A @ value.slope), weights * (wanted - drift - A @ value.offset))
        levels.setdefault(task.level, []).append(rows)
    return [
        Equations(np.vstack([rows.A for rows in level]), np.concatenate([rows.b for rows in level]))
        for level in levels.values()
    ]


def _rest(robot: Robot, state: Kinematics, held: HeldMotion) -> list[Equations]:
    """Return the last two levels: joints that no task moves come to rest; the forces are as small as possible."""
    a, motion, force = robot.tree.a, held.acceleration, held.force
    resting = Equations(motion.slope[a], -REST * state.v[a] - motion.offset[a])
    return [resting, Equations(force.slope / robot.total_mass, -force.offset / robot.total_mass)]


def _predicted(d: Dynamics, answer: Prediction, intended: tuple[Mode, ...]) -> tuple[tuple[Mode, ...], Array]:
    """Return the contact modes of a prediction, and the directions of sliding (n, 2). A contact that is meant to slide keeps
    this mode while it is closed, and one that is meant to open while it carries no force."""
    given, J, u = d.given, d.own["J"], d.given.model.own["u"]
    own = given.own
    v_hat = answer.v_plus - given.keep * own["v"]
    if len(u):
        change = J[:, u].T @ (answer.p - own["last"])
        v_hat[u] += given.rho * np.linalg.solve(own["M"][np.ix_(u, u)], change)
    tangential, modes = _tangential(d, v_hat), []
    speeds = np.linalg.norm(tangential, axis=1)
    for i, mode in enumerate(intended):
        if answer.p[3 * i + 2] <= 0.0:
            modes.append(Mode.OPEN)
        elif mode is Mode.SLIDE or (speeds[i] > SLIPS and mode is Mode.STICK):
            modes.append(Mode.SLIDE)
        else:
            modes.append(Mode.STICK)
    return tuple(modes), _directions(tangential)


def _tangential(d: Dynamics, v: Array) -> Array:
    """Return the tangential contact velocities along s and t [m/s] (n, 2)."""
    velocities: Array = (d.own["J"] @ v).reshape(-1, 3)[:, :2]
    return velocities


def _directions(velocities: Array) -> Array:
    """Return unit vectors (n, 2); 0 for speeds that count as sticking."""
    speeds = np.linalg.norm(velocities, axis=1, keepdims=True)
    return np.where(speeds > SLIPS, velocities / np.maximum(speeds, SLIPS), 0.0)


def _in_world(contacts: ContactSet, force: Array) -> Array:
    """Return contact forces in the world (n, 3) from rows S, T, N (3n)."""
    axes = np.array([contact_axes(contacts, i) for i in range(len(contacts))]).reshape(-1, 3, 3)
    return np.einsum("nij,nj->ni", axes, force.reshape(-1, 3))


def _cost(attempt: Attempt, asked: Sequence[Asked], state: Kinematics) -> tuple[float, ...]:
    """Return what attempts are compared by: whether the requested law is not certified, then the errors level by level."""
    answer = attempt.answer
    costs = {each.task.level: 0.0 for each in asked}
    for task, rows, roots in asked:
        costs[task.level] += float((roots**2) @ (rows.asked - predicted_value(task, rows, answer, state)) ** 2)
    return (float(not answer.status.ok), *costs.values())
