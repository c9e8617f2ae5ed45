"""A law's own answer and its certificate, apart, so that the one can be spoiled before the other looks at it."""

import msgspec
import numpy as np
from oracles import full, outcome
from scenes import DT, LITERAL

from idyn.ground import ground_numbers
from idyn.laws import LAWS as TABLE
from idyn.reduction import reduce
from idyn.residuals import certify, demand_error
from idyn.types import Residuals

LAWS = tuple(law for law in TABLE if law not in ("sensed", "enumeration"))
"""Sensed forces claim nothing but dynamics; what the enumeration claims is what the Coulomb law does."""


class Answer(msgspec.Struct):
    """A law's own solution, to be spoiled: impulses, velocity, torque, multipliers of the non-penetration rows, ε."""

    p: np.ndarray
    v_plus: np.ndarray
    tau: np.ndarray
    y: np.ndarray
    epsilon: float


def answer_of(scene, law):
    terms = scene.robot.terms(scene.state.q, scene.state.v)
    reduced, _ = reduce(scene.robot, terms, scene.state, scene.contacts, scene.q_ddot, DT, LITERAL)
    _, solution = next(law.attempts(reduced, None))
    f = full(scene.robot, scene.state, scene.contacts)
    v_plus, tau = outcome(f, scene.q_ddot, DT, solution.p)
    y = np.zeros(0) if solution.multipliers is None else solution.multipliers
    return f, Answer(solution.p, v_plus, tau, y, solution.epsilon)


def certificate(scene, law, a):
    robot, c, terms = scene.robot, scene.contacts, scene.robot.terms(scene.state.q, scene.state.v)
    *numbers, impulse = certify(
        terms.M, terms.h, terms.axes, robot.parents, robot.dof_joint, robot.support, robot.u, robot.a, c.bodies, c.others,
        c.points, c.normals, c.tangents, law.conditions.value, law.directions, c.mu, law.unlimited_friction, c.gaps,
        ground_numbers(LITERAL, DT), a.y, a.epsilon, scene.state.v, np.zeros(len(a.p)), a.p, a.v_plus, a.tau, DT,
    )  # fmt: skip
    names = ("dynamics", "complementarity", "cone", "penetration", "slip")
    demand = demand_error(a.v_plus, scene.state.v, robot.a, scene.q_ddot, scene.q_ddot, 0.0, DT)
    return Residuals(demand=demand, **dict(zip(names, numbers, strict=True))), impulse
