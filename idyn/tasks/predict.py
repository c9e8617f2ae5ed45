"""`predict_tasks`: joint torques and contact forces that realise tasks, under a contact law; checks of the prediction."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np

from idyn.contact.ground import in_world
from idyn.errors import InputError
from idyn.laws import law_of
from idyn.laws.law import SLIPS, Law
from idyn.library.kernels import entry, stack_array
from idyn.library.records import Indices, Matrix, Vector, written
from idyn.model.robot import Robot
from idyn.options import Options, Unadvised
from idyn.prediction.predict import DEFAULT, predict
from idyn.prediction.request import Request
from idyn.prediction.rungs import verified
from idyn.prediction.solve import workspace_for
from idyn.solvers.linalg import backward, cholesky, dot, forward
from idyn.tasks.held import OPEN, SLIDE, STICK
from idyn.tasks.limits import Answer, count_limits, fill_slacks, of_forces
from idyn.tasks.nearest import APART, FEASIBLE, Pair
from idyn.tasks.outcomes import TaskPrediction
from idyn.tasks.plan import Plan, limits_of
from idyn.tasks.problem import SAME_DIRECTION, Solution, TaskProblem, outcomes_of, slides
from idyn.tasks.stack import MODES, TaskStack
from idyn.terms.dynamics import NOTHING, checked, evaluate, fill_dynamics
from idyn.terms.inputs import LARGEST_FORCE
from idyn.terms.stages import Dynamics
from idyn.types import Array, Consistency, ContactSet, Guess, Kinematics, Prediction, Selection, State


@entry(Dynamics, Plan, (Vector, Vector, Vector), (Indices,), APART, written((Indices, Matrix)))
def fill_modes(d: Dynamics, plan: Plan, answer: tuple[Array, ...], intended: tuple[Array], apart: Pair, out: Pair) -> bool:
    """Fill the contact modes of a prediction. A contact that is meant to slide keeps this mode while it is closed. Return
    whether the forces and torques of the prediction are within the limits for the intended modes.

    answer: (v⁺ (nv), impulses p (3n), τ (na)); intended: tuple of the kinds of the intended modes (n)
    out: (kinds (n), unit directions of sliding along s and t (n, 2), 0 for speeds that count as sticking)
    plan: after `begin`; apart: see `limits_of`
    """
    (v_plus, p, tau), (meant,), (kinds, directions), g = answer, intended, out, d.given
    u, nv = g.model.u, len(g.v)
    v_hat, change, L = stack_array(nv), stack_array(len(u)), stack_array((len(u), len(u)))
    # v̂ = v⁺ − keep v + ρ M_uu⁻¹ J_uᵀ (p − p⁻)
    for i in range(len(u)):
        change[i] = 0.0
        for row in range(len(p)):
            change[i] += d.J[row, u[i]] * (p[row] - g.last[row])
        for j in range(len(u)):
            L[i, j] = g.M[u[i], u[j]]
    cholesky(L)
    forward(L, change)
    backward(L, change)
    for j in range(nv):
        v_hat[j] = v_plus[j] - g.keep * g.v[j]
    for i in range(len(u)):
        v_hat[u[i]] += g.rho * change[i]
    for i in range(len(kinds)):
        s, t = dot(d.J[3 * i], v_hat) + d.drift[3 * i], dot(d.J[3 * i + 1], v_hat) + d.drift[3 * i + 1]
        speed = np.sqrt(s * s + t * t)
        slips = speed > SLIPS
        directions[i, 0], directions[i, 1] = (s / speed, t / speed) if slips else (0.0, 0.0)
        if p[3 * i + 2] <= 0.0:
            kinds[i] = OPEN
        else:
            kinds[i] = SLIDE if meant[i] == SLIDE or (slips and meant[i] == STICK and g.mu[i] > 0.0) else STICK
    limits, within = limits_of(plan, meant, apart, True), Answer(g.v, p / g.dt, tau)
    slacks = stack_array(count_limits(limits))
    fill_slacks(d, limits, within, slacks)
    kept = True
    for number in range(len(slacks)):
        kept = kept and not (of_forces(limits, number) and slacks[number] < -FEASIBLE)
    return kept


MOST_PASSES = 3

SMALL_CHANGE = 1e-9
"""Change of a demand that counts as zero [rad/s]."""


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
    ground, last = options.ground, None if guess is None else guess.carried_over(guess.force, contacts.keys)
    workspace = workspace_for(robot, len(contacts))
    workspace.prepare(ground, _period(dt), last is not None)
    dynamics = workspace.problem.dynamics
    kinematics = _kinematics(robot, state)
    if kinematics is None or not fill_dynamics(robot, dynamics, kinematics, contacts, applied, last):
        plain, contacts, applied, last = checked(robot, state, contacts, applied, last)
        kinematics = robot.terms(plain.q, plain.v)
        if not fill_dynamics(robot, dynamics, kinematics, contacts, applied, last):
            raise AssertionError("compiled code rejected checked data")
    problem = TaskProblem(robot, kinematics, contacts, stack, law, dynamics)
    request = Request(robot, kinematics, contacts, NOTHING, law, dt, _feasible(options), guess, applied, None)
    candidates, passes = _candidates(problem, problem.modes, request)
    solution, answer, predicted, _, _ = candidates[0] if len(candidates) == 1 else _best(problem, candidates)
    before = State(q=kinematics.q.copy(), v=kinematics.v.copy())

    def again() -> TaskProblem:
        there = robot.terms(before.q, before.v)
        terms = evaluate(robot, there, contacts, dt=dt, ground=ground, applied=applied, last=last)
        return TaskProblem(robot, there, contacts, stack, law, terms.dynamics)

    rho = dynamics.given.rho

    def differences() -> tuple[str, ...]:
        return _differences(law, solution, answer, (contacts.keys, predicted, rho))

    return TaskPrediction(
        prediction=answer,
        q_ddot=solution.motion[robot.tree.a],
        modes=dict(zip(contacts.keys, map(MODES.__getitem__, solution.kinds.tolist()), strict=True)),
        relaxed=solution.relaxed,
        passes=passes,
        find_outcomes=partial(outcomes_of, problem, before.v, solution, answer, differences, again),
    )


def _candidates(problem: TaskProblem, intended: Array, request: Request) -> tuple[list[Pass], int]:
    """Return the passes to choose from, and how many predictions were made: one, if no limit binds and the prediction has the
    intended contact modes; else one for each combination of modes that was tried. request: without a demand"""
    kinds, directions = intended, np.zeros((len(intended), 2))
    candidates: list[Pass] = []
    if not problem.law.holds_still:  # its forces may be others: without limits of forces first
        candidates.append(_passed(problem, problem.solve(kinds, directions, limited=False), intended, request))
        solution, answer, predicted, turned, within = candidates[0]
        if within and not len(solution.active) and answer.status.ok and _same(kinds, solution.directions, predicted, turned):
            return candidates, 1
        candidates.clear()
    seen: list[bytes] = []
    while len(candidates) < MOST_PASSES:
        seen.append(kinds.tobytes())
        candidates.append(_passed(problem, problem.solve(kinds, directions), intended, request))
        solution, _, predicted, turned, _ = candidates[-1]
        if predicted.tobytes() in seen and _same(predicted, solution.directions, predicted, turned):
            break
        kinds, directions = predicted, turned
    return candidates, len(candidates)


def _passed(problem: TaskProblem, solution: Solution, intended: Array, request: Request) -> Pass:
    """Return the pass of a solution: with its forces if they are certified as the law's, else with forces near them where tasks
    or limits chose them."""
    q_ddot, force, r = solution.motion[problem.robot.tree.a], solution.force, request
    if problem.law.holds_still and not problem.robot.closures.keys:
        answer = verified(msgspec.structs.replace(r, q_ddot=q_ddot), force, solution.choice)
        if answer is not None:  # all held rows rest, so that the modes are those of the solution
            return Pass(solution, answer, solution.kinds, solution.directions, True)
    preferred = _in_world(r.contacts, force) if problem.pushes or len(solution.active) else None
    given: dict[str, Any] = {"law": r.law, "dt": r.dt, "options": r.options, "guess": r.guess, "applied": r.applied}
    answer = predict(r.robot, r.state, r.contacts, q_ddot, preferred=preferred, **given)
    return Pass(solution, answer, *_modes_of(problem, answer, intended))


def _same(kinds: Array, directions: Array, other: Array, turned: Array) -> bool:
    """Return whether the modes are equal, and the directions of the contacts that slide."""
    if kinds.tobytes() != other.tobytes():
        return False
    return not slides(kinds) or bool(((directions * turned).sum(axis=1)[kinds == SLIDE] >= SAME_DIRECTION).all())


def _modes_of(problem: TaskProblem, answer: Prediction, intended: Array) -> tuple[Array, Array, bool]:
    """Return the contact modes of a prediction (n), the directions of sliding (n, 2), and whether its forces and torques are
    within the limits for the intended modes. Laws whose contacts creep keep the intended modes."""
    law, out = problem.law, (np.empty(len(intended), np.int64), np.empty((len(intended), 2)))
    found, apart = (answer.v_plus, answer.p, answer.tau), (problem.apart.rows, problem.apart.least)
    within = fill_modes(problem.dynamics, problem.plan, found, (intended,), apart, out)
    return out[0] if law.sticks else intended, out[1], within


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


def _differences(
    law: Law, solution: Solution, answer: Prediction, contacts: tuple[Sequence[str], Array, float]
) -> tuple[str, ...]:
    """Return why a prediction may differ from the solution of the tasks, in words. contacts: (keys, predicted modes (n), ρ)"""
    (keys, predicted, rho), words, found = contacts, ("opens", "slides", "sticks"), []
    for key, here, there in zip(keys, solution.kinds.tolist(), predicted.tolist(), strict=True):
        if here != there:
            found.append(f"the law predicts that contact {key} {words[there]}")
    if answer.law != law.name:
        found.append(f"the law '{answer.law}' was used")
    if answer.demand_change > SMALL_CHANGE:
        found.append("no contact forces realise the demand")
    if not law.sticks:
        found.append(f"contacts creep under the law '{law.name}'")
    if not found and rho == 0.0:
        found.append("the law predicts other forces or directions of sliding")
    return tuple(found)


def _kinematics(robot: Robot, state: State | Kinematics) -> Kinematics | None:
    """Return the kinematics of a state; None if its arrays are not those that Pinocchio accepts."""
    try:
        return robot.kinematics(state)
    except (AttributeError, TypeError, ValueError):
        return None


def _period(dt: float) -> float:
    """Return a period [s]. Raises InputError unless it is finite and positive."""
    if not 0.0 < dt < np.inf:
        raise InputError("dt", f"expected a finite number > 0, got {dt}")
    return dt


def _in_world(contacts: ContactSet, force: Array) -> Array:
    """Return contact forces in the world (n, 3) from rows S, T, N (3n)."""
    world = np.empty((len(contacts.mu), 3))
    in_world((force, contacts.tangents, contacts.normals), LARGEST_FORCE, (world,))
    return world


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
    costs = dict.fromkeys(problem.levels, 0.0)
    achieved, _ = problem.compare(each.solution, each.answer, problem.state.v)
    for asked, (first, last) in zip(problem.asked, problem.plan.layout.spans, strict=True):
        weighted = asked.rows.roots * (asked.rows.asked - achieved[asked.of_force][2, first:last])
        costs[asked.task.level] += float(weighted @ weighted)
    return (float(not each.answer.status.ok), float(each.answer.torque_excess > 0.0), *costs.values())
