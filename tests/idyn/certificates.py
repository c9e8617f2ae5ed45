"""A law's own answer and its certificate, apart, so that the one can be spoiled before the other looks at it."""

import msgspec
import numpy as np
from oracles import full, outcome
from scenes import DT, LITERAL

from idyn.certificate.certify import Claim, certify
from idyn.laws import LAWS as TABLE
from idyn.laws import make_law
from idyn.status import Conditions
from idyn.terms.dynamics import evaluate
from idyn.terms.reduction import reduce
from idyn.types import Residuals

LAWS = tuple(law for law in TABLE if make_law(law).conditions is not Conditions.GIVEN and law != "enumeration")
"""Sensed forces claim nothing but dynamics; what the enumeration claims is what the Coulomb law does."""


class Answer(msgspec.Struct):
    """A law's own solution, to be spoiled: impulses, velocity, torque, multipliers of the non-penetration rows, ε."""

    p: np.ndarray
    v_plus: np.ndarray
    tau: np.ndarray
    y: np.ndarray
    epsilon: float


def answer_of(scene, law):
    reduced = reduce(evaluate(scene.robot, scene.state, scene.contacts, dt=DT, ground=LITERAL), scene.q_ddot)
    _, solution = next(law.attempts(reduced, None))
    f = full(scene.robot, scene.state, scene.contacts)
    v_plus, tau = outcome(f, scene.q_ddot, DT, solution.p)
    y = np.zeros(0) if solution.multipliers is None else solution.multipliers
    return f, Answer(solution.p, v_plus, tau, y, solution.epsilon)


def certificate(scene, law, a, **altered):
    """`altered`: data that are not those of the scene."""
    dynamics = evaluate(scene.robot, scene.state, scene.contacts, dt=DT, ground=LITERAL)
    impulse, numbers = np.empty((len(scene.contacts), 3)), np.empty(6)
    for field, value in altered.items():
        getattr(dynamics, field)[:] = value
    claim = Claim(law.conditions.value, law.directions, law.unlimited_friction, a.y, a.epsilon, law.material)
    dynamics.asked[:] = dynamics.met[:] = scene.q_ddot
    certify(dynamics.fields, claim, 0.0, a.p, a.v_plus, a.tau, impulse, numbers)
    return Residuals(*numbers.tolist()), impulse
