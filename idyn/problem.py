"""One prediction as data: what is asked, and how to answer it."""

import numpy as np

from idyn.contact.ground import Ground
from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.terms.dynamics import Dynamics
from idyn.types import Array, Consistency, ContactSet, Guess, Record, Selection, State


class Options(Record, frozen=True):
    """Everything about a prediction besides the law: how to choose among equals, what to do with impossible demands, what the
    ground is believed to do, and whether the last tick's basis is tried first.

    bounded: where friction has no bounds and the answer asks more than the motors or the force limit give, Coulomb's law
        answers when its answer asks less
    force_limit: what a contact may carry, in weights of the robot; inf: whatever the equations allow
    """

    selection: Selection = Selection.TORQUE
    consistency: Consistency = Consistency.PROJECT
    bounded: bool = False
    force_limit: float = 20.0
    warm_start: bool = True
    ground: Ground = Ground()


class Problem(Record, frozen=True):
    """One tick's data, the same for every rung.

    dynamics: of the robot and these contacts, for predictions over dt
    q_ddot: demanded joint accelerations [rad/s²] (na)
    applied, preferred: see `idyn.prediction.predict.predict`
    """

    robot: Robot
    state: State
    contacts: ContactSet
    dynamics: Dynamics
    q_ddot: Array
    dt: float
    options: Options
    guess: Guess | None
    applied: Array | None
    preferred: Array | None


def last_basis(problem: Problem, law: Law) -> Array | None:
    """The law's last basis row by row for today's contacts; new contacts start open. None when nothing carries over: a guess of
    another law, or with settings that have another basis."""
    guess = problem.guess
    if guess is None or guess.law != law.name or not problem.options.warm_start:
        return None
    basis, width, kind = guess.basis, law.basis_width, law.basis_type
    if not isinstance(basis, np.ndarray) or basis.shape != (len(guess.keys), width) or basis.dtype != kind:
        return None
    return guess.carried_over(guess.basis, problem.contacts.keys)
