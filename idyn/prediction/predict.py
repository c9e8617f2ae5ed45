"""`predict`: joint torques that realise a demand, and the contact forces that act meanwhile; what follows a first failure.

Fallback cascade for demands without a certified solution within the limits (MATHEMATICS §6): the rungs (solver attempts) of
the requested law, for its first demand, then for the nearest feasible ones; Coulomb's law; with friction limited to
`MODERATE` Coulomb's law, its relaxation to cones, the convex law; the contact forces of the last tick. With unlimited
friction, solutions beyond `Options.force_limit` or, with `Options.bounded`, a torque limit are compared with others: the
smallest excess is used. The law `mujoco` is solved again with joints at their torque limits instead.
"""

from collections.abc import Iterator
from itertools import chain

import msgspec
import numpy as np

from idyn.errors import InputError
from idyn.laws import law_of
from idyn.laws.convex import Convex
from idyn.laws.coulomb import Coulomb
from idyn.laws.law import Law
from idyn.laws.mujoco import joint_accelerations
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.feasible import project
from idyn.prediction.finish import WITHIN
from idyn.prediction.request import Request, checked_request
from idyn.prediction.rungs import NO_FEASIBLE_DEMAND, Answer, first_answer, last_forces, solve
from idyn.prediction.solve import workspace_for
from idyn.status import Status
from idyn.terms.inputs import limit_friction
from idyn.types import Array, Consistency, ContactSet, Demand, Guess, Kinematics, Prediction, State

MOST_ROUNDS = 30  # maximum number of changes of the set of joints at their torque limit. Usual: 3


def under_torques(request: Request, tau: Array) -> Prediction | None:
    """Return the prediction whose torques are `tau` [N·m] (na); its demand is what they cause. None without a certified one.

    request: its demand is used to report the change only. Raises InputError for another law than `mujoco`.
    """
    if not request.law.takes_torques:
        raise InputError("law", f"expected 'mujoco', the law that is solved for given torques, got '{request.law.name}'")
    if first_answer(request) is None:
        return None
    return _answer(request, np.ascontiguousarray(tau, dtype=np.float64), np.ones(len(tau), np.bool_))


def within_limits(request: Request, answer: Prediction) -> Prediction:
    """Return the prediction with joints at their torque limit that cannot meet the demand, or `answer` if there is none.

    answer: the prediction for the demand, the last of this robot. A joint at its limit has the acceleration that the limit
    permits; it is released when this exceeds the demand.
    """
    limit, a = request.robot.limits.tau_max, request.robot.tree.a
    wanted, tau, held = request.q_ddot, answer.tau, np.zeros(len(answer.tau), np.bool_)
    given, best = np.zeros(len(tau)), answer
    for _ in range(MOST_ROUNDS):
        beyond = ~held & (np.abs(tau) > limit * (1.0 + WITHIN))
        surplus = np.sign(given) * ((best.v_plus[a] - request.state.v[a]) / best.dt - wanted)
        released = held & (surplus > WITHIN * (1.0 + np.abs(wanted)))
        if not beyond.any() and not released.any():
            return best
        given[beyond] = np.sign(tau[beyond]) * limit[beyond]
        held = (held | beyond) & ~released
        given[released] = 0.0
        found = _answer(request, given, held)
        if found is None:
            return answer
        best, tau = found, found.tau
    return answer


def _answer(request: Request, tau: Array, given: Array) -> Prediction | None:
    """Return the certified prediction with the dynamics of the last tick and these torques of the joints `given` (na)."""
    method, q_ddot = workspace_for(request.robot, len(request.contacts.keys)).method(request), np.empty(len(tau))
    if not joint_accelerations(method.problem, method.soft, request.q_ddot, tau, given, q_ddot):
        return None
    change = float(np.abs(q_ddot - request.q_ddot).max(initial=0.0)) * request.dt
    answer, status = solve(request, Demand(q_ddot=q_ddot, change=change))
    if answer is None or not status.ok:
        return None
    return msgspec.structs.replace(answer, rung=f"{answer.rung}, given torques")


COULOMB = Coulomb()  # first fallback law, and the law that limits forces under `Options.bounded`
MODERATE = 1.0  # upper limit of the friction coefficients for `RESCUERS`

RESCUERS = (COULOMB, Convex(energy="contact"), Convex())
"""Fallback laws with limited friction, in order. The last one, with kinetic energy, brakes the base."""


def fall_back(request: Request, first: Answer) -> Prediction:
    """Return the first certified solution of the cascade. If there is none, return the inverse dynamics with the contact forces
    of the last tick, with the status of the requested law. first: result of the requested law for its first demand"""
    answer, failure = _best_answer(request, first)
    if answer is None:
        answer = _of_other_law(request)
    elif _excess(answer) > (0.0, 0.0) and request.options.bounded and _unlimited_friction(request):
        other, _ = _best_answer(msgspec.structs.replace(request, law=COULOMB))
        answer = other if other is not None and _is_less(_excess(other), _excess(answer)) else answer
    if answer is None:
        return last_forces(request, failure)
    own = answer.law == request.law.name and answer.status.ok
    return answer if own else msgspec.structs.replace(answer, status=Status.OTHER_LAW)


