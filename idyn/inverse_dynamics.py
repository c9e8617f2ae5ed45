"""Inverse dynamics with contact: what torques realise the demand, and what forces the world will exert meanwhile."""

import msgspec
import numpy as np

from idyn.dynamics import evaluate, kept, remember
from idyn.ground import in_contact_rows, remembered
from idyn.inputs import check_request
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
    n, ground = len(contacts.keys), options.ground
    check_request(robot, n, q_ddot, dt, guess, preferred)
    if guess is None and ground.memory > 0.0:  # nothing to remember: the first answer is the law's own
        ground = msgspec.structs.replace(ground, memory=0.0)
        options = msgspec.structs.replace(options, ground=ground)
    dynamics = evaluate(robot, state, contacts, dt=dt, ground=ground, applied=applied, into=kept(robot, n))
    dynamics.asked[:] = q_ddot
    if guess is not None:
        remember(dynamics.fields, remembered(guess, contacts.keys))
    wish = np.zeros(3 * n)
    if preferred is not None:
        in_contact_rows(preferred, contacts.tangents, contacts.normals, dt, wish)
    problem = Problem(
        robot=robot,
        contacts=contacts,
        dynamics=dynamics,
        q_ddot=q_ddot,
        dt=dt,
        options=options,
        guess=guess,
        preferred=wish,
    )
    return descend(problem, law)
