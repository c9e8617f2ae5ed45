"""The fallback ladder: rungs from the quickest to the most modest, each certified before it is used, each with a name.

    the law's own attempts  →  the same for the nearest consistent demands  →  Coulomb's law, then with moderate friction, its
    relaxation to cones, the convex law, on the same demands  →  the last forces

Friction without bounds may hold feet against one another with forces that no ground and no motor gives. Under
`Consistency.PROJECT` an answer beyond `Options.force_limit` is not the end: the law's answers to the further demands are tried.
With `Options.bounded` one that is still beyond it or the motors' limits is compared with that of Coulomb's law. Of several
answers the one that asks least is taken.

What comes after the last rung (hold, damping) is the controller's: it needs no contact model.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from idyn.compiled import compiled
from idyn.consistency import project
from idyn.ground import unpacked
from idyn.laws.contact_free import ContactFree
from idyn.laws.convex import Convex
from idyn.laws.coulomb import Coulomb
from idyn.laws.law import Law, LawSolution
from idyn.problem import Problem
from idyn.reduction import recover, reduce
from idyn.residuals import CERTIFIED, Claim, certify
from idyn.selection.choose import Selected, select, select_thoroughly
from idyn.status import Conditions, Status
from idyn.types import (
    Array,
    Consistency,
    Demand,
    Guess,
    Prediction,
    Residuals,
    Selection,
)

_NO_MULTIPLIERS = np.zeros(0)

COULOMB = Coulomb()
"""Asked where another law's answer is too much."""

MODERATE = 1.0
"""Friction that stands in for friction without bounds, where that leads to no answer."""

RESCUERS = (COULOMB, Convex(energy="contact"), Convex())
"""Asked where a law has no answer, in this order, with moderate friction: the last one brakes the base."""


def descend(problem: Problem, law: Law) -> Prediction:
    """The first certified answer; with none, the last forces, and the status that says why the law failed."""
    answer, failure = _least(problem, law)
    if answer is None:
        answer = _rescued(problem, law)
    elif max(answer.torque_excess, answer.force_excess) > 0.0 and problem.options.bounded and _without_bounds(problem, law):
        other, _ = _least(problem, COULOMB)
        answer = _lesser(answer, other)
    if answer is None:
        return _last_forces(problem, failure)
    own = answer.law == law.name and answer.status.ok
    return answer if own else msgspec.structs.replace(answer, status=Status.OTHER_LAW)


def _rescued(problem: Problem, law: Law) -> Prediction | None:
    """The first certified answer of another law: Coulomb's, if that was not the one asked; then all with moderate friction."""
    if law.name != COULOMB.name:
        answer, _ = _least(problem, COULOMB)
        if answer is not None:
            return answer
    moderate = np.minimum(problem.contacts.mu, MODERATE)
    problem.dynamics.mu[:] = moderate  # nobody comes after the rescuers who would mind
    problem = msgspec.structs.replace(problem, contacts=msgspec.structs.replace(problem.contacts, mu=moderate))
    for rescuer in RESCUERS:
        answer, _ = _least(problem, rescuer)
        if answer is not None:
            rung = f"{answer.rung}, μ ≤ {MODERATE:g}"
            return msgspec.structs.replace(answer, rung=rung, status=Status.OTHER_LAW)
    return None


def _least(problem: Problem, law: Law) -> tuple[Prediction | None, Status]:
    """The law's first certified answer; where friction has no bounds the first within the force limit, or the nearest to it.
    None and why the last demand had none."""
    failure, least = Status.SOLVED, None
    for demand in _demands(problem, law):
        answer, failure = _attempt(problem, law, demand)
        if answer is None:
            continue
        least = answer if least is None else _lesser(least, answer)
        if least.force_excess <= 0.0 or not _goes_on(problem, law):
            break
    return least, failure


def _goes_on(problem: Problem, law: Law) -> bool:
    """Whether an answer beyond the force limit is not the end."""
    projects = problem.options.consistency is Consistency.PROJECT
    return projects and law.conditions is not Conditions.CONVEX and _without_bounds(problem, law)


def _without_bounds(problem: Problem, law: Law) -> bool:
    """Whether friction may be as large as it likes somewhere."""
    return law.unlimited_friction or law.conditions is Conditions.NO_SLIP or bool(np.isinf(problem.contacts.mu).any())


def _lesser(answer: Prediction, other: Prediction | None) -> Prediction:
    """Whichever is less beyond the limits; the first when they are alike."""
    if other is None:
        return answer
    return min(answer, other, key=lambda each: (each.force_excess, each.torque_excess))


def _demands(problem: Problem, law: Law) -> Iterator[Demand]:
    """The demand as it was made and the nearest consistent one: the latter first, or only when the former has no certified
    answer within the force limit, or never. Where that does not help either, the nearest under which touching contacts stay."""
    consistency, contacts = problem.options.consistency, problem.contacts
    if consistency in (Consistency.STICK, Consistency.HOLD):
        touching = problem.options.ground.touching
        yield from _nearest(problem, contacts.mu, touching, closed=consistency is Consistency.HOLD)
    yield Demand(q_ddot=problem.q_ddot)
    if consistency is Consistency.PROJECT:
        yield from _nearest(problem, law.sticking(contacts.mu), np.inf, closed=False)
        yield from _nearest(problem, contacts.mu, problem.options.ground.touching, closed=True)


