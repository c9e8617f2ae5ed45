"""Solution of one demand from Python: one compiled call tries the law's kernels; if none is certified, the law's Python
rungs (solver attempts without a kernel) follow, with the same stages `finish`. A basis of the last tick that does not fit is
ignored."""

from collections.abc import Callable

import msgspec
import numpy as np
from numpy import empty

from idyn.laws.law import Attempt, Law, Solutions
from idyn.laws.sensed import ContactFree
from idyn.prediction.finish import (
    CHANGE,
    COMPLETE,
    REFUSED,
    UNSELECTED,
    choose_for_kernel,
    finish_solution,
    keep_forces,
)
from idyn.prediction.request import Request, last_basis
from idyn.prediction.solve import INFEASIBLE, MALFORMED, Method, workspace_for
from idyn.status import RAY, STATUSES, Status
from idyn.terms.dynamics import NO_FORCES, NOTHING
from idyn.terms.reduction import Reduced, view
from idyn.types import Array, Demand, Guess, Prediction, Residuals

Answer = tuple[Prediction | None, Status]  # a certified prediction, or None; and the status of the last rung
NO_FEASIBLE_DEMAND: Answer = None, Status.SOLVED  # the result when no feasible demand was found: the law was not tried
Out = tuple[Array, Array, Array, Array]  # output arrays: (p (3n), contact forces (n, 3), v⁺ (nv), τ (na))

FREE = ContactFree()

ANSWERED = Status.SOLVED  # the enum member as a global of this module: faster to look up


def method_of(request: Request) -> Method:
    """Return the method for the law and options of a request."""
    return workspace_for(request.robot, len(request.contacts.keys)).method(request)


def first_answer(request: Request) -> Answer | None:
    """Solve the law for the first demand: the original one, or its projection under `STICK` and `HOLD`.

    Return None if compiled code does not accept the data: malformed, not contiguous or of another byte order.
    """
    robot, guess, c, n = request.robot, request.guess, request.contacts, len(request.contacts.keys)
    preferred, applied, state = request.preferred, request.applied, request.state
    try:
        method = workspace_for(robot, n).method(request)  # without a call of `method_of`, in the path of every tick
        basis, torque, force, warm = method.empty, NOTHING, NO_FORCES, False
        if guess is not None:
            torque, force = guess.tau, guess.force
            warm, same = guess.law == request.law.name and request.options.warm_start, guess.keys == c.keys
            if not same:
                if len(force) != len(guess.keys):
                    return None
                force = guess.carried_over(force, c.keys)
            if warm and method.resumes:
                basis = guess.basis if same else guess.carried_over(guess.basis, c.keys)
        out = empty(3 * n), empty((n, 3)), empty(robot.nv), empty(robot.na)
        if state is not robot.current:
            robot.compute(state.q, state.v)
        if method.implicit:
            robot.compute_slope(state.q, state.v)
        rung, status, iterations, null_dim, finished, holds = method.tick(
            method,
            (state.q, state.v, NOTHING if applied is None else applied, request.q_ddot),
            (c.bodies, c.others, c.points, c.normals, c.tangents, c.mu, c.gaps, c.radii),
            (basis, force, torque, NO_FORCES if preferred is None else preferred),
            out,
            0 if warm else method.cold,
        )
    except (TypeError, ValueError, AttributeError, IndexError):  # wrong types for Pinocchio or compiled code
        return None
    if rung >= 0:
        if finished == UNSELECTED:
            finished, null_dim = choose_for_kernel(method.finish, (request.q_ddot,), out)
        name = (method.warm_names if warm else method.cold_names)[rung]
        next_basis = basis if holds and warm else method.basis.copy()
        return _prediction(request, method, out, next_basis, name, iterations, null_dim, finished), ANSWERED
    if rung == MALFORMED:
        return None
    if rung == INFEASIBLE:
        return NO_FEASIBLE_DEMAND
    if status == RAY:
        return None, Status.RAY
    met = Demand(q_ddot=method.problem.q_ddot.copy(), change=float(method.figures[CHANGE]))
    return _solve_in_python(request, method, met, STATUSES[status])


def verified(request: Request, method: Method, out: Out, null_dim: int) -> Prediction:
    """Return the prediction that `idyn.prediction.finish.verify` has certified. The next tick may start from the basis of the
    last one.

    out: as filled; null_dim: dimension of the choice among equivalent forces
    """
    basis = last_basis(request) if method.resumes else None
    return _prediction(request, method, out, method.empty if basis is None else basis, "verified", 0, null_dim, COMPLETE)


