"""The state of the robot, sent once per tick, and the answer to it: torques, predicted contact forces, diagnostics."""

from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from transport.protocol.messages.base import ClientMessage, Count, Name, Part, ServerMessage, ServerPart, Time, Vector

Few = msgspec.Meta(max_length=256)  # bound of contacts in a state


class Imu(Part):
    """Readings of the inertial measurement unit."""

    quat: Vector  # attitude in a world with z upwards, xyzw (4)
    gyro: Vector  # [rad/s], in the axes of the IMU (3), which the setting `estimator.imu_quat` turns into those of the base
    acc: Vector  # specific force: +9.81 upwards at rest; mean since the last state [m/s²], in the axes of the IMU (3)


class Contact(Part):
    """A measured contact (with p and n) or a foot switch (without both).

    For a foot switch the server computes the contact point from q and its own terrain, with dist = 0 whatever the height in q.
    In a list of all feet `active` marks those that touch.
    """

    frame: Name  # a contact place of the robot; for a measured contact any frame of its model
    p: Vector | None = None  # contact point [m] (3)
    n: Vector | None = None  # unit normal, from the environment into the robot (3)
    active: bool = True  # it touches; otherwise only the sensed force of a foot switch is read
    t1: Vector | None = None  # unit tangent (3); chosen by the server if absent
    t2: Vector | None = None  # n × t1 (3)
    mu: float | None = None  # friction coefficient ≥ 0
    mu_visc: float | None = None  # [N·s/m], recorded
    dist: float = 0.0  # gap, negative when penetrating [m]
    f_sensed: Vector | None = None  # force on the robot since the last state, world axes [N] (3), for the law `sensed`
    sensed_valid: bool = False  # f_sensed was measured; otherwise it is recorded only


class Reference(Part):
    """Reference of the motors, each (na)."""

    q: Vector  # [rad]
    v: Vector  # [rad/s]
    a: Vector  # [rad/s²]


class ExternalForce(Part):
    """A known external force on the robot, which the prediction takes into account."""

    frame: Name  # link or joint of the model
    wrench: Vector  # force [N] at the frame's origin, moment [N·m], world axes (6)


class Stance(Part):
    """The plan of a gait planner for one contact frame; it selects the contacts of the source `planner`."""

    frame: Name  # as in `contacts`
    stance: bool  # in stance now
    time_to_switch: float  # time to the end of this stance or swing [s]


class Flags(Part):
    """Requests that apply to this state."""

    estop: bool = False  # emergency stop: the torque damps until `reset`
    dry_run: bool = False  # the client does not apply the torque; the reply is marked `dry_run`


class StateMessage(ClientMessage, tag="state"):
    """A measured state, which is answered with a torque."""

    q: Vector  # [m, xyzw, rad] (nq); without the base (nq − 7) if the hello says `base.measured: imu`
    vel: Vector  # [m/s, rad/s] (nv); without the base (nv − 6) as for q
    t_robot: Time  # time of the measurement, robot's clock
    session: Count = 0  # from `welcome`
    seq: Count = 0  # 1, 2, 3 … within a session
    t_send: Time | None = None  # time of sending, robot's clock
    last_applied_seq: Count = 0  # seq of the state whose torque the motors apply now
    t_applied: Time | None = None  # t_robot of the state whose torque acted until now: gives the delay
    rtt_us: float | None = None  # measured round trip of the last exchange [µs]
    tau_applied: Vector | None = None  # torques that the motors applied last [N·m] (na); the rate limit counts from them
    tau_meas: Vector | None = None  # [N·m] (na); compared with the asked torque if tau_applied is absent
    a_meas: Vector | None = None  # [m/s², rad/s²] (nv), recorded
    imu: Imu | None = None  # needed with `base.measured: imu`; else recorded
    contacts: Annotated[list[Contact], Few] | None = None  # absent: from the robot's geometry; empty: no contacts
    ref: Reference | None = None  # absent: the controller's own reference
    schedule: Annotated[list[Stance], Few] | None = None  # replaces the gait's; feet that are not listed stand
    f_ext: ExternalForce | None = None
    temp: Vector | None = None  # of the motors [°C] (na); may have limits, as volt
    volt: float | None = None  # of the supply [V]
    flags: Flags | None = None


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