def _of_other_law(request: Request) -> Prediction | None:
    """Return the first certified solution of another law: Coulomb's law, unless it is the requested law; then `RESCUERS` with
    limited friction. None if there is none."""
    if request.law.name != COULOMB.name:
        answer, _ = _best_answer(msgspec.structs.replace(request, law=COULOMB))
        if answer is not None:
            return answer
    contacts = request.contacts
    limit_friction(workspace_for(request.robot, len(contacts)).problem.dynamics.given, MODERATE)
    contacts = msgspec.structs.replace(contacts, mu=np.minimum(contacts.mu, MODERATE))
    for rescuer in RESCUERS:
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
    projects = request.options.consistency is Consistency.PROJECT
    continues = projects and request.law.releases and _unlimited_friction(request)
    known = [] if first is None or first is NO_FEASIBLE_DEMAND else [first]
    for answer, why in chain(known, (solve(request, demand) for demand in _demands(request, first is None))):
        failure = why
        if answer is None:
            continue
        best = answer if best is None or _is_less(_excess(answer), _excess(best)) else best
        if best.force_excess <= 0.0 or not continues:
            break
    return best, failure


def _unlimited_friction(request: Request) -> bool:
    return request.law.unlimited_friction or bool(np.isinf(request.contacts.mu).any())


def _excess(answer: Prediction) -> tuple[float, float]:
    """Return the excess over the limits, by which predictions are compared: forces first."""
    return answer.force_excess, answer.torque_excess


def _is_less(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Return whether an excess is smaller by more than rounding: else the requested law and the first demand stay."""
    for a, b in zip(one, other, strict=True):
        if abs(a - b) > WITHIN * max(a, b):
            return a < b
    return False


def _demands(request: Request, from_first: bool) -> Iterator[Demand]:
    """Yield the demands to try. Under STICK and HOLD: the nearest feasible one, if it is found, then the original one.
    Otherwise: the original one; under PROJECT then the nearest feasible one, and the nearest one under which touching contacts
    neither slip nor lift. from_first: whether to yield the first of them"""
    consistency = Consistency.OFF if request.law.compliant else request.options.consistency
    mu, touching, original = request.contacts.mu, request.options.ground.touching, Demand(q_ddot=request.q_ddot)
    if consistency in (Consistency.STICK, Consistency.HOLD):
        if from_first:
            yield from _nearest(request, mu, touching, closed=consistency is Consistency.HOLD)
        yield original
        return
    if from_first:
        yield original
    if consistency is Consistency.PROJECT:
        yield from _nearest(request, request.law.sticking(mu), np.inf, closed=False)
        yield from _nearest(request, mu, touching, closed=True)


def _nearest(request: Request, sticking: Array, touching: float, *, closed: bool) -> Iterator[Demand]:
    dynamics = workspace_for(request.robot, len(request.contacts)).problem.dynamics
    nearest, change, status = project(dynamics, request.q_ddot, sticking, touching, closed=closed)
    if status.ok:
        yield Demand(q_ddot=nearest, change=change)


DEFAULT = Options()


def predict(
    robot: Robot,
    state: State | Kinematics,
    contacts: ContactSet,
    q_ddot: Array,
    *,
    law: Law | str,
    dt: float,
    options: Options = DEFAULT,
    guess: Guess | None = None,
    applied: Array | None = None,
    preferred: Array | None = None,
) -> Prediction:
    """Predict the torques that realise the joint accelerations `q_ddot` [rad/s²] (na) over `dt` [s], and the contact forces.

    0. kinematics: M, h and the joint axes, by Pinocchio                         `Robot.compute`
    1. validate, dynamics: contact Jacobian J                                    `idyn.terms`
    2. for `Consistency.STICK` and `HOLD`: nearest feasible demand               `idyn.prediction.feasible`
    3. Y, b: reduced problem in the unactuated space                             `idyn.terms.reduction`
    4. p: impulses that obey the law, by its rungs                               `idyn.laws`
    5. p: choice among equivalent impulses                                       `idyn.selection`
    6. v⁺, τ and residuals: torque and certificate                               `idyn.terms.reduction`, `idyn.certificate`
    7. without a certified solution within the limits: feasible demands, other laws `idyn.prediction.predict`
    8. with `Options.outcomes`: whether other motions are possible under τ          `idyn.prediction.outcomes`

    Steps 1 to 6 are one compiled call (`idyn.prediction.solve`). Failures are reported in `Prediction.status` and `.rung`.

    state: measured state, or `Robot.terms` of it, which saves step 0
    contacts: contacts at this state
    law: contact law, see `make_law`; or its name, for the law with default settings
    guess: `Prediction.guess` of the last tick, for the warm start
    applied: generalised force in addition to gravity, contacts and joint torques [N, N·m] (nv)
    preferred: target forces of `Selection.FORCE`, in the world, components of at most 1e9 N (n, 3); without: 0

    Lists of numbers and arrays of narrower types (float32) are accepted; float64 arrays save their conversion. Raises
    InputError, naming the field, for malformed data: wrong shape or type, NaN or infinite, not normalised, repeated keys.
    """
    known = law_of(law) if isinstance(law, str) else law
    request = Request(robot, state, contacts, q_ddot, known, dt, options, guess, applied, preferred)
    first = first_answer(request) or first_answer(request := checked_request(request))
    if first is None:
        raise AssertionError("compiled code rejected checked data")
    answer, _ = first
    if answer is not None and answer.torque_excess > 0.0 and known.takes_torques:
        answer = within_limits(request, answer)
    elif answer is None or answer.torque_excess > 0.0 or answer.force_excess > 0.0:
        answer = fall_back(request, first)
    if options.outcomes:
        from idyn.prediction.outcomes import with_outcomes  # noqa: PLC0415 - loads SciPy's optimisers, 0.1 s

        answer = with_outcomes(request, answer)
    return answer
