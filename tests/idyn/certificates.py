"""A law's own answer and its certificate, separately, so that the answer can be spoiled in between."""

import msgspec
import numpy as np
from oracles import full, outcome
from rungs import attempts
from scenes import DT, LITERAL

from idyn import Residuals, make_law
from idyn.certificate.certify import Claim, Conditions, Demanded, Solution, certify
from idyn.contact.soft import constraints_of
from idyn.laws import LAWS as TABLE
from idyn.library.kernels import compiled
from idyn.terms.dynamics import evaluate
from idyn.terms.reduction import reduce

LAWS = tuple(law for law in TABLE if make_law(law).conditions is not Conditions.GIVEN and law != "enumeration")
"""Sensed forces claim nothing but dynamics; what the enumeration claims is what the Coulomb law does."""


class Answer(msgspec.Struct):
    """A law's own solution, to be spoiled: impulses, velocity, torque, multipliers of the non-penetration rows, ε."""

    p: np.ndarray
    v_plus: np.ndarray
    tau: np.ndarray
    y: np.ndarray
    epsilon: float


def answer_of(scene, law, ground=LITERAL):
    problem = evaluate(scene.robot, scene.state, scene.contacts, dt=DT, ground=ground)
    reduce(problem, scene.q_ddot)
    _, solution = next(attempts(law, problem, None, scene.robot))
    f = full(scene.robot, scene.state, scene.contacts)
    v_plus, tau = outcome(f, scene.q_ddot, DT, solution.p)
    return f, Answer(solution.p, v_plus, tau, solution.multipliers, solution.epsilon)


def certificate(scene, law, a, **altered):
    """`altered`: data that are not those of the scene."""
    given = evaluate(scene.robot, scene.state, scene.contacts, dt=DT, ground=LITERAL).dynamics.given
    for field, value in altered.items():
        given.own[field][:] = value
    soft = constraints_of(law.soft, scene.robot)
    claim = Claim(law.conditions.value, law.directions, law.unlimited_friction, a.y, a.epsilon, law.material, soft)
    numbers, impulse = certified(given, scene.q_ddot, claim, a.p, a.v_plus, a.tau)
    return Residuals(*numbers.tolist()), impulse


def certified(given, met, claim, p, v_plus, tau, closing=None, turning=None):
    """Residuals (6), and impulses in the world (n, 3), of a demand that is met. turning: (load (nv), moments (3n)), else 0"""
    impulse, numbers = np.empty((len(p) // 3, 3)), np.empty(6)
    closing = np.zeros(3 * len(given.ends)) if closing is None else closing
    load, moments = (np.zeros(len(v_plus)), np.zeros(len(p))) if turning is None else turning
    answer = Solution(p, v_plus, tau, load, moments, closing, impulse)
    _certify(given, Demanded(met, met, 0.0), claim, answer, numbers)
    return numbers, impulse


@compiled
def _certify(given, demanded, claim, answer, residuals):
    certify(given, demanded, claim, answer, residuals)
