"""The fallback ladder: rungs from the quickest to the most modest, each certified before it is used, each with a name.

    the law's own attempts  →  the same with the nearest consistent demand  →  the convex law  →  the last forces

What comes after the last rung (hold, damping) is the controller's: it needs no contact model.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from idyn.consistency import project
from idyn.laws.contact_free import ContactFree
from idyn.laws.convex import Convex
from idyn.laws.law import Law, LawSolution
from idyn.reduction import GapPolicy, Motion, Reduced, recover, reduce
from idyn.residuals import CERTIFIED, certify
from idyn.robot import Robot
from idyn.selection import Selected, previous_impulses, select
from idyn.status import Status
from idyn.types import Array, Consistency, ContactSet, DynamicsTerms, Guess, Record, Residuals, Selection, State


class Options(Record):
    """Everything about a prediction besides the law: how to choose among equals, what to do with impossible demands, how far
    gaps are trusted, and the QP back end."""

    selection: Selection = Selection.TORQUE
    consistency: Consistency = Consistency.PROJECT
    gaps: GapPolicy = GapPolicy()
    backend: str = "daqp"


class Problem(Record):
    """One tick's data: the same for every rung."""

    robot: Robot
    terms: DynamicsTerms
    state: State
    contacts: ContactSet
    allowance: Array
    joint_velocity: Array
    dt: float
    options: Options
    guess: Guess | None


class Answer(Record):
    """What one rung came to; the fields are those of `idyn.types.Prediction`."""

    law: str
    rung: str
    status: Status
    p: Array
    tau: Array
    v_plus: Array
    basis: Array
    iterations: int
    residuals: Residuals
    null_dim: int
    torque_excess: float
    demand_change: float


def descend(problem: Problem, law: Law) -> Answer:
    """The first certified answer; with none, the last forces, and the status that says why the law failed."""
    status = Status.SOLVED
    for granted in _demands(problem, law):
        answer, status = _attempt(problem, law, granted)
        if answer is not None:
            return answer
    answer, _ = _attempt(problem, Convex(backend=problem.options.backend), problem.joint_velocity)
    return answer if answer is not None else _last_forces(problem, status)


def _demands(problem: Problem, law: Law) -> Iterator[Array]:
    """Joint velocities to try: as wanted, then the nearest consistent ones; these alone for a law that drops what it violates."""
    project_demand = problem.options.consistency is Consistency.PROJECT
    if not (project_demand and law.needs_consistent_demand):
        yield problem.joint_velocity
    if not project_demand:
        return
    mu = law.friction(problem.contacts.mu)
    sticking = mu > 0 if law.needs_consistent_demand else np.isinf(mu)
    granted, status = project(
        problem.robot, problem.terms, problem.state, problem.contacts, problem.joint_velocity, problem.allowance, sticking
    )
    if status.ok:
        yield granted


def _attempt(problem: Problem, law: Law, joint_velocity: Array) -> tuple[Answer | None, Status]:
    """The law's own rungs for one demand: the first certified answer, or None and why the last one failed.

    A ray proves that this demand is impossible, so the remaining rungs, which only fight rounding errors, are not tried.
    """
    reduced, motion = reduce(
        problem.robot, problem.terms, problem.state, problem.contacts, joint_velocity, problem.allowance, problem.dt
    )
    status = Status.SOLVED
    for rung, solution in law.attempts(reduced, _warm_basis(problem, law)):
        status = solution.status
        if status is Status.RAY:
            break
        if not status.ok:
            continue
        answer = _answer(problem, law, rung, solution, reduced, motion)
        if answer.residuals.worst <= CERTIFIED:
            return answer, Status.SOLVED
        status = Status.NOT_CERTIFIED
    return None, status


def _warm_basis(problem: Problem, law: Law) -> Array | None:
    """The last basis row by row for today's contacts; new contacts start open. None when nothing carries over."""
    guess, keys = problem.guess, problem.contacts.keys
    if guess is None or guess.law != law.name:
        return None
    if guess.keys == keys:
        return guess.basis
    basis = np.zeros((len(keys), guess.basis.shape[1]), dtype=np.bool_)
    for i, key in enumerate(keys):
        if key in guess.keys:
            basis[i] = guess.basis[guess.keys.index(key)]
    return basis


def _answer(problem: Problem, law: Law, rung: str, solution: LawSolution, reduced: Reduced, motion: Motion) -> Answer:
    """Selection, torque and certificate. A selection that costs the certificate is undone."""
    v_plus, tau = recover(
        problem.robot, problem.terms, problem.state, problem.contacts, motion, solution.p, problem.dt
    )
    plain = Selected(p=solution.p, tau=tau, null_dim=0, excess=0.0)
    if solution.face is None or problem.options.selection is Selection.OFF:
        return _certified(problem, law, rung, solution, motion, plain, v_plus)
    chosen = select(problem.robot, problem.terms, problem.contacts, motion, reduced, solution.face, solution.p, tau, problem.dt,
                    objective=problem.options.selection, guess=problem.guess, backend=problem.options.backend)  # fmt: skip
    answer = _certified(problem, law, rung, solution, motion, chosen, v_plus)
    if answer.residuals.worst <= CERTIFIED:
        return answer
    return _certified(problem, law, rung + ", unselected", solution, motion, plain, v_plus)


def _certified(
    problem: Problem, law: Law, rung: str, solution: LawSolution, motion: Motion, chosen: Selected, v_plus: Array
) -> Answer:
    residuals = certify(
        problem.robot, problem.terms, problem.state, problem.contacts, law.conditions, law.directions,
        law.friction(problem.contacts.mu), problem.allowance, solution.multipliers, chosen.p, v_plus, chosen.tau, problem.dt,
    )  # fmt: skip
    granted = motion.v_free[problem.robot.a]
    return Answer(
        law=law.name,
        rung=rung,
        status=Status.SOLVED,
        p=chosen.p,
        tau=chosen.tau,
        v_plus=v_plus,
        basis=solution.basis,
        iterations=solution.iterations,
        residuals=residuals,
        null_dim=chosen.null_dim,
        torque_excess=chosen.excess,
        demand_change=float(np.abs(granted - problem.joint_velocity).max(initial=0.0)),
    )


def _last_forces(problem: Problem, status: Status) -> Answer:
    """Contact-free inverse dynamics with the impulses of the last tick; the status stays that of the failure."""
    law = ContactFree()
    reduced, motion = reduce(
        problem.robot, problem.terms, problem.state, problem.contacts, problem.joint_velocity, problem.allowance, problem.dt
    )
    _, solution = next(law.attempts(reduced, None))
    p = previous_impulses(problem.contacts, motion, problem.guess)
    v_plus, tau = recover(problem.robot, problem.terms, problem.state, problem.contacts, motion, p, problem.dt)
    answer = _certified(
        problem, law, "last forces", solution, motion, Selected(p=p, tau=tau, null_dim=0, excess=0.0), v_plus
    )
    return msgspec.structs.replace(answer, status=status if np.isfinite(tau).all() else Status.NON_FINITE)
