"""The fallback ladder: rungs from the quickest to the most modest, each with a name, each but the last certified before it is
used.

    the law's own attempts  →  the same for the nearest consistent demands  →  Coulomb's law, then with moderate friction, its
    relaxation to cones, the convex law, on the same demands  →  the last forces

Friction without bounds may hold feet against one another with forces that no ground and no motor gives. Under
`Consistency.PROJECT` an answer beyond `Options.force_limit` is not the end: the law's answers to the further demands are tried.
With `Options.bounded` one that is still beyond it or the motors' limits is compared with that of Coulomb's law. Of several
answers the one that asks least is taken.

What comes after the last rung (hold, damping) is the controller's: it needs no contact model.
"""

from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from idyn.laws.contact_free import ContactFree
from idyn.laws.convex.law import Convex
from idyn.laws.coulomb import Coulomb
from idyn.laws.law import Law
from idyn.prediction.feasible import project
from idyn.prediction.recovery import conclude
from idyn.problem import Problem
from idyn.selection.choose import Selected
from idyn.status import Conditions, Status
from idyn.terms.reduction import reduce
from idyn.types import (
    Array,
    Consistency,
    Demand,
    Prediction,
)

COULOMB = Coulomb()
"""Asked where another law's answer is too much."""

MODERATE = 1.0
"""Friction that stands in for friction without bounds, where that leads to no answer."""

RESCUERS = (COULOMB, Convex(energy="contact"), Convex())
"""Asked where a law has no answer, in this order, with moderate friction: the last one brakes the base."""


Solve = Callable[[Problem, Law, Demand], tuple[Prediction | None, Status]]
"""A law's certified answer to one demand; with none, why."""


def descend(problem: Problem, law: Law, solve: Solve) -> Prediction:
    """The first certified answer; with none, the last forces, and the status that says why the law failed."""
    answer, failure = _least(problem, law, solve)
    if answer is None:
        answer = _rescued(problem, law, solve)
    elif max(answer.torque_excess, answer.force_excess) > 0.0 and problem.options.bounded and _without_bounds(problem, law):
        other, _ = _least(problem, COULOMB, solve)
        answer = _lesser(answer, other)
    if answer is None:
        return _last_forces(problem, failure)
    own = answer.law == law.name and answer.status.ok
    return answer if own else msgspec.structs.replace(answer, status=Status.OTHER_LAW)


def _rescued(problem: Problem, law: Law, solve: Solve) -> Prediction | None:
    """The first certified answer of another law: Coulomb's, if that was not the one asked; then all with moderate friction."""
    if law.name != COULOMB.name:
        answer, _ = _least(problem, COULOMB, solve)
        if answer is not None:
            return answer
    moderate = np.minimum(problem.contacts.mu, MODERATE)
    problem.dynamics.mu[:] = moderate  # the last forces, which come after, do not read it
    problem = msgspec.structs.replace(problem, contacts=msgspec.structs.replace(problem.contacts, mu=moderate))
    for rescuer in RESCUERS:
        answer, _ = _least(problem, rescuer, solve)
        if answer is not None:
            rung = f"{answer.rung}, μ ≤ {MODERATE:g}"
            return msgspec.structs.replace(answer, rung=rung, status=Status.OTHER_LAW)
    return None


def _least(problem: Problem, law: Law, solve: Solve) -> tuple[Prediction | None, Status]:
    """The law's first certified answer; where friction has no bounds the first within the force limit, or the nearest to it.
    None and why the last demand had none."""
    failure, least = Status.SOLVED, None
    for demand in _demands(problem, law):
        answer, failure = solve(problem, law, demand)
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
    return law.unlimited_friction or bool(np.isinf(problem.contacts.mu).any())


def _lesser(answer: Prediction, other: Prediction | None) -> Prediction:
    """Whichever is less beyond the limits; the first when they are alike."""
    if other is None:
        return answer
    return min(answer, other, key=lambda each: (each.force_excess, each.torque_excess))


def _demands(problem: Problem, law: Law) -> Iterator[Demand]:
    """The demand as it was made and the nearest consistent one: the latter first, or only when the former has no certified
    answer within the force limit, or never. Where that does not help either, the nearest under which touching contacts stay.
    On ground that is a spring every demand is consistent."""
    consistency, contacts = problem.options.consistency, problem.contacts
    if law.conditions is Conditions.COMPLIANT:
        consistency = Consistency.OFF
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


def _last_forces(problem: Problem, failure: Status) -> Prediction:
    """Contact-free inverse dynamics with the impulses of the last tick; the status stays that of the failure."""
    law = ContactFree()
    reduced = reduce(problem.dynamics, problem.q_ddot)
    _, solution = next(law.attempts(reduced, None))
    chosen = Selected(p=problem.dynamics.last.copy(), null_dim=0)
    answer = conclude(problem, law, "last forces", solution, chosen, Demand(q_ddot=problem.q_ddot))
    status = failure if np.isfinite(answer.tau).all() else Status.NON_FINITE
    return msgspec.structs.replace(answer, status=status)