def solve(request: Request, demand: Demand) -> Answer:
    """Solve the law for another demand, with the dynamics of `first_answer`."""
    guess, preferred, keys = request.guess, request.preferred, request.contacts.keys
    method = method_of(request)
    basis, out, torque, force = last_basis(request), outputs(request), NOTHING, NO_FORCES
    if guess is not None:
        torque, force = guess.tau, guess.carried_over(guess.force, keys)
    warm = basis is not None and basis.shape == method.empty.shape
    start = np.array(basis if warm else method.empty)
    rung, status, iterations, null_dim, finished, _ = method.solve_again(
        method,
        (request.q_ddot, demand.q_ddot, force, torque, NO_FORCES if preferred is None else preferred),
        (start,),
        out,
        demand.change,
        0 if warm else method.cold,
    )
    if rung >= 0:
        if finished == UNSELECTED:
            finished, null_dim = choose_for_kernel(method.finish, (request.q_ddot,), out)
        name = (method.warm_names if warm else method.cold_names)[rung]
        return _prediction(request, method, out, start, name, iterations, null_dim, finished), ANSWERED
    if status == RAY:
        return None, Status.RAY
    return _solve_in_python(request, method, demand, STATUSES[status])


def _solve_in_python(request: Request, method: Method, demand: Demand, failure: Status) -> Answer:
    """Try the law's Python rungs after its kernels have failed. failure: status of the last kernel"""
    problem, basis, status = view(method.problem), last_basis(request), failure
    for solve_rung in python_rungs(request.law):
        for found in solve_rung(problem, basis):
            if found is None:
                return None, status
            name, solution = found
            status = STATUSES[solution.status]
            if status is Status.RAY:
                return None, status
            if not status.ok:
                continue
            answer = _finished(request, method, demand, name, solution)
            if answer is not None:
                return answer, Status.SOLVED
            status = Status.NOT_CERTIFIED
    return None, status


def python_rungs(law: Law) -> list[Callable[[Reduced, Array | None], Solutions]]:
    """Return the rungs of a law that have no kernel."""
    return [rung.solve for rung in law.rungs if rung.solve is not None]


def _finished(request: Request, method: Method, demand: Demand, name: str, solution: Attempt) -> Prediction | None:
    face, out, p = solution.face, outputs(request), np.ascontiguousarray(solution.p)
    arguments = (
        method.finish,
        (request.q_ddot, demand.q_ddot),
        (p, face.flags, face.directions, face.mu, face.friction, solution.multipliers),
        out,
        (demand.change, solution.epsilon),
        face.unlimited,
    )
    finished, null_dim = finish_solution(*arguments, False)
    if finished == UNSELECTED:
        finished, null_dim = finish_solution(*arguments, True)
    if finished == REFUSED:
        return None
    return _prediction(request, method, out, solution.basis, name, solution.iterations, null_dim, finished)


def last_forces(request: Request, failure: Status) -> Prediction:
    """Return the inverse dynamics with the contact impulses of the last tick. status: `failure`, or NON_FINITE"""
    request = msgspec.structs.replace(request, law=FREE)
    method, out = method_of(request), outputs(request)
    keep_forces(method.finish, (request.q_ddot, request.q_ddot), out)
    answer = _prediction(request, method, out, method.empty.copy(), "last forces", 0, 0, COMPLETE)
    return msgspec.structs.replace(answer, status=failure if np.isfinite(answer.tau).all() else Status.NON_FINITE)


def outputs(request: Request) -> Out:
    """Return output arrays for a request."""
    robot, n = request.robot, len(request.contacts.keys)
    return empty(3 * n), empty((n, 3)), empty(robot.nv), empty(robot.na)


def _prediction(
    request: Request, method: Method, out: Out, basis: Array, name: str, iterations: int, null_dim: int, finished: int
) -> Prediction:
    """Return the prediction for the arrays `out` and the method's figures.

    basis: basis for the next tick; name: name of the rung; null_dim: dimension of the choice; finished: result of `finish`
    """
    (p, force, v_plus, tau), law = out, request.law.name
    motion, met, complementarity, cone, penetration, slip, torque_excess, force_excess, change = method.figures.tolist()
    residuals = Residuals(motion, met, complementarity, cone, penetration, slip)
    closing, moment = method.closing.copy() if method.closes else NOTHING, method.moment.copy() if method.turns else NO_FORCES
    guess = Guess(law, request.contacts.keys, basis, tau, force)
    if finished == UNSELECTED:
        name += ", unselected"
    return Prediction(  # positional, in the order of its fields: keywords would take 0.5 µs more
        tau, force, p, request.dt, v_plus, ANSWERED, law, name, iterations,
        residuals, change, torque_excess, force_excess, null_dim, closing, guess, moment,
    )  # fmt: skip
