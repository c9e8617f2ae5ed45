"""Fallback cascade for demands without a certified solution within the limits.

    1. the solver attempts (rungs) of the requested law, for its first demand
    2. the rungs of the requested law, for the nearest feasible demands
    3. Coulomb's law, for these demands
    4. with friction limited to `MODERATE`: Coulomb's law, its relaxation to cones, the convex law, for these demands
    5. the contact forces of the last tick

All results except the last are certified before use. `Prediction.rung` names the attempt that was used.

With unlimited friction feet may press against each other with forces that exceed the strength of ground and motors. Therefore
under `Consistency.PROJECT` a solution that exceeds `Options.force_limit` is compared with solutions for the feasible demands.
With `Options.bounded` a solution that still exceeds this limit or a torque limit is compared with that of Coulomb's law. The
solution with the smallest excess is used.

Fallbacks without a contact model (hold, damping) belong to the controller.
"""

from collections.abc import Iterator
from itertools import chain

import msgspec
import numpy as np

from idyn.laws.convex.law import Convex
from idyn.laws.coulomb import Coulomb
from idyn.laws.law import Law
from idyn.prediction.feasible import project
from idyn.prediction.loaded import NOT_LOADED, is_loaded, waiting
from idyn.prediction.request import Request
from idyn.prediction.rungs import NO_FEASIBLE_DEMAND, Answer, last_forces, solve
from idyn.prediction.solve import workspace_for
from idyn.status import Status
from idyn.terms.given import limit_friction
from idyn.types import Array, Consistency, Demand, Prediction

COULOMB = Coulomb()
"""First fallback law, and the law that limits forces under `Options.bounded`."""

MODERATE = 1.0
"""Upper limit of the friction coefficients for `RESCUERS`."""

RESCUERS = (COULOMB, Convex(energy="contact"), Convex())
"""Fallback laws with limited friction, in order. The last one, with kinetic energy, brakes the base."""


def fall_back(request: Request, first: Answer) -> Prediction:
    """Return the first certified solution of the cascade. If there is none, return the inverse dynamics with the contact forces
    of the last tick, with the status of the requested law. first: result of the requested law for its first demand"""
    answer, failure = _best_answer(request, first)
    if answer is None:
        answer = _of_other_law(request)
    elif _may_ask_less(request, answer):
        other, _ = _best_answer(_with_law(request, COULOMB))
        answer = _smaller_excess(answer, other)
    if answer is None:
        return _named(last_forces(request, failure))
    own = answer.law == request.law.name and answer.status.ok
    return _named(answer if own else msgspec.structs.replace(answer, status=Status.OTHER_LAW))


def _named(answer: Prediction) -> Prediction:
    """Append to `Prediction.rung` which parts of the cascade are not loaded, see `idyn.prediction.loaded`."""
    if not waiting():
        return answer
    return msgspec.structs.replace(answer, rung=f"{answer.rung}; {NOT_LOADED}: {', '.join(waiting())}")


def _may_ask_less(request: Request, answer: Prediction) -> bool:
    """Return whether an answer that exceeds the limits is compared with Coulomb's law."""
    beyond = max(answer.torque_excess, answer.force_excess) > 0.0
    return beyond and request.options.bounded and _unlimited_friction(request) and _is_usable(request, COULOMB)


def _is_usable(request: Request, law: Law) -> bool:
    return law.name == request.law.name or is_loaded(law.name)


def _with_law(request: Request, law: Law) -> Request:
    return msgspec.structs.replace(request, law=law)


def _of_other_law(request: Request) -> Prediction | None:
    """Return the first certified solution of another law: Coulomb's law, unless it is the requested law; then `RESCUERS` with
    limited friction. None if there is none."""
    if request.law.name != COULOMB.name and is_loaded(COULOMB.name):
        answer, _ = _best_answer(_with_law(request, COULOMB))
        if answer is not None:
            return answer
    contacts = request.contacts
    limit_friction(workspace_for(request.robot, len(contacts)).problem.dynamics.given.fields, MODERATE)
    contacts = msgspec.structs.replace(contacts, mu=np.minimum(contacts.mu, MODERATE))
    for rescuer in (each for each in RESCUERS if _is_usable(request, each)):
        answer, _ = _best_answer(msgspec.structs.replace(request, contacts=contacts, law=rescuer))
        if answer is not None:
            rung = f"{answer.rung}, μ ≤ {MODERATE:g}"
            return msgspec.structs.replace(answer, rung=rung, status=Status.OTHER_LAW)
    return None


def _best_answer(request: Request, first: Answer | None = None) -> Answer:
    """Return the first certified solution of the law over its demands, or None, and the status of the last demand tried. With
    unlimited friction return the first certified solution within the force limit, or else the one with the smallest excess.

    first: result for the first demand, if it is known
    """
    best: Prediction | None = None
    failure = Status.SOLVED
    known = [] if first is None or first is NO_FEASIBLE_DEMAND else [first]
    demands = _later_demands(request) if first else chain(_first_demand(request), _later_demands(request))
    for answer, why in chain(known, (solve(request, demand) for demand in demands)):
        failure = why
        if answer is None:
            continue
        best = answer if best is None else _smaller_excess(best, answer)
        if best.force_excess <= 0.0 or not _tries_more_demands(request):
            break
    return best, failure


def _tries_more_demands(request: Request) -> bool:
    """Return whether further demands are tried after a solution that exceeds the force limit."""
    projects = request.options.consistency is Consistency.PROJECT
    return projects and request.law.releases and _unlimited_friction(request)


def _unlimited_friction(request: Request) -> bool:
    """Return whether the friction of a contact is unlimited."""
    return request.law.unlimited_friction or bool(np.isinf(request.contacts.mu).any())


def _smaller_excess(answer: Prediction, other: Prediction | None) -> Prediction:
    """Return the prediction with the smaller excess over the limits, forces first; the first one if they are equal."""
    if other is None:
        return answer
    return min(answer, other, key=lambda each: (each.force_excess, each.torque_excess))


def _consistency(request: Request) -> Consistency:
    """Return the consistency option; OFF for compliant ground, where every demand is feasible."""
    return Consistency.OFF if request.law.compliant else request.options.consistency


def _first_demand(request: Request) -> Iterator[Demand]:
    """Yield the demand to try first: under STICK and HOLD the nearest feasible one, if it is found; else the original one."""
    consistency, mu, touching = _consistency(request), request.contacts.mu, request.options.ground.touching
    if consistency in (Consistency.STICK, Consistency.HOLD):
        yield from _nearest(request, mu, touching, closed=consistency is Consistency.HOLD)
    else:
        yield Demand(q_ddot=request.q_ddot)


def _later_demands(request: Request) -> Iterator[Demand]:
    """Yield the further demands. Under STICK and HOLD: the original one. Under PROJECT: the nearest feasible one, then the
    nearest one under which touching contacts neither slip nor lift."""
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
