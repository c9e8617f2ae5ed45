"""Every message of the wire, as records: schema 1.0, msgpack maps with string keys.

A message is a map with `t` (its type) and `v` (the schema version). The classes below *are* the schema: field names are
the keys on the wire, a field with a default may be left out, and a key that a client message does not know is refused.
A `Vector` is little-endian float64 `bin`, or a list of numbers; both are read, `bin` is written. Fields called
"recorded" go into the log and have no effect on the torque.

nq, nv configuration and velocity dimensions, na motors. Vectors in q and vel follow the client's `joint_names`, torque
vectors its `actuated`. World frame unless a comment says otherwise. Times are integers in nanoseconds.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

SCHEMA = "1.0"
"""major.minor: another major is refused, another minor of the same major is read."""

Vector = bytes | list[float]
Count = Annotated[int, msgspec.Meta(ge=0)]
"""An unsigned 64-bit integer."""

Time = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
"""[ns], with room for sums in 64 bits."""


class Code(StrEnum):
    """Why a message was refused."""

    BAD_SCHEMA = "bad_schema"
    VERSION_MISMATCH = "version_mismatch"
    MODEL_MISMATCH = "model_mismatch"
    JOINT_MAP = "joint_map"
    NOT_CONTROLLING = "not_controlling"
    STALE_STATE = "stale_state"
    OUT_OF_ORDER = "out_of_order"
    DUPLICATE = "duplicate"
    NON_FINITE = "non_finite"
    WRONG_LENGTH = "wrong_length"
    QUATERNION_NOT_UNIT = "quaternion_not_unit"
    CONTACT_UNKNOWN = "contact_unknown"
    ESTOP = "estop"
    LATCHED_FAULT = "latched_fault"
    INTERNAL = "internal"


class WatchdogLevel(StrEnum):
    """How long the states have been missing when one arrives."""

    OK = "ok"
    WARN = "warn"  # at least one tick missed
    DEGRADED = "degraded"  # at least five
    HOLD = "hold"  # the robot has been holding its last torque, or damping
    LATCHED = "latched"  # the session is stopped until `reset`


class Part(msgspec.Struct, kw_only=True, gc=False, forbid_unknown_fields=True):
    """A map inside a client's message."""


class ClientMessage(msgspec.Struct, kw_only=True, gc=False, tag_field="t", forbid_unknown_fields=True):
    """What a client sends. Unknown keys are refused, so that a misspelt field is never silently without effect."""

    v: str = SCHEMA


class ServerPart(msgspec.Struct, kw_only=True, gc=False):
    """A map inside a server's message; later minors may add keys."""


class ServerMessage(msgspec.Struct, kw_only=True, gc=False, tag_field="t"):
    """What a server sends; later minors may add keys."""

    v: str = SCHEMA


# -- hello ------------------------------------------------------------------------------------------------------------


class Client(Part):
    name: str
    kind: Literal["robot", "sim", "replay", "shadow"]  # a shadow gets answers marked `dry_run` and never controls


class Model(Part):
    """What the client believes the robot to be; every given field must agree with the server's model."""

    nq: Count
    nv: Count
    na: Count
    total_mass: float  # [kg]
    urdf_sha256: str | None = None  # hex digest of the URDF text
    name: str | None = None


class Base(Part):
    """How the base is written in q and v. Nothing here has a default: guessing wrong makes a robot fall."""

    type: Literal["fixed", "free_flyer"]
    quat_order: Literal["xyzw"]
    vel_frame: Literal["local", "local_world_aligned"]  # base velocity, linear then angular, in body or in world axes


class SpeedTorque(Part):
    """A motor's line from stall to no-load: |τ| ≤ tau0·(1 − |v|/v0)."""

    tau0: Vector  # [N·m] (na)
    v0: Vector  # [rad/s] (na)


class ClientLimits(Part):
    """Limits of the client's hardware, all (na); the stricter of these and the server's own holds."""

    tau_max: Vector | None = None  # [N·m]
    dtau_max: Vector | None = None  # [N·m/s]
    q_min: Vector | None = None  # [rad]
    q_max: Vector | None = None  # [rad]
    v_max: Vector | None = None  # [rad/s]
    speed_torque: SpeedTorque | None = None


class Hello(ClientMessage, tag="hello"):
    client: Client
    model: Model
    joint_names: list[str]  # every moving joint except the floating base, in the order of q and v
    actuated: list[str]  # joints with a motor, in the order of every torque vector
    base: Base
    dt_nominal: float  # [s]
    limits: ClientLimits | None = None
    contact_frames: list[str] | None = None  # frames that `state.contacts` will name
    mu: float | None = None  # friction coefficient of contacts that give none
    clock: Literal["monotonic_ns"] = "monotonic_ns"  # what t_robot and t_send count


