"""`predict`: what torques realise the demand, and what forces the world will exert meanwhile."""

from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.fallbacks import fall_back
from idyn.prediction.request import Request, sound_request
from idyn.prediction.rungs import first_answer
from idyn.types import Array, ContactSet, Guess, Kinematics, Prediction, State

DEFAULT = Options()


def predict(
    robot: Robot,
    state: State | Kinematics,
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

    0. kinematics: M, h and the joint axes, by Pinocchio                         `Robot.compute`
    1. validate, dynamics: J of the instant                                      `idyn.terms`
    2. under `Consistency.STICK` and `HOLD` the nearest feasible demand          `idyn.prediction.feasible`
    3. Y, b: the problem in the unactuated space                                 `idyn.terms.reduction`
    4. p: impulses that obey the law, by the law's rungs                         `idyn.laws`
    5. p: of those that do so equally well the ones that are wanted              `idyn.selection`
    6. v⁺, τ and residuals: torque and certificate                               `idyn.terms.reduction`, `idyn.certificate`
    7. without a certified answer within the limits: feasible demands, other laws `idyn.prediction.fallbacks`

    1 to 6 are one compiled call (`idyn.prediction.solve`). Raises InputError, naming the field, for data that are malformed:
    shapes, numbers that are not finite, vectors that are not of unit length. For all other data `Prediction.status` and `.rung`
    say what came of them. Pass `Prediction.guess` to the next call as its warm start.

    state: or the robot's kinematics there, which are not computed again then
    applied: generalised force that acts besides gravity, contacts and the torques asked for [N, N·m] (nv)
    preferred: contact forces that `Selection.FORCE` comes as near to as the law leaves open, in the world [N] (n, 3); none: 0
    """
    request = Request(robot, state, contacts, q_ddot, law, dt, options, guess, applied, preferred)
    first = first_answer(request) or first_answer(request := sound_request(request))
    if first is None:
        raise AssertionError("compiled code refused data that are sound")
    answer, _ = first
    if answer is not None and answer.torque_excess <= 0.0 and answer.force_excess <= 0.0:
        return answer
    return fall_back(request, first)
