"""One demand in Python: the compiled call, then the law's Python rungs with the same `finish`; the answer as a `Prediction`."""

import math

import msgspec
import numpy as np
from numpy import empty

from idyn.laws.contact_free import ContactFree
from idyn.laws.law import Face, LawSolution
from idyn.prediction.method import Method, workspace_for
from idyn.prediction.request import Request, last_basis
from idyn.prediction.solve import AS_WANTED, CHANGE, INFEASIBLE, MALFORMED, REFUSED, UNSELECTED
from idyn.status import RAY, STATUSES, Status
from idyn.terms.dynamics import NO_FORCES, NOTHING, contact_arrays
from idyn.terms.reduction import view
from idyn.types import Array, Demand, Guess, Prediction, Residuals

Answer = tuple[Prediction | None, Status]
"""A certified answer; with none, why the last rung failed."""

UNASKED: Answer = None, Status.SOLVED
"""Where the demand could not be made feasible."""

Out = tuple[Array, Array, Array, Array]
"""p (3n), contact forces (n, 3), v⁺ (nv) and τ (na) of an answer."""

NO_FRICTION = np.zeros((0, 2))


def first_answer(request: Request) -> Answer | None:
    """The law's answer to the demand that it is asked first; None for data that compiled code does not take."""
    robot, guess, contacts, n = request.robot, request.guess, request.contacts, len(request.contacts.keys)
    method = workspace_for(robot, n).method(robot, request.law, request.options)
    preferred, applied = request.preferred, request.applied
    if not 0.0 < request.dt < math.inf or not (preferred is None or _are_vectors(preferred, n)):
        return None
    method.problem.dynamics.given.set_ground(request.options.ground, request.dt, guess is not None)
    try:
        basis, tau, last = last_basis(request), NOTHING, NO_FORCES
        if guess is not None:
            tau, last = guess.tau, guess.carried_over(guess.force, contacts.keys)
        warm = basis is not None and basis.shape == method.empty.shape
        kinematics, out = robot.kinematics(request.state), _room(request)
        rung, status, iterations, null_dim, finished, holds = method.tick(
            method.fields,
            (kinematics.q, kinematics.v, NOTHING if applied is None else applied, request.q_ddot),
            contact_arrays(contacts),
            (basis if warm else method.empty, last, tau, *aim_of(request, method, last)),
            out,
            0 if warm else method.cold,
        )
    except (TypeError, ValueError, AttributeError):  # not the arrays that Pinocchio and compiled code take
        return None
    if rung >= 0:
        name = (method.warm_names if warm else method.cold_names)[rung]
        basis = basis if holds and warm else method.basis.copy()
        return _prediction(request, method, out, basis, (name, iterations, null_dim, finished)), Status.SOLVED
    if rung == MALFORMED:
        return None
    if rung == INFEASIBLE:
        return UNASKED
    if status == RAY:
        return None, Status.RAY
    met = Demand(q_ddot=method.problem.q_ddot.copy(), change=float(method.figures[CHANGE]))
    return _by_python(request, method, met, STATUSES[status])


def solve(request: Request, demand: Demand) -> Answer:
    """The law's answer to another demand, with the dynamics as they are."""
    robot, guess, keys = request.robot, request.guess, request.contacts.keys
    method = workspace_for(robot, len(keys)).method(robot, request.law, request.options)
    basis, out = last_basis(request), _room(request)
    last = NO_FORCES if guess is None else np.ascontiguousarray(guess.carried_over(guess.force, keys))
    warm = basis is not None and basis.shape == method.empty.shape
    start = np.array(basis if warm else method.empty)
    rung, status, iterations, null_dim, finished, _ = method.solve_again(
        method.fields,
        (request.q_ddot, demand.q_ddot, *aim_of(request, method, last)),
        (start,),
        out,
        demand.change,
        0 if warm else method.cold,
    )
    if rung >= 0:
        name = (method.warm_names if warm else method.cold_names)[rung]
        return _prediction(request, method, out, start, (name, iterations, null_dim, finished)), Status.SOLVED
    if status == RAY:
        return None, Status.RAY
    return _by_python(request, method, demand, STATUSES[status])


