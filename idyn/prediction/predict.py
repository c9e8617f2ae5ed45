"""`predict`: joint torques that realise a demand, and the contact forces that act meanwhile."""

from idyn.laws import law_of
from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.fallbacks import fall_back
from idyn.prediction.request import Request, checked_request
from idyn.prediction.rungs import first_answer
from idyn.prediction.torques import within_limits
from idyn.types import Array, ContactSet, Guess, Kinematics, Prediction, State

DEFAULT = Options()


def predict(
    robot: Robot,
    state: State | Kinematics,
    contacts: ContactSet,
    q_ddot: Array,
    *,
    law: Law | str,
    dt: float,
    options: Options = DEFAULT,
    guess: Guess | None = None,
    applied: Array | None = None,
    preferred: Array | None = None,
) -> Prediction:
    """Predict the torques that realise the joint accelerations `q_ddot` [rad/s²] (na) over `dt` [s], and the contact forces.

    0. kinematics: M, h and the joint axes, by Pinocchio                         `Robot.compute`
    1. validate, dynamics: contact Jacobian J                                    `idyn.terms`
    2. for `Consistency.STICK` and `HOLD`: nearest feasible demand               `idyn.prediction.feasible`
    3. Y, b: reduced problem in the unactuated space                             `idyn.terms.reduction`
    4. p: impulses that obey the law, by its rungs                               `idyn.laws`
    5. p: choice among equivalent impulses                                       `idyn.selection`
    6. v⁺, τ and residuals: torque and certificate                               `idyn.terms.reduction`, `idyn.certificate`
    7. without a certified solution within the limits: feasible demands, other laws `idyn.prediction.fallbacks`
    8. with `Options.outcomes`: whether other motions are possible under τ          `idyn.prediction.uniqueness`

    Steps 1 to 6 are one compiled call (`idyn.prediction.solve`). Failures are reported in `Prediction.status` and `.rung`.

    state: measured state, or `Robot.terms` of it, which saves step 0
    contacts: contacts at this state
    law: contact law, see `make_law`; or its name, for the law with default settings
    guess: `Prediction.guess` of the last tick, for the warm start
    applied: generalised force in addition to gravity, contacts and joint torques [N, N·m] (nv)
    preferred: target forces of `Selection.FORCE`, in the world, components of at most 1e9 N (n, 3); without: 0

    Lists of numbers and arrays of narrower types (float32) are accepted; float64 arrays save their conversion. Raises
    InputError, naming the field, for malformed data: wrong shape or type, NaN or infinite, not normalised, repeated keys.
    """
    known = law_of(law) if isinstance(law, str) else law
    request = Request(robot, state, contacts, q_ddot, known, dt, options, guess, applied, preferred)
    first = first_answer(request) or first_answer(request := checked_request(request))
    if first is None:
        raise AssertionError("compiled code rejected checked data")
    answer, _ = first
    if answer is not None and answer.torque_excess > 0.0 and known.takes_torques:
        answer = within_limits(request, answer)
    elif answer is None or answer.torque_excess > 0.0 or answer.force_excess > 0.0:
        answer = fall_back(request, first)
    if options.outcomes:
        from idyn.prediction.uniqueness import with_outcomes  # noqa: PLC0415 - loads SciPy's optimisers, 0.1 s

        answer = with_outcomes(request, answer)
    return answer
