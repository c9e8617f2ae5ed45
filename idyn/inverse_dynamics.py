"""Inverse dynamics with contact: what torques realise the demand, and what forces the world will exert meanwhile."""

import msgspec

from idyn.ground import remembered
from idyn.ladder import Options, Problem, descend
from idyn.laws.law import Law
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
) -> Prediction:
    """Torques that realise the joint accelerations `q_ddot` [rad/s²] (na) over the next `dt` [s], with the contact forces.

    Each rung of the ladder goes: terms → reduction → law → selection → torque → certificate. Never raises on data:
    `Prediction.status` and `.rung` say what came of it. Pass `Prediction.guess` to the next call as its warm start.
    applied: generalised force that acts besides gravity, contacts and the torques asked for [N, N·m] (nv)
    """
    terms = robot.terms(state.q, state.v)
    if applied is not None:
        terms = msgspec.structs.replace(terms, h=terms.h - applied)
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
    )
    return descend(problem, law)
