"""The answer to a state: torques, predicted contact forces, diagnostics."""

from enum import StrEnum
from typing import Literal

import msgspec

from transport.protocol.messages.base import Count, ServerMessage, ServerPart, Vector
from transport.protocol.messages.state import Reference


class ContactForce(ServerPart):
    """Predicted force on the robot at one contact."""

    frame: str
    fn: float  # along the normal [N]
    ft1: float  # along t1 [N]
    ft2: float  # along t2 = n × t1 [N]


class Solver(ServerPart):
    """How the contact problem was solved."""

    path: str  # the law that answered
    rung: str  # the solver attempt (rung) that found the solution
    iters: int  # pivots or QP iterations
    warm: bool  # a previous answer was available as a warm start
    time_us: float  # duration of the whole controller step [µs]
    res_primal: float  # largest residual of cone, penetration and slip [N·s or m/s]
    res_comp: float  # residual of complementarity [N·s or m/s]
    res_dyn: float  # residual of the dynamics [N·s, N·m·s]
    res_demand: float  # difference of the joint velocities from the demand, beyond demand_change [rad/s]
    n_contacts: int
    null_dim: int  # dimension of the null space of the contact impulses
    demand_change: float = 0.0  # change of joint velocities by projection of the demand, max norm [rad/s]


class Comm(ServerPart):
    """Statistics of the transmission of states to the server."""

    success_100: float  # share of the last 100 states that were answered
    lost: int  # states that never arrived
    late: int  # states overtaken by a newer one, without an answer
    dup: int  # states that arrived again
    out_of_order: int  # refused for their seq or t_robot
    age_ms: float  # delay of this state above the smallest recent delay [ms]
    clock_steps: int  # detected steps of the client's clock since hello
    rtt_p50_us: float | None  # median of the round trips that the client reports [µs]
    rtt_p99_us: float | None  # 99th percentile [µs]


class WatchdogLevel(StrEnum):
    """Grade of the time without states before this one, from short to long."""

    OK = "ok"
    WARN = "warn"  # at least one tick missed
    DEGRADED = "degraded"  # at least five
    HOLD = "hold"  # the robot's failsafe has been active: posture or damping
    LATCHED = "latched"  # the session is stopped until `reset`


class Watchdog(ServerPart):
    """The watchdog of a session."""

    state: WatchdogLevel
    misses: int  # ticks without a state before this one
    pause_ms: float = 0.0  # pause of the server since the last state, while the robot sent states [ms]


ON_TIME = Watchdog(state=WatchdogLevel.OK, misses=0)


class Reality(ServerPart):
    """Model mismatch: measured minus predicted motion and force, as running means."""

    motion: float | None  # unpredicted acceleration of the base [g]; absent for a fixed base
    force: float | None  # sum of sensed minus predicted contact forces [weight of the robot]; absent without `f_sensed`


class TaskReport(ServerPart):
    """Outcome of one task of the command in force."""

    name: str  # of the task, or of its frame, joints or contacts
    level: int
    met: bool  # but for the memory of the contact forces
    missing: float  # largest |asked − predicted| of its rows [m/s², rad/s², N]


class FootEstimate(ServerPart):
    """Whether a foot touches, by the forces that the joints feel."""

    frame: str
    touches: bool
    probability: float
    slipped: bool  # it moved on the ground


class BaseEstimate(ServerPart):
    """Estimate of the base, of a robot that does not measure it. The world begins below the base, with heading 0."""

    position: list[float]  # [m] (3)
    quat: list[float]  # xyzw (4)
    vel: list[float]  # linear [m/s], then angular [rad/s], in the axes of the base (6)
    deviations: list[float]  # standard deviations of attitude [rad], velocity [m/s] and position [m] of the IMU (9)
    feet: list[FootEstimate]  # those that touch are the contacts of a state without `contacts`


class TorqueMessage(ServerMessage, tag="torque"):
    """The answer to a state."""

    session: Count
    seq: Count  # of the state it answers
    t_robot: int  # of that state
    t_recv: int  # server clock
    t_send: int  # server clock
    deadline_met: bool
    valid_until: int  # robot's clock: until then torque and `ref` may be followed
    dry_run: bool
    tau: Vector  # [N·m] (na)
    tau_ff: Vector  # inverse-dynamics part within the limits and rates of `tau` [N·m] (na), for a drive with its own feedback
    tau_fb: Vector  # tau − tau_ff [N·m] (na)
    limited_by: list[int]  # bits 1 torque, 2 rate, 4 speed–torque, 8 position, 16 velocity (na)
    status: Literal["ok", "degraded", "hold", "damping", "fault"]
    message: str  # reason for a status other than ok, and notes; else ''
    contact_force: list[ContactForce]
    solver: Solver | None  # absent without a contact prediction
    comm: Comm
    watchdog: Watchdog
    ref: Reference | None = None  # reference of the motors
    kp: Vector | None = None  # gains of the failsafe [N·m/rad] (na)
    kd: Vector | None = None  # [N·m·s/rad] (na)
    missing: list[str] = msgspec.field(default_factory=list)  # contact frames in planned stance that do not touch
    reality: Reality | None = None  # absent before the first comparison
    tasks: list[TaskReport] = msgspec.field(default_factory=list)  # of the command in force
    ff_limited: bool = False  # a limit changed tau_ff: certificate and predicted forces belong to another torque
    pose: list[float] | None = None  # reference of the base: height over the stance [m], roll, pitch [rad]; absent: stance
    estimate: BaseEstimate | None = None  # of the base, with `base.measured: imu`
