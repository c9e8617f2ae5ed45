"""Inverse dynamics with contact: what torques realise the demand, and what forces the world will exert meanwhile."""

import msgspec
import numpy as np

from idyn.ground import in_contact_rows, remembered
from idyn.inputs import check
from idyn.ladder import descend
from idyn.laws.law import Law
from idyn.problem import Options, Problem
from idyn.robot import Robot
from idyn.types import Array, ContactSet, Guess, Prediction, State

DEFAULT = Options()


def predict(
    robot: Robot,
    state: State,
    contacts: ContactSet,
    q_ddot: Array,
    *,
    law: Law,
    dt: float,
    options: Options = DEFAULT,
    guess: Guess | None = None,
    applied: Array | None = None,
    preferred: Array | None = None,
) -> Prediction:
    """Torques that realise the joint accelerations `q_ddot` [rad/s²] (na) over the next `dt` [s], with the contact forces.

    Each rung of the ladder goes: terms → reduction → law → selection → torque → certificate. Raises InputError, naming the
    field, for data that are malformed: shapes, numbers that are not finite, vectors that are not of unit length. For all other
    data `Prediction.status` and `.rung` say what came of them. Pass `Prediction.guess` to the next call as its warm start.
    applied: generalised force that acts besides gravity, contacts and the torques asked for [N, N·m] (nv)
    preferred: contact forces that `Selection.FORCE` comes as near to as the law leaves open, in the world [N] (n, 3); none: 0
    """
    check(robot, state, contacts, q_ddot, dt, guess, applied, preferred)
    terms = robot.terms(state.q, state.v)
    if applied is not None:
        terms = msgspec.structs.replace(terms, h=terms.h - applied)
    if guess is None and options.ground.memory > 0.0:  # nothing to remember: the first answer is the law's own
        options = msgspec.structs.replace(options, ground=msgspec.structs.replace(options.ground, memory=0.0))
    none = np.zeros(3 * len(contacts))
    problem = Problem(
        robot=robot,
        terms=terms,
        state=state,
        contacts=contacts,
        q_ddot=q_ddot,
        dt=dt,
        options=options,
        guess=guess,
        last=remembered(contacts, guess, dt),
        preferred=none if preferred is None else in_contact_rows(preferred, contacts.tangents, contacts.normals, dt),
    )
    return descend(problem, law)
