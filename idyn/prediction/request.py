"""Arguments of one prediction, and their checks."""

import msgspec
import numpy as np

from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.terms.dynamics import checked
from idyn.terms.inputs import check_request, numbers
from idyn.types import Array, ContactSet, Guess, Kinematics, State


class Request(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Arguments of `idyn.prediction.predict.predict`."""

    robot: Robot
    state: State | Kinematics
    contacts: ContactSet
    q_ddot: Array
    law: Law
    dt: float
    options: Options
    guess: Guess | None
    applied: Array | None
    preferred: Array | None


def checked_request(request: Request) -> Request:
    """Return the request with contiguous arrays in native byte order. Raises InputError, naming the first malformed field."""
    r, n, guess, q_ddot = request, len(request.contacts.keys), request.guess, numbers("q_ddot", request.q_ddot)
    preferred = None if r.preferred is None else numbers("preferred", r.preferred)
    if guess is not None:
        law = guess.law if last_basis(r) is not None else ""  # a basis that does not fit is ignored
        tau, force = numbers("guess.tau", guess.tau), numbers("guess.force", guess.force)
        guess = msgspec.structs.replace(guess, law=law, tau=tau, force=force)
    check_request(r.robot, n, q_ddot, r.dt, guess, preferred)
    state, contacts, applied, _ = checked(r.robot, r.state, r.contacts, r.applied, None)
    return msgspec.structs.replace(
        r, state=state, contacts=contacts, q_ddot=q_ddot, guess=guess, applied=applied, preferred=preferred
    )


def last_basis(request: Request) -> Array | None:
    """Return the basis of the last tick with one row for each present contact; new contacts start open. Return None if the
    guess is the result of another law, or of settings with another type of basis."""
    guess, law = request.guess, request.law
    if guess is None or guess.law != law.name or not request.options.warm_start:
        return None
    basis, keys = guess.basis, request.contacts.keys
    if type(basis) is not np.ndarray or basis.dtype != law.basis_type or basis.shape != (len(guess.keys), law.basis_width):
        return None
    return basis if guess.keys == keys else guess.carried_over(basis, keys)
