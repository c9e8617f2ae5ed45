"""`predict_tasks`: joint torques and contact forces that realise tasks, under a contact law; checks of the prediction."""

from functools import lru_cache, partial
from typing import NamedTuple

import msgspec
import numpy as np

from idyn.contact.ground import in_world
from idyn.errors import InputError
from idyn.laws import law_of
from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options, Unadvised
from idyn.prediction.predict import DEFAULT, predict
from idyn.prediction.request import Request
from idyn.tasks.held import SLIDE
from idyn.tasks.outcomes import TaskPrediction
from idyn.tasks.problem import Solution, TaskProblem, outcomes_of
from idyn.tasks.stack import TaskStack
from idyn.tasks.tick import fill_modes
from idyn.terms.dynamics import NOTHING
from idyn.terms.inputs import LARGEST_FORCE
from idyn.types import Array, Consistency, ContactSet, Guess, Kinematics, Prediction, Selection, State

MOST_PASSES = 3

SMALL_CHANGE = 1e-9
"""Change of a demand that counts as zero [rad/s]."""

SAME_DIRECTION = float(np.cos(np.radians(2.0)))
"""Sliding directions with a larger cosine count as equal."""


class Pass(NamedTuple):
    """One pass: solution of the tasks for some contact modes, and its prediction, with the contact modes of that (n), their
    directions of sliding (n, 2), and whether its forces and torques are within the limits for the intended modes."""

    solution: Solution
    answer: Prediction
    predicted: Array
    turned: Array
    within: bool


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
    applied: Array | None = None,
) -> TaskPrediction:
    """Predict the torques and contact forces that realise tasks over `dt` [s].

    1. equations of the tasks; modes of the contacts                             `idyn.tasks.problem`, `.stack`
    2. motion and forces nearest to the tasks, among those that modes and limits permit  `.held`, `.levels`, `.nearest`
    3. these forces, if the certificate accepts them as the law's                `idyn.prediction.rungs`
       else `predict` with the joint accelerations, and the forces as preferred ones  `idyn.prediction.predict`
    4. where the predicted modes differ: steps 2 and 3 for these; the pass with the smallest errors is used
    5. outcome of each task                                                      `idyn.tasks.problem`

    stack: tasks, limits and contact modes; the other arguments are those of `predict`. The fields `selection`,
    `consistency` and `outcomes` of `options` are not used.

    Tasks that cannot be met are reported in `TaskPrediction.outcomes`, not raised. Raises InputError, naming the field, for
    malformed data.
    """
    law = law_of(law) if isinstance(law, str) else law
    if not law.predicts:
        raise InputError("law", f"expected a law that predicts contact forces, got '{law.name}'")
    if not 0.0 < dt < np.inf:
        raise InputError("dt", f"expected a finite number > 0, got {dt}")
    request = Request(robot, state, contacts, NOTHING, law, dt, _feasible(options), guess, applied, None)
    problem = TaskProblem(request, stack, limited=law.holds_still)
    candidates = _candidates(problem)
    best = candidates[0] if len(candidates) == 1 else _best(problem, candidates)
    at, solution = problem.state, best.solution
    before = msgspec.structs.replace(problem.request, state=State(q=at.q.copy(), v=at.v.copy()))
    differences = partial(_differences, best, before)
    return TaskPrediction(
        prediction=best.answer,
        q_ddot=solution.q_ddot,
        kinds=solution.kinds,
        relaxed=solution.relaxed,
        passes=len(candidates),
        find_outcomes=partial(outcomes_of, problem, before, solution, best.answer, differences),
    )


def _candidates(problem: TaskProblem) -> list[Pass]:
    """Return the passes to choose from: one, if no limit binds and the prediction has the intended contact modes; else one for
    each combination of modes that was tried."""
    intended, solution = problem.first.kinds, problem.first
    if solution.answer is not None:
        return [_passed(problem, solution)]
    candidates: list[Pass] = []
    seen: list[bytes] = []
    if not problem.request.law.holds_still:  # its forces may be others: `first` is without limits of forces
        found = _passed(problem, solution)
        answer, modes = found.answer, (solution.kinds, solution.directions)
        if found.within and not len(solution.active) and answer.status.ok and _same(*modes, found.predicted, found.turned):
            return [found]
        solution = problem.solve(intended, np.zeros((len(intended), 2)))
    while True:
        seen.append(solution.kinds.tobytes())
        candidates.append(_passed(problem, solution))
        _, _, predicted, turned, _ = candidates[-1]
        known = predicted.tobytes() in seen and _same(predicted, solution.directions, predicted, turned)
        if known or len(candidates) == MOST_PASSES:
            return candidates
        solution = problem.solve(predicted, turned)


