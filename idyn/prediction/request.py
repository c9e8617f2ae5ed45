"""What is asked of one prediction, and its checks."""

import msgspec
import numpy as np

from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.terms.dynamics import sound
from idyn.terms.inputs import check_request
from idyn.types import Array, ContactSet, Guess, Kinematics, State


class Request(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The arguments of `idyn.prediction.predict.predict`."""

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


def sound_request(request: Request) -> Request:
    """The same with contiguous arrays of this machine's byte order. Raises InputError naming the first malformed field."""
    r, n, guess = request, len(request.contacts.keys), request.guess
    check_request(r.robot, n, r.q_ddot, r.dt, guess, r.preferred)
    state, contacts, applied, _ = sound(r.robot, r.state, r.contacts, r.applied, None)
    if guess is not None:
        law = guess.law if last_basis(r) is not None else ""  # a basis that does not fit is nowhere to begin
        guess = msgspec.structs.replace(guess, law=law, tau=_plain(guess.tau), force=_plain(guess.force))
    preferred = None if r.preferred is None else _plain(r.preferred)
    return msgspec.structs.replace(
        r, state=state, contacts=contacts, q_ddot=_plain(r.q_ddot), guess=guess, applied=applied, preferred=preferred
    )


def last_basis(request: Request) -> Array | None:
    """The law's last basis, a row for each of today's contacts; new ones start open. None when nothing carries over: a guess of
    another law, or with settings that have another basis."""
    guess, law = request.guess, request.law
    if guess is None or guess.law != law.name or not request.options.warm_start:
        return None
    basis, keys = guess.basis, request.contacts.keys
    if type(basis) is not np.ndarray or basis.dtype != law.basis_type or basis.shape != (len(guess.keys), law.basis_width):
        return None
    return basis if guess.keys == keys else guess.carried_over(basis, keys)


def _plain(array: Array) -> Array:
    return np.array(array, np.float64, order="C")
