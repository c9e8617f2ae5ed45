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
    """How the torque of a command was computed."""

    OK = "ok"  # by the configured law, within all limits
    DEGRADED = "degraded"  # with a problem that `Command.message` names, e.g. a fallback law or a model mismatch
    HOLD = "hold"  # the last torque again, because no prediction was available
    DAMPING = "damping"  # joint damping, because no prediction was available or after an emergency stop
    FAULT = "fault"  # joint damping, because the state exceeds a safety limit


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
    """Reference motion of the actuated joints."""

    q: Array  # [rad] (na)
    v: Array  # [rad/s] (na)
    a: Array  # [rad/s²] (na)
    schedule: Schedule | None = None  # which feet are planned to stand; None: all of them, all the time
    base: Array | None = None  # reference velocity of the base, forward, left [m/s], turn [rad/s] (3); None: not specified
    # reference height of the base relative to its stance [m], roll, pitch [rad] (3); None: as in the stance
    pose: Array | None = None
    problem: str = ""  # what is wrong with the reference; empty if it is valid
    # tasks that replace the joint feedback, q is then the posture of the last level; None: no tasks
    tasks: TaskStack | None = None
    # whether the motion may drag and lift what touches the ground, as that of a lying robot does; otherwise the demand is
    # treated as configured (`consistency`)
    drags: bool = False


class Inputs(msgspec.Struct, kw_only=True, eq=False, gc=False):
    """Inputs of a tick besides state and contacts. Mutable: a server fills one record from message to tick."""

    dt: float  # measured period [s]; 0 on the first tick, when there is no previous one
    # torque that the motors applied last; the rate limit bounds the change from it [N·m] (na); None: unknown
    tau_applied: Array | None = None
    # torque that was measured at the joints since the last tick [N·m] (na); None: not measured
    tau_measured: Array | None = None
    temperature: Array | None = None  # of the motors [°C] (na); None: not measured
    voltage: float | None = None  # of the supply [V]; None: not measured
    doubt: str = ""  # why the state may be wrong; the mode becomes degraded; empty without doubt
    reference: Reference | None = None  # replaces the own trajectory of the controller; None: the trajectory is used
    # which feet are planned to stand; replaces that of the reference; None: as the reference plans
    schedule: Schedule | None = None
    applied: Array | None = None  # known external forces, as a generalised force [N, N·m] (nv); None: none
    # contact forces on the robot, measured since the last tick, world frame, one row per contact of this tick [N] (n, 3); None:
    # not measured
    sensed_force: Array | None = None
    steering: Steering | None = None  # commanded motion of the base, which the trajectory follows from now on; None: no command
    # tasks instead of the joint feedback, beside those of the reference, which stays as the last posture; None: no tasks
    tasks: TaskStack | None = None
    estop: str = ""  # why the emergency stop is engaged, which commands joint damping immediately; empty if it is not
    delay: float = 0.0  # actuation delay: time by which the torque of this tick takes effect later than without delay [s]
    # whether the motors were asked for the torque of the tick one delay ago, and not for one of the own side of the robot;
    # None: it is not known, nor is the delay
    follows: bool | None = True

    @property
    def lifted(self) -> tuple[str, ...]:
        """Return the contacts that the tasks ask to be open."""
        return () if self.tasks is None else tuple(key for key, mode in self.tasks.modes.items() if mode == ContactMode.OPEN)


class Mismatch(Record, frozen=True):
    """Difference between measured and predicted motion and force, averaged over time; see `controllers.monitor.reality`."""

    motion: float | None  # acceleration that the model does not explain [g]; None if every degree of freedom has a motor
    force: float | None  # |Σ sensed − Σ predicted contact force| over the weight [–]; None without force sensors
    problem: str = ""  # message for the operator; empty while the mismatch is within its limits


class Command(Record, frozen=True):
    """Motor torques of a tick and how they were computed."""

    tau: Array  # after the limits of the controller; the torque gate of the server comes after them [N·m] (na)
    tau_ff: Array  # feed-forward part, before limits [N·m] (na)
    tau_fb: Array  # feedback part, before limits [N·m] (na)
    limited_by: Array  # `LimitedBy` bits (na)
    mode: Mode  # how the torque was computed
    prediction: Prediction | None  # from which the torque was computed; None if there is none
    message: str = ""  # why the mode is not OK; empty if it is
    reference: Reference | None = None  # reference motion of this tick; None if the tick ended before one was computed
    missing: tuple[str, ...] = ()  # keys of contacts that are planned to stand but do not touch
    # gains with which the drives may follow `reference` while replies are missing; None: they must not
    drive: DriveGains | None = None
    reality: Mismatch | None = None  # mismatch between earlier predictions and measurements; None until there is one to compare
    outcomes: tuple[TaskOutcome, ...] = ()  # of the tasks of `Reference.tasks` and `Inputs.tasks`
