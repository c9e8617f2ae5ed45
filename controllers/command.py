"""What goes into a controller step besides state and contacts, and what comes out."""

from enum import IntFlag, StrEnum

from controllers.drive import DriveGains
from idyn.types import Array, Prediction, Record


class Mode(StrEnum):
    """What the torque is: the answer, a certified substitute, or a safe stop."""

    OK = "ok"
    DEGRADED = "degraded"
    HOLD = "hold"
    DAMPING = "damping"
    FAULT = "fault"


class LimitedBy(IntFlag):
    """Why a joint's torque is not what the law asked for."""

    TORQUE = 1
    RATE = 2
    SPEED_TORQUE = 4
    POSITION = 8
    VELOCITY = 16


class Schedule(Record, frozen=True):
    """What a gait planner intends with each contact place of the robot.

    stance: whether it is to stand now (n)
    time_to_switch: until that changes, inf when it will not [s] (n)
    """

    stance: Array
    time_to_switch: Array


class Reference(Record, frozen=True):
    """Where the actuated joints should be: q [rad], v [rad/s], a [rad/s²], each (na).

    schedule: which feet are to stand; None: all, always
    problem: what is wrong with it, '' when nothing is
    base: velocity that the base is to have, forward, left [m/s], turn [rad/s] (3); None: none
    """

    q: Array
    v: Array
    a: Array
    schedule: Schedule | None = None
    base: Array | None = None
    problem: str = ""


class Inputs(Record, frozen=True):
    """What a tick brings besides state and contacts.

    dt: measured period [s]; 0 on the first tick: nothing is known of the time before
    tau_applied: what the motors really got last, from where the rate limit counts [N·m] (na), None when unknown
    reference: replaces the controller's own trajectory when given
    sensed_force: measured on the robot since the last tick, in the world frame, one row per contact of this tick [N] (n, 3)
    estop: damp at once
    delay: from this tick's measurement until its torque takes effect, beyond the same tick [s]
    """

    dt: float
    tau_applied: Array | None = None
    reference: Reference | None = None
    sensed_force: Array | None = None
    estop: bool = False
    delay: float = 0.0


class Disagreement(Record, frozen=True):
    """By how much the world has lately been otherwise than predicted: see `controllers.monitor.reality`.

    motion: acceleration that no prediction knew of [g]; None where none can be told
    force: sum of the sensed contact forces minus that of the predicted ones, over the weight; None where none are sensed
    problem: what is wrong, in words, '' when the model describes the world
    """

    motion: float | None
    force: float | None
    problem: str = ""


class Command(Record, frozen=True):
    """What the motors are to do.

    tau: torque after the controller's limits (a gate of the server's comes after it) [N·m] (na)
    tau_ff, tau_fb: its inverse-dynamics part and its direct feedback part, before limits [N·m] (na)
    limited_by: `LimitedBy` bits (na)
    mode: what kind of answer this is
    prediction: the contact prediction behind it, None when there is none
    message: why the mode is not OK, else ''
    reference: what the joints were to follow, None when nothing was followed
    missing: contact places that are planned to stand but do not touch
    drive: gains with which the drives may follow `reference` on while no answer comes, None: they may not
    reality: how far the predictions before were from what was measured, None when there was nothing to compare
    """

    tau: Array
    tau_ff: Array
    tau_fb: Array
    limited_by: Array
    mode: Mode
    prediction: Prediction | None
    message: str = ""
    reference: Reference | None = None
    missing: tuple[str, ...] = ()
    drive: DriveGains | None = None
    reality: Disagreement | None = None
