"""Fallbacks: what is tried where the first demand has no certified answer within the limits. From the quickest to the most
modest, each with a name, each but the last certified before it is used.

    the law's own rungs  →  the same for the nearest consistent demands  →  Coulomb's law, then with moderate friction, its
    relaxation to cones, the convex law, on the same demands  →  the last forces

Friction without bounds may hold feet against one another with forces that no ground and no motor gives. Under
`Consistency.PROJECT` an answer beyond `Options.force_limit` is not the end: the law's answers to the further demands are tried.
With `Options.bounded` one that is still beyond it or the motors' limits is compared with that of Coulomb's law. Of several
answers the one that asks least is taken.

What comes after the last rung (hold, damping) is the controller's: it needs no contact model.
"""

from collections.abc import Iterator
from itertools import chain

import msgspec
import numpy as np

from idyn.laws.convex.law import Convex
from idyn.laws.coulomb import Coulomb
from idyn.laws.law import Law
from idyn.prediction.feasible import project
from idyn.prediction.method import workspace_for
from idyn.prediction.request import Request
from idyn.prediction.rungs import UNASKED, Answer, last_forces, solve
from idyn.status import Conditions, Status
from idyn.terms.given import limit_friction
from idyn.types import Array, Consistency, Demand, Prediction

COULOMB = Coulomb()
"""Asked where another law's answer is too much."""

MODERATE = 1.0
"""Friction that stands in for friction without bounds, where that leads to no answer."""

RESCUERS = (COULOMB, Convex(energy="contact"), Convex())
"""Asked where a law has no answer, in this order, with moderate friction: the last one brakes the base."""


def fall_back(request: Request, first: Answer) -> Prediction:
    """The first certified answer, after the `first` to the first demand; with none, the last forces, and the status that says
    why the law failed."""
    answer, failure = _least(request, first)
    if answer is None:
        answer = _rescued(request)
    elif max(answer.torque_excess, answer.force_excess) > 0.0 and request.options.bounded and _without_bounds(request):
        other, _ = _least(_under(request, COULOMB))
        answer = _lesser(answer, other)
    if answer is None:
        return last_forces(request, failure)
    own = answer.law == request.law.name and answer.status.ok
    return answer if own else msgspec.structs.replace(answer, status=Status.OTHER_LAW)


def _under(request: Request, law: Law) -> Request:
    return msgspec.structs.replace(request, law=law)


def _rescued(request: Request) -> Prediction | None:
    """The first certified answer of another law: Coulomb's, if that was not the one asked; then all with moderate friction."""
    if request.law.name != COULOMB.name:
        answer, _ = _least(_under(request, COULOMB))
        if answer is not None:
            return answer
    contacts = request.contacts
    limit_friction(workspace_for(request.robot, len(contacts)).problem.dynamics.given.fields, MODERATE)
    contacts = msgspec.structs.replace(contacts, mu=np.minimum(contacts.mu, MODERATE))
    for rescuer in RESCUERS:
        answer, _ = _least(msgspec.structs.replace(request, contacts=contacts, law=rescuer))
        if answer is not None:
            rung = f"{answer.rung}, μ ≤ {MODERATE:g}"
            return msgspec.structs.replace(answer, rung=rung, status=Status.OTHER_LAW)
    return None


def _least(request: Request, first: Answer | None = None) -> Answer:
    """The law's first certified answer; where friction has no bounds the first within the force limit, or the nearest to it.
    None and why the last demand had none. first: the answer to the first demand, where it is known"""
    least: Prediction | None = None
    failure = Status.SOLVED
    known = [] if first is None or first is UNASKED else [first]
    demands = _later_demands(request) if first else chain(_first_demand(request), _later_demands(request))
    for answer, why in chain(known, (solve(request, demand) for demand in demands)):
        failure = why
        if answer is None:
            continue
        least = answer if least is None else _lesser(least, answer)
        if least.force_excess <= 0.0 or not _goes_on(request):
            break
    return least, failure


def _goes_on(request: Request) -> bool:
    """Whether an answer beyond the force limit is not the end."""
    projects = request.options.consistency is Consistency.PROJECT
    return projects and request.law.conditions is not Conditions.CONVEX and _without_bounds(request)


def _without_bounds(request: Request) -> bool:
    """Whether friction may be as large as it likes somewhere."""
    return request.law.unlimited_friction or bool(np.isinf(request.contacts.mu).any())


def _lesser(answer: Prediction, other: Prediction | None) -> Prediction:
    """Whichever is less beyond the limits; the first when they are alike."""
    if other is None:
        return answer
    return min(answer, other, key=lambda each: (each.force_excess, each.torque_excess))


def _consistency(request: Request) -> Consistency:
    """On ground that is a spring every demand is feasible."""
    return Consistency.OFF if request.law.conditions is Conditions.COMPLIANT else request.options.consistency


def _first_demand(request: Request) -> Iterator[Demand]:
    """The nearest feasible demand where it comes first, none where that cannot be found; else the demand as it was made."""
    consistency, mu, touching = _consistency(request), request.contacts.mu, request.options.ground.touching
    if consistency in (Consistency.STICK, Consistency.HOLD):
        yield from _nearest(request, mu, touching, closed=consistency is Consistency.HOLD)
    else:
        yield Demand(q_ddot=request.q_ddot)


def _later_demands(request: Request) -> Iterator[Demand]:
    """The demand as it was made, where the nearest feasible one came first; else, under `Consistency.PROJECT`, the nearest
    feasible one, and where that does not help either, the nearest under which touching contacts stay."""
    consistency, mu, touching = _consistency(request), request.contacts.mu, request.options.ground.touching
    if consistency in (Consistency.STICK, Consistency.HOLD):
        yield Demand(q_ddot=request.q_ddot)
    elif consistency is Consistency.PROJECT:
        yield from _nearest(request, request.law.sticking(mu), np.inf, closed=False)
        yield from _nearest(request, mu, touching, closed=True)


def _nearest(request: Request, sticking: Array, touching: float, *, closed: bool) -> Iterator[Demand]:
    dynamics = workspace_for(request.robot, len(request.contacts)).problem.dynamics
    nearest, change, status = project(dynamics, request.q_ddot, sticking, touching, closed=closed)
    if status.ok:
        yield Demand(q_ddot=nearest, change=change)
