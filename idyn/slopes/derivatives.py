"""`derivatives`: how a prediction changes with the demand, the state, friction and the preferred forces."""

import numpy as np

from idyn.contact.ground import in_contact_rows
from idyn.errors import InputError
from idyn.jit.compiled import interpreted
from idyn.laws import law_of
from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.predict import DEFAULT
from idyn.selection.aim import OBJECTIVES, Near
from idyn.slopes.differentiation import Differentiation, Slope
from idyn.status import Conditions
from idyn.terms.dynamics import checked, evaluate
from idyn.terms.inputs import numbers
from idyn.types import Array, ContactSet, Guess, Kinematics, Prediction, Record, State

SUPPORTED = (Conditions.FREE, Conditions.NO_SLIP, Conditions.COULOMB, Conditions.EXACT_CONE)
"""Conditions of laws whose derivatives are known."""


class Derivatives(Record, frozen=True):
    """Result of `derivatives`.

    q_ddot: by the demanded joint accelerations (k = na)
    q: by the configuration, along its tangent; contact points, normals, gaps, v and the last tick are held (k = nv)
    v: by the velocity; the configuration, contacts and the last tick are held (k = nv)
    mu: by the friction coefficients (k = n)
    preferred: by the preferred forces in rows S, T, N of each contact (k = 3n); zero without `Selection.FORCE`
    switches: contacts and joints that are at a switch, in words. () : the derivatives are classical. Otherwise they are those
        on the side of the basis: with a switch, another direction may have other derivatives
    """

    q_ddot: Slope
    q: Slope
    v: Slope
    mu: Slope
    preferred: Slope
    switches: tuple[str, ...]

    @property
    def classical(self) -> bool:
        """Whether the prediction is differentiable here."""
        return not self.switches


def derivatives(
    robot: Robot,
    state: State | Kinematics,
    contacts: ContactSet,
    q_ddot: Array,
    answer: Prediction,
    *,
    law: Law | str,
    options: Options = DEFAULT,
    guess: Guess | None = None,
    preferred: Array | None = None,
) -> Derivatives:
    """Return the derivatives of `answer = predict(robot, state, contacts, q_ddot, …)`. The other arguments are those of that
    call.

    Raises InputError for laws without a basis (`sap`, convex programs), closed chains, and answers of another law.
    """
    law = law_of(law) if isinstance(law, str) else law
    if law.conditions not in SUPPORTED:
        raise InputError("law", f"expected a law with a basis: coulomb, no-slip, exact-cone, contact-free; got '{law.name}'")
    if robot.closures.keys:
        raise InputError("robot", "expected a robot without closed chains")
    if answer.law != law.name or not answer.status.ok:
        raise InputError("answer", f"expected a certified answer of the law '{law.name}', got {answer!r}")
    last = None if guess is None else guess.carried_over(guess.force, contacts.keys)
    plain, contacts, _, last = checked(robot, state, contacts, None, last)
    d = evaluate(robot, plain, contacts, dt=answer.dt, ground=options.ground, last=last).dynamics
    target = _target(robot, contacts, options, guess, preferred)
    found = Differentiation(robot, plain, contacts, answer, (law, options, target, numbers("q_ddot", q_ddot)), d)
    return Derivatives(
        q_ddot=found.by_demand(),
        q=found.by_place(),
        v=found.by_velocity(),
        mu=found.by_friction(),
        preferred=found.by_preferred(),
        switches=found.switches(),
    )


def _target(robot: Robot, contacts: ContactSet, options: Options, guess: Guess | None, preferred: Array | None) -> Array:
    """Return the target of the selection: forces in rows S, T, N (3n), or torques (na)."""
    objective, n = OBJECTIVES.get(options.selection), len(contacts)
    if objective is None or not objective.of_forces:
        last = objective is not None and objective.near is Near.LAST and guess is not None
        return guess.tau if last and guess is not None else np.zeros(robot.na)
    force = preferred if objective.near is Near.PREFERRED else None
    if objective.near is Near.LAST and guess is not None:
        force = guess.carried_over(guess.force, contacts.keys)
    target = np.zeros(3 * n)
    if force is not None:
        interpreted(in_contact_rows)(numbers("preferred", force), contacts.tangents, contacts.normals, 1.0, target)
    return target