def _by_python(request: Request, method: Method, demand: Demand, failure: Status) -> Answer:
    """The law's Python rungs, where the kernels have failed."""
    problem, basis, status = view(method.problem), last_basis(request), failure
    for rung in method.python:
        for found in rung.solve(problem, basis):
            if found is None:
                return None, status
            name, solution = found
            status = solution.status
            if status is Status.RAY:
                return None, status
            if not status.ok:
                continue
            answer = _finished(request, method, demand, name, solution)
            if answer is not None:
                return answer, Status.SOLVED
            status = Status.NOT_CERTIFIED
    return None, status


def _finished(request: Request, method: Method, demand: Demand, name: str, solution: LawSolution) -> Prediction | None:
    """The answer that a Python rung's solution leads to, if it is certified."""
    face, out, p = solution.face, _room(request), np.ascontiguousarray(solution.p)
    if face is None:
        face = Face(np.zeros((len(request.contacts), 0), np.bool_), NO_FRICTION, NOTHING, False, NO_FRICTION)
    multipliers = NOTHING if solution.multipliers is None else solution.multipliers
    finished, null_dim = method.finish_solution(
        method.fields,
        (request.q_ddot, demand.q_ddot),
        (p, face.flags, face.directions, face.mu, face.friction, multipliers),
        out,
        (demand.change, solution.epsilon),
        face.unlimited,
    )
    if finished == REFUSED:
        return None
    return _prediction(request, method, out, solution.basis, (name, solution.iterations, null_dim, finished))


def last_forces(request: Request, failure: Status) -> Prediction:
    """Contact-free inverse dynamics with the impulses of the last tick; the status stays that of the failure."""
    robot, law = request.robot, ContactFree()
    method, out = workspace_for(robot, len(request.contacts)).method(robot, law, request.options), _room(request)
    method.keep_forces(method.fields, (request.q_ddot, request.q_ddot), out)
    request = msgspec.structs.replace(request, law=law)
    answer = _prediction(request, method, out, method.empty.copy(), ("last forces", 0, 0, AS_WANTED))
    return msgspec.structs.replace(answer, status=failure if np.isfinite(answer.tau).all() else Status.NON_FINITE)


def aim_of(request: Request, method: Method, last: Array) -> tuple[Array, Array]:
    """Torques (na) or none (0) and forces in the world (n, 3) or none (0, 3) that the selection aims at. last: the last forces
    of today's contacts"""
    if method.wanted is None:
        return NOTHING, NO_FORCES
    tau, force = (None, None) if request.guess is None else (request.guess.tau, last)
    wanted = method.wanted(tau, force, request.preferred)
    if wanted is None:
        return NOTHING, NO_FORCES
    return (NOTHING, wanted) if method.of_forces else (wanted, NO_FORCES)


def _are_vectors(array: Array, n: int) -> bool:
    return type(array) is np.ndarray and array.shape == (n, 3) and array.dtype == np.float64


def _room(request: Request) -> Out:
    robot, n = request.robot, len(request.contacts.keys)
    return empty(3 * n), empty((n, 3)), empty(robot.nv), empty(robot.na)


def _prediction(request: Request, method: Method, out: Out, basis: Array, found: tuple[str, int, int, int]) -> Prediction:
    """The answer in `out`. found: name of the rung, its iterations, dimension of the choice, how `finish` ended"""
    (p, force, v_plus, tau), (name, iterations, null_dim, finished), law = out, found, request.law.name
    motion, met, complementarity, cone, penetration, slip, torque_excess, force_excess, change = method.figures.tolist()
    residuals = Residuals(motion, met, complementarity, cone, penetration, slip)
    closing, guess = method.closing.copy(), Guess(law, request.contacts.keys, basis, tau, force)
    if finished == UNSELECTED:
        name += ", unselected"
    return Prediction(  # in the order of its fields: by name it would take 0.5 µs more
        tau, force, p, request.dt, v_plus, Status.SOLVED, law, name, iterations,
        residuals, change, torque_excess, force_excess, null_dim, closing, guess,
    )  # fmt: skip
