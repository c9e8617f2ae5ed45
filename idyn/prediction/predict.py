"""Inverse dynamics with contact: what torques realise the demand, and what forces the world will exert meanwhile."""

import msgspec

from idyn.certificate.certify import CERTIFIED
from idyn.laws.law import Law, LawSolution
from idyn.model.robot import Robot
from idyn.prediction.fallbacks import descend
from idyn.prediction.recovery import conclude
from idyn.prediction.steady import steady
from idyn.problem import Options, Problem, last_basis
from idyn.selection.choose import Selected, select, select_thoroughly
from idyn.status import Status
from idyn.terms.dynamics import evaluate, record_for
from idyn.terms.inputs import check_request
from idyn.terms.reduction import reduce
from idyn.types import Array, ContactSet, Demand, Guess, Prediction, Selection, State

DEFAULT = Options()


def predict(
    robot: Robot,
    state: State,
    contacts: ContactSet,
    q_ddot: Array,
    *,
    law: Law,
    dt: float,
    options: Options = DEFAULT,
    guess: Guess | None = None,
    applied: Array | None = None,
    preferred: Array | None = None,
) -> Prediction:
    """Torques that realise the joint accelerations `q_ddot` [rad/s²] (na) over the next `dt` [s], with the contact forces.

    If the last basis still leads there, one compiled call does it all (`idyn.prediction.steady`). Otherwise M, h, J are
    computed once (`idyn.terms.dynamics`), and the ladder has one demand after the other solved. Raises InputError, naming the
    field, for data that are malformed: shapes, numbers that are not finite, vectors that are not of unit length. For all other
    data `Prediction.status` and `.rung` say what came of them. Pass `Prediction.guess` to the next call as its warm start.

    applied: generalised force that acts besides gravity, contacts and the torques asked for [N, N·m] (nv)
    preferred: contact forces that `Selection.FORCE` comes as near to as the law leaves open, in the world [N] (n, 3); none: 0
    """
    n = len(contacts.keys)
    if guess is None and options.ground.memory > 0.0:  # nothing to remember: the first answer is the law's own
        options = msgspec.structs.replace(options, ground=msgspec.structs.replace(options.ground, memory=0.0))
    dynamics = record_for(robot, n)
    problem = Problem(
        robot=robot,
        state=state,
        contacts=contacts,
        dynamics=dynamics,
        q_ddot=q_ddot,
        dt=dt,
        options=options,
        guess=guess,
        applied=applied,
        preferred=preferred,
    )
    prediction = steady(problem, law)
    if prediction is not None:
        return prediction
    check_request(robot, n, q_ddot, dt, guess, preferred)
    last = None if guess is None else guess.carried_over(guess.force, contacts.keys)
    evaluate(robot, state, contacts, dt=dt, ground=options.ground, applied=applied, last=last, into=dynamics)
    dynamics.asked[:] = q_ddot
    return descend(problem, law, solve_demand)


def solve_demand(problem: Problem, law: Law, demand: Demand) -> tuple[Prediction | None, Status]:
    """The law's answer to one demand: the first that is certified, or None and why the last one failed.

    1. Y, b: the problem in the unactuated space                                       `idyn.terms.reduction`
    2. p: impulses that obey the law, by the law's own rungs                           `idyn.laws`
    3. p: of those that do so equally well the ones that are wanted                    `idyn.selection`
    4. v⁺, τ: what goes with them                                                      `idyn.terms.reduction.recover`
    5. residuals: the certificate                                                      `idyn.certificate.certify`

    A ray says that the demand is impossible: the remaining rungs, which only fight rounding errors, are not tried then.
    """
    reduced = reduce(problem.dynamics, demand.q_ddot)
    status = Status.SOLVED
    for rung, solution in law.attempts(reduced, last_basis(problem, law)):
        status = solution.status
        if status is Status.RAY:
            break
        if not status.ok:
            continue
        prediction = _chosen(problem, law, rung, solution, demand)
        if prediction.residuals.worst <= CERTIFIED:
            return prediction, status
        status = Status.NOT_CERTIFIED
    return None, status


def _chosen(problem: Problem, law: Law, rung: str, solution: LawSolution, demand: Demand) -> Prediction:
    """Selection, torque and certificate. Where none is found, or one costs the certificate, the law's own impulses stay, and
    the rung says so."""
    plain, face = Selected(p=solution.p, null_dim=0), solution.face
    if face is None or problem.options.selection is Selection.OFF:
        return conclude(problem, law, rung, solution, plain, demand)
    chosen = select(problem, face, solution.p)
    if chosen is not None:
        prediction = conclude(problem, law, rung, solution, chosen, demand)
        if prediction.residuals.worst <= CERTIFIED:
            return prediction
    unselected = conclude(problem, law, rung + ", unselected", solution, plain, demand)
    if unselected.residuals.worst > CERTIFIED:  # not worth any more work
        return unselected
    chosen = select_thoroughly(problem, face, solution.p)
    if chosen is not None:
        prediction = conclude(problem, law, rung, solution, chosen, demand)
        if prediction.residuals.worst <= CERTIFIED:
            return prediction
    return unselected