class EffectiveLimits(ServerPart):
    """The limits in force, all (na), in the order of `actuated`; inf where there is none."""

    tau_max: Vector  # [N·m]
    dtau_max: Vector  # [N·m/s]
    q_min: Vector  # [rad]
    q_max: Vector  # [rad]
    v_max: Vector  # [rad/s]
    tau0: Vector  # |τ| ≤ tau0·(1 − |v|/v0) [N·m]
    v0: Vector  # [rad/s]


class Welcome(ServerMessage, tag="welcome"):
    session: Count  # to be repeated in every later message
    server: str  # name and version
    dry_run: bool  # true for a shadow: its torques must not be applied
    limits: EffectiveLimits
    watchdog_ms: float  # no state for so long: hold
    latch_ms: float  # no state for so long: latched until `reset`
    deadline_us: float  # the server answers within this time
    max_state_age_ms: float  # older states are refused
    mode: Literal["ok", "latched"]  # initial mode
    model_name: str
    urdf_sha256: str
    joint_names: list[str]  # in the server's own order
    contact_frames: list[str]
    controller: dict[str, Any]  # the settings in use


# -- state ------------------------------------------------------------------------------------------------------------


class Imu(Part):
    quat: Vector  # xyzw (4)
    gyro: Vector  # [rad/s], sensor frame (3)
    acc: Vector  # [m/s²], sensor frame (3)


class Contact(Part):
    """A measured contact, with p and n; or a foot switch, without both: then the server takes the place from q and the ground
    that it believes in, with dist = 0 whatever height q says. A list of all feet says of each with `active` whether it touches.
    """

    frame: str  # a contact place of the robot, or of a measured contact any frame of its model
    p: Vector | None = None  # contact point [m] (3)
    n: Vector | None = None  # unit normal, from the environment into the robot (3)
    active: bool = True  # it touches; otherwise it is left out
    t1: Vector | None = None  # unit tangent (3), any if absent
    t2: Vector | None = None  # n × t1 (3)
    mu: float | None = None  # friction coefficient ≥ 0
    mu_visc: float | None = None  # [N·s/m], recorded
    dist: float = 0.0  # gap, negative when penetrating [m]
    f_sensed: Vector | None = None  # force on the robot since the last state, world axes [N] (3), for the law `sensed`
    sensed_valid: bool = False  # f_sensed was measured; otherwise it is recorded only


class Reference(Part):
    """Where the motors should be, each (na)."""

    q: Vector  # [rad]
    v: Vector  # [rad/s]
    a: Vector  # [rad/s²]


class ExternalForce(Part):
    frame: str
    wrench: Vector  # force [N], moment [N·m], world axes (6)


class Stance(Part):
    """What a gait planner intends with one contact frame."""

    frame: str
    stance: bool  # standing now
    time_to_switch: float  # [s]


class Flags(Part):
    estop: bool = False  # damp at once; stays so until `reset`
    dry_run: bool = False  # the client will not apply the answer; it is marked so


class StateMessage(ClientMessage, tag="state"):
    q: Vector  # [m, xyzw, rad] (nq)
    vel: Vector  # [m/s, rad/s] (nv)
    t_robot: Time  # the robot's clock when q and v were measured
    session: Count = 0  # from `welcome`
    seq: Count = 0  # 1, 2, 3 … within a session
    t_send: Time | None = None  # the robot's clock when this message was sent
    last_applied_seq: Count = 0  # whose torque the motors have now
    t_applied: Time | None = None  # t_robot of the state whose torque the motors had until now; tells the server the delay
    rtt_us: float | None = None  # measured round trip of the last exchange
    tau_applied: Vector | None = None  # what the motors really got last [N·m] (na)
    tau_meas: Vector | None = None  # [N·m] (na), recorded
    a_meas: Vector | None = None  # [m/s², rad/s²] (nv), recorded
    imu: Imu | None = None  # recorded
    contacts: list[Contact] | None = None  # absent: from the robot's geometry; empty: none
    ref: Reference | None = None  # absent: the controller's own trajectory
    schedule: list[Stance] | None = None  # recorded
    f_ext: ExternalForce | None = None  # recorded
    temp: Vector | None = None  # [°C] (na), recorded
    volt: float | None = None  # [V], recorded
    flags: Flags | None = None


# -- torque -----------------------------------------------------------------------------------------------------------


class ContactForce(ServerPart):
    """Predicted force on the robot at one contact."""

    frame: str
    fn: float  # along the normal [N]
    ft1: float  # along t1 [N]
    ft2: float  # along t2 = n × t1 [N]


class Solver(ServerPart):
    path: str  # the law that answered
    rung: str  # by which rung of the ladder
    iters: int  # pivots or QP iterations
    warm: bool  # the previous answer was at hand
    time_us: float  # the whole controller step
    res_primal: float  # cone, penetration and slip [N·s or m/s]
    res_comp: float  # complementarity [N·s or m/s]
    res_dyn: float  # dynamics [N·s, N·m·s]
    res_demand: float  # joint velocities from the demand, beyond the reported change [rad/s]
    n_contacts: int
    null_dim: int  # dimension of the contact impulses that move nothing
    demand_change: float = 0.0  # how far the consistency step moved the demanded joint velocities, max norm [rad/s]


