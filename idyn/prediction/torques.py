"""Predictions of the law `mujoco` under given torques: those of a controller with feedback and limits, or torque limits."""

from collections.abc import Callable
from functools import cache

import msgspec
import numpy as np

from idyn.contact.soft import SoftConstraints
from idyn.errors import InputError
from idyn.jit.compiled import FLAGS, VECTOR
from idyn.jit.entry import entry_point
from idyn.laws.mujoco.torques import joint_accelerations
from idyn.prediction.finish import WITHIN
from idyn.prediction.request import Request
from idyn.prediction.rungs import first_answer, solve
from idyn.prediction.solve import Method, workspace_for
from idyn.terms.stages import ReducedProblem
from idyn.types import Array, Demand, Prediction

MOST_ROUNDS = 30
"""Maximum number of changes of the set of joints at their torque limit. Usual: 3."""


@cache
def kernel() -> Callable[..., bool]:
    """Return `joint_accelerations`, compiled at first use."""
    return entry_point(joint_accelerations, ReducedProblem.TYPE, SoftConstraints.TYPE, VECTOR, VECTOR, FLAGS, VECTOR)


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
    limit = request.robot.limits.tau_max
    wanted, tau, held = request.q_ddot, answer.tau, np.zeros(len(answer.tau), np.bool_)
    given, best = np.zeros(len(tau)), answer
    for _ in range(MOST_ROUNDS):
        beyond = ~held & (np.abs(tau) > limit * (1.0 + WITHIN))
        surplus = np.sign(given) * (_realised(request, best) - wanted)
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


def _realised(request: Request, answer: Prediction) -> Array:
    a = request.robot.tree.a
    return (answer.v_plus[a] - request.state.v[a]) / answer.dt


def _method(request: Request) -> Method:
    return workspace_for(request.robot, len(request.contacts.keys)).method(request)


def _answer(request: Request, tau: Array, given: Array) -> Prediction | None:
    """Return the certified prediction with the dynamics of the last tick and these torques of the joints `given` (na)."""
    method, q_ddot = _method(request), np.empty(len(tau))
    if not kernel()(method.problem.fields, method.soft.fields, request.q_ddot, tau, given, q_ddot):
        return None
    change = float(np.abs(q_ddot - request.q_ddot).max(initial=0.0)) * request.dt
    answer, status = solve(request, Demand(q_ddot=q_ddot, change=change))
    if answer is None or not status.ok:
        return None
    return msgspec.structs.replace(answer, rung=f"{answer.rung}, given torques")