def _passed(problem: TaskProblem, solution: Solution) -> Pass:
    """Return the pass of a solution: with its forces if they are certified as the law's, else with forces near them where tasks
    or limits chose them."""
    r = problem.request
    if solution.answer is not None:  # all held rows rest, so that the modes are those of the solution
        return Pass(solution, solution.answer, solution.kinds, solution.directions, True)
    preferred = np.empty((len(r.contacts.mu), 3))
    force, frames = problem.equations(solution.block).force, (r.contacts.tangents, r.contacts.normals)
    in_world((force, *frames), LARGEST_FORCE, (preferred,))
    answer = predict(
        r.robot,
        r.state,
        r.contacts,
        solution.q_ddot,
        law=r.law,
        dt=r.dt,
        options=r.options,
        guess=r.guess,
        applied=r.applied,
        preferred=preferred if problem.plan.counts[1] or len(solution.active) else None,
    )
    # the contact modes of the prediction; laws whose contacts creep keep the intended ones
    intended, bounds = problem.first.kinds, (problem.apart.rows, problem.apart.least)
    kinds, directions = np.empty(len(intended), np.int64), np.empty((len(intended), 2))
    found, out = (answer.v_plus, answer.p, answer.tau), (kinds, directions)
    within = fill_modes(problem.method.finish, problem.plan, bounds, found, (intended,), out)
    return Pass(solution, answer, kinds if r.law.sticks else intended, directions, within)


def _same(kinds: Array, directions: Array, other: Array, turned: Array) -> bool:
    """Return whether the modes are equal, and the directions of the contacts that slide."""
    if kinds.tobytes() != other.tobytes():
        return False
    return bool(((directions * turned).sum(axis=1)[kinds == SLIDE] >= SAME_DIRECTION).all())


@lru_cache(maxsize=64)
def _feasible(options: Options) -> Options:
    """Return these options for demands that contact impulses can realise, with forces near the preferred ones."""
    return Unadvised(
        selection=Selection.FORCE,
        consistency=Consistency.PROJECT,
        bounded=options.bounded,
        force_limit=options.force_limit,
        warm_start=options.warm_start,
        ground=options.ground,
    )


def _differences(best: Pass, request: Request) -> tuple[str, ...]:
    """Return why a prediction may differ from the solution of the tasks, in words."""
    answer, law, words, found = best.answer, request.law, ("opens", "slides", "sticks"), []
    for key, here, there in zip(answer.keys, best.solution.kinds.tolist(), best.predicted.tolist(), strict=True):
        if here != there:
            found.append(f"the law predicts that contact {key} {words[there]}")
    if answer.law != law.name:
        found.append(f"the law '{answer.law}' was used")
    if answer.demand_change > SMALL_CHANGE:
        found.append("no contact forces realise the demand")
    if not law.sticks:
        found.append(f"contacts creep under the law '{law.name}'")
    if not found and (request.guess is None or request.options.ground.memory == 0.0):
        found.append("the law predicts other forces or directions of sliding")
    return tuple(found)


TIE = 1e-6
"""Share of an error by which passes that are equally good may differ."""


def _best(problem: TaskProblem, candidates: list[Pass]) -> Pass:
    """Return the pass with the smallest cost, the first of those that are equally good: that of the intended modes."""
    best, least = candidates[0], _cost(problem, candidates[0])
    for each in candidates[1:]:
        cost = _cost(problem, each)
        differs = [a < b for a, b in zip(cost, least, strict=True) if abs(a - b) > TIE * max(a, b)]
        if differs and differs[0]:
            best, least = each, cost
    return best


def _cost(problem: TaskProblem, each: Pass) -> tuple[float, ...]:
    """Return what passes are compared by: whether the requested law is not certified, whether torques are beyond their limits
    (then the motion is another one), then the errors level by level."""
    costs = {task.level: 0.0 for task in problem.tasks}
    _, sizes = problem.compare(each.solution, each.answer, problem.state.v)
    for task, cost in zip(problem.tasks, sizes[:, 4].tolist(), strict=True):
        costs[task.level] += cost
    return (float(not each.answer.status.ok), float(each.answer.torque_excess > 0.0), *costs.values())
