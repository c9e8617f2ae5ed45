"""Inputs and outputs of a controller step, besides state and contacts."""

from enum import IntFlag, StrEnum

import msgspec
import numpy as np

from controllers.config.loading import Pattern
from controllers.robot.damping import DriveGains
from idyn.tasks.outcomes import TaskOutcome
from idyn.tasks.stack import Mode as ContactMode
from idyn.tasks.stack import TaskStack
from idyn.types import Array, Prediction, Record


class Mode(StrEnum):
    """How the torque of a command was computed.

    OK: by the configured law, within all limits
    DEGRADED: computed, but with a problem that `Command.message` names, e.g. a fallback law or a model mismatch
    HOLD: the last torque again, because no prediction was available
    DAMPING: joint damping, because no prediction was available or after an emergency stop
    FAULT: joint damping, because the state exceeds a safety limit
    """

    OK = "ok"
    DEGRADED = "degraded"
    HOLD = "hold"
    DAMPING = "damping"
    FAULT = "fault"


class LimitedBy(IntFlag):
    """Which limits changed the torque of a joint (bits)."""

    TORQUE = 1
    RATE = 2
    SPEED_TORQUE = 4
    POSITION = 8
    VELOCITY = 16


class Schedule(Record, frozen=True):
    """Planned stance and swing of each contact sphere of the robot."""

    stance: Array  # whether the sphere is planned to be in contact now (n)
    time_to_switch: Array  # time until `stance` changes, inf if it does not [s] (n)


class GaitChange(Record, frozen=True):
    """Commanded gait; None: as configured. Fields as in `controllers.planners.gait.GaitSettings`."""

    pattern: Pattern | None = None
    period: float | None = None
    duty: float | None = None
    step_height: float | None = None


class Steering(Record, frozen=True):
    """What the base is commanded to do."""

    # of the base, followed by the gait: forward, left [m/s], turn [rad/s] (3); None: the gait follows its path, or the last
    # velocity
    velocity: Array | None = None
    height: float | None = None  # of the base, relative to its stance [m]; None: as in the stance
    attitude: Array | None = None  # roll, pitch [rad] (2); None: as in the stance
    gait: GaitChange | None = None  # pattern and timing of the steps; None: as configured

    @property
    def posed(self) -> bool:
        """Whether height or attitude are commanded."""
        return self.height is not None or self.attitude is not None

    @property
    def pose(self) -> Array:
        """Height [m], roll, pitch [rad] (3)."""
        roll, pitch = (0.0, 0.0) if self.attitude is None else self.attitude
        return np.array([self.height or 0.0, roll, pitch])


class Reference(Record, frozen=True):
    """Reference motion of the actuated joints: q [rad], v [rad/s], a [rad/s²], each (na).

    schedule: which feet are planned to stand; None: all of them, all the time
    base: reference velocity of the base, forward, left [m/s], turn [rad/s] (3); None: not specified
    pose: reference height of the base relative to its stance [m], roll, pitch [rad] (3); None: as in the stance
    problem: what is wrong with the reference; '' if it is valid
    tasks: tasks that replace the joint feedback, q is then the posture of the last level; None: no tasks
    drags: whether the motion may drag and lift what touches the ground, as that of a lying robot does; otherwise the demand is
        treated as configured (`consistency`)
    """

    q: Array
    v: Array
    a: Array
    schedule: Schedule | None = None
    base: Array | None = None
    pose: Array | None = None
    problem: str = ""
    tasks: TaskStack | None = None
    drags: bool = False


class Inputs(msgspec.Struct, kw_only=True, eq=False, gc=False):
    """Inputs of a tick besides state and contacts. Mutable: a server fills one record from message to tick.

    dt: measured period [s]; 0 on the first tick, when there is no previous one
    tau_applied: torque that the motors applied last; the rate limit bounds the change from it [N·m] (na); None: unknown
    tau_measured: torque that was measured at the joints since the last tick [N·m] (na); None: not measured
    temperature: of the motors [°C] (na); None: not measured
    voltage: of the supply [V]; None: not measured
    doubt: why the state may be wrong; the mode becomes degraded; '' without doubt
    reference: replaces the controller's own trajectory; None: the trajectory is used
    schedule: which feet are planned to stand; replaces that of the reference; None: as the reference plans
    applied: known external forces, as a generalised force [N, N·m] (nv); None: none
    sensed_force: contact forces on the robot, measured since the last tick, world frame, one row per contact of this tick [N]
        (n, 3); None: not measured
    steering: commanded motion of the base, which the trajectory follows from now on; None: no command
    tasks: tasks instead of the joint feedback, beside those of the reference, which stays as the last posture; None: no tasks
    estop: why the emergency stop is engaged, which commands joint damping immediately; '' if it is not
    follows: whether the motors were asked for the torque of the tick one delay ago, and not for one of the robot's own side;
        None: it is not known, nor is the delay
    delay: actuation delay: time by which the torque of this tick takes effect later than without delay [s]
    """

    dt: float
    tau_applied: Array | None = None
    tau_measured: Array | None = None
    temperature: Array | None = None
    voltage: float | None = None
    doubt: str = ""
    reference: Reference | None = None
    schedule: Schedule | None = None
    applied: Array | None = None
    sensed_force: Array | None = None
    steering: Steering | None = None
    tasks: TaskStack | None = None
    estop: str = ""
    delay: float = 0.0
    follows: bool | None = True

    @property
    def lifted(self) -> tuple[str, ...]:
        """Return the contacts that the tasks ask to be open."""
        return () if self.tasks is None else tuple(key for key, mode in self.tasks.modes.items() if mode == ContactMode.OPEN)


class Mismatch(Record, frozen=True):
    """Difference between measured and predicted motion and force, averaged over time; see `controllers.monitor.reality`.

    motion: acceleration that the model does not explain [g]; None if every degree of freedom has a motor
    force: |Σ sensed − Σ predicted contact force| over the weight [–]; None without force sensors
    problem: message for the operator; '' while the mismatch is within its limits
    """

    motion: float | None
    force: float | None
    problem: str = ""


class Command(Record, frozen=True):
    """Motor torques of a tick and how they were computed.

    tau: torque after the controller's limits; the server's torque gate comes after them [N·m] (na)
    tau_ff, tau_fb: feed-forward and feedback part, before limits [N·m] (na)
    limited_by: `LimitedBy` bits (na)
    mode: how the torque was computed
    prediction: prediction from which the torque was computed; None if there is none
    message: why the mode is not OK; '' if it is
    reference: reference motion of this tick; None if the tick ended before one was computed
    missing: keys of contacts that are planned to stand but do not touch
    drive: gains with which the drives may follow `reference` while replies are missing; None: they must not
    reality: mismatch between earlier predictions and measurements; None until there is one to compare
    outcomes: of the tasks of `Reference.tasks` and `Inputs.tasks`
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
    reality: Mismatch | None = None
    outcomes: tuple[TaskOutcome, ...] = ()