def _nearest(problem: Problem, sticking: Array, touching: float, *, closed: bool) -> Iterator[Demand]:
    nearest, change, status = project(problem.dynamics, problem.q_ddot, sticking, touching, closed=closed)
    if status.ok:
        yield Demand(q_ddot=nearest, change=change)


def _attempt(problem: Problem, law: Law, demand: Demand) -> tuple[Prediction | None, Status]:
    """The law's own rungs for one demand: the first certified answer, or None and why the last one failed.

    A ray says that the demand is impossible: the remaining rungs, which only fight rounding errors, are not tried then.
    """
    reduced = reduce(problem.dynamics, demand.q_ddot)
    status = Status.SOLVED
    for rung, solution in law.attempts(reduced, _warm_basis(problem, law)):
        status = solution.status
        if status is Status.RAY:
            break
        if not status.ok:
            continue
        answer = _answer(problem, law, rung, solution, demand)
        if answer.residuals.worst <= CERTIFIED:
            return answer, status
        status = Status.NOT_CERTIFIED
    return None, status


def _warm_basis(problem: Problem, law: Law) -> Array | None:
    """The last basis row by row for today's contacts; new contacts start open. None when nothing carries over."""
    guess, keys = problem.guess, problem.contacts.keys
    if guess is None or guess.law != law.name or not problem.options.warm_start:
        return None
    if guess.keys == keys:
        return guess.basis
    basis = np.zeros((len(keys), guess.basis.shape[1]), dtype=guess.basis.dtype)
    for i, key in enumerate(keys):
        if key in guess.keys:
            basis[i] = guess.basis[guess.keys.index(key)]
    return basis


def _answer(problem: Problem, law: Law, rung: str, solution: LawSolution, demand: Demand) -> Prediction:
    """Selection, torque and certificate. Where none is found, or one costs the certificate, the law's own impulses stay, and
    the rung says so."""
    plain, face = Selected(p=solution.p, null_dim=0), solution.face
    if face is None or problem.options.selection is Selection.OFF:
        return _conclude(problem, law, rung, solution, plain, demand)
    chosen = select(problem, face, solution.p)
    if chosen is not None:
        answer = _conclude(problem, law, rung, solution, chosen, demand)
        if answer.residuals.worst <= CERTIFIED:
            return answer
    unselected = _conclude(problem, law, rung + ", unselected", solution, plain, demand)
    if unselected.residuals.worst > CERTIFIED:  # not worth any more work
        return unselected
    chosen = select_thoroughly(problem, face, solution.p)
    if chosen is not None:
        answer = _conclude(problem, law, rung, solution, chosen, demand)
        if answer.residuals.worst <= CERTIFIED:
            return answer
    return unselected


def _conclude(problem: Problem, law: Law, rung: str, solution: LawSolution, chosen: Selected, demand: Demand) -> Prediction:
    """Velocity, torque and certificate of the chosen impulses."""
    robot, dt = problem.robot, problem.dt
    multipliers = _NO_MULTIPLIERS if solution.multipliers is None else solution.multipliers
    claim = Claim(law.conditions.value, law.directions, law.unlimited_friction, multipliers, solution.epsilon)
    v_plus, tau, residuals = np.empty(robot.nv), np.empty(robot.na), np.empty(6)
    force, torque_excess, force_excess = _settle(
        problem.dynamics.fields,
        claim,
        demand.change,
        chosen.p,
        problem.options.force_limit * robot.weight,
        v_plus,
        tau,
        residuals,
    )
    return Prediction(
        tau=tau,
        force=force,
        p=chosen.p,
        dt=dt,
        v_plus=v_plus,
        status=solution.status,
        law=law.name,
        rung=rung,
        iterations=solution.iterations,
        residuals=Residuals(*residuals.tolist()),
        demand_change=demand.change,
        torque_excess=torque_excess,
        force_excess=force_excess,
        null_dim=chosen.null_dim,
        guess=Guess(law=law.name, keys=problem.contacts.keys, basis=solution.basis, tau=tau, force=force),
    )


@compiled
def _settle(d, claim, change, p, most, v_plus, tau, residuals):
    """Fills v⁺, τ and the residuals; contact forces in the world, and what is beyond the limits of torques and of forces."""
    recover(d, p, v_plus, tau)
    force = certify(d, claim, change, p, v_plus, tau, residuals)
    force /= unpacked(d.numbers).dt
    beyond = _excess(d, tau, force, most)
    return force, beyond[0], beyond[1]


@compiled
def _excess(d, tau, force, most):
    """How far the largest torque [N·m] and the largest contact force [N] are beyond their limits; 0 within."""
    torque, beyond = 0.0, 0.0
    for k in range(len(tau)):
        torque = max(torque, abs(tau[k]) - d.tau_max[k])
    for i in range(len(force)):
        square = 0.0
        for c in range(3):
            square += force[i, c] ** 2
        beyond = max(beyond, np.sqrt(square) - most)
    return torque, beyond


def _last_forces(problem: Problem, failure: Status) -> Prediction:
    """Contact-free inverse dynamics with the impulses of the last tick; the status stays that of the failure."""
    law = ContactFree()
    reduced = reduce(problem.dynamics, problem.q_ddot)
    _, solution = next(law.attempts(reduced, None))
    chosen = Selected(p=problem.dynamics.last.copy(), null_dim=0)
    answer = _conclude(problem, law, "last forces", solution, chosen, Demand(q_ddot=problem.q_ddot))
    status = failure if np.isfinite(answer.tau).all() else Status.NON_FINITE
    return msgspec.structs.replace(answer, status=status)