class Comm(ServerPart):
    """Quality of the states' way to the server."""

    success_100: float  # share of the last 100 states that were answered
    lost: int  # never arrived
    late: int  # overtaken by a newer one and left unanswered
    dup: int
    out_of_order: int
    age_ms: float  # delay of this state above the smallest one seen
    clock_steps: int  # how often the client's clock was found set since hello
    rtt_p50_us: float | None  # of the round trips the client reports
    rtt_p99_us: float | None


class Watchdog(ServerPart):
    state: WatchdogLevel
    misses: int  # ticks without a state before this one
    pause_ms: float = 0.0  # of the server since the last state, in which nobody was silent


class Reality(ServerPart):
    """How far the predictions of the last answers were from what was measured since, as a running mean."""

    motion: float | None  # acceleration of the base that no prediction knew of [g]; absent for a fixed base
    force: float | None  # sum of the sensed contact forces minus the predicted, over the weight; absent without `f_sensed`


class TorqueMessage(ServerMessage, tag="torque"):
    session: Count
    seq: Count  # of the state it answers
    t_robot: int  # of that state
    t_recv: int  # server clock
    t_send: int  # server clock
    deadline_met: bool
    valid_until: int  # robot clock: until then the torque may be applied and `ref` followed on
    dry_run: bool
    tau: Vector  # [N·m] (na)
    tau_ff: Vector  # inverse-dynamics part before limits [N·m] (na)
    tau_fb: Vector  # direct feedback part before limits [N·m] (na)
    limited_by: list[int]  # bits 1 torque 2 rate 4 speed–torque 8 position 16 velocity (na)
    status: Literal["ok", "degraded", "hold", "damping", "fault"]
    message: str  # why the status is not ok, else ''
    contact_force: list[ContactForce]
    solver: Solver | None  # absent when no contact prediction stands behind the torque
    comm: Comm
    watchdog: Watchdog
    ref: Reference | None = None  # what the motors were to follow
    kp: Vector | None = None  # for the drives while no answer comes: see `transport.failsafe` [N·m/rad] (na)
    kd: Vector | None = None  # the same, on speeds [N·m·s/rad] (na)
    missing: list[str] = msgspec.field(default_factory=list)  # contact frames that are planned to stand but do not touch
    reality: Reality | None = None  # absent until there is something to compare


class ErrorMessage(ServerMessage, tag="error"):
    code: Code
    message: str
    recoverable: bool  # the next correct message will be served; else `hello` or `reset` is needed first
    field: str | None = None  # what is to blame, as in `contacts[1].mu`
    seq: int | None = None
    session: Count | None = None


# -- the rest ---------------------------------------------------------------------------------------------------------


class Stop(ClientMessage, tag="stop"):
    session: Count = 0
    reason: str = ""


class StopAck(ServerMessage, tag="stop_ack"):
    session: Count


class Reset(ClientMessage, tag="reset"):
    """Clears a latched fault or emergency stop. Refused while the robot, now at q and vel, tilts or moves too much."""

    session: Count
    q: Vector  # as in `state`
    vel: Vector  # as in `state`


class ResetAck(ServerMessage, tag="reset_ack"):
    session: Count


class Heartbeat(ClientMessage, tag="heartbeat"):
    """Keeps the session when no states are sent, for instance before the start. Does not feed the watchdog."""

    session: Count
    t_send: Time = 0


class HeartbeatAck(ServerMessage, tag="heartbeat_ack"):
    session: Count
    t_send: int  # echo
    t_recv: int  # server clock
    mode: Literal["ok", "latched"]


class ConfigGet(ClientMessage, tag="config_get"):
    pass


class ConfigSet(ClientMessage, tag="config_set"):
    """Changes controller settings; refused while a client controls."""

    settings: dict[str, Any]  # the part of `config.settings` that is to change, same nesting


class Config(ServerMessage, tag="config"):
    settings: dict[str, Any]


class StatsGet(ClientMessage, tag="stats_get"):
    pass


class Stats(ServerMessage, tag="stats"):
    received: int  # messages of all clients
    torques: int
    refused: dict[str, int]  # by error code
    deadline_misses: int
    step_us_mean: float
    step_us_max: float
    comm: Comm | None  # of the asking client's session
    fault: str | None  # why that session is latched


FromClient = Hello | StateMessage | Stop | Reset | Heartbeat | ConfigGet | ConfigSet | StatsGet
FromServer = Welcome | TorqueMessage | ErrorMessage | StopAck | ResetAck | HeartbeatAck | Config | Stats
Message = FromClient | FromServer
