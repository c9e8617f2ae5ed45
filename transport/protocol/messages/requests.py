"""The start of a session, all other requests of a client, and the server's answers."""

from typing import Any, Literal

import msgspec

from transport.protocol.messages.base import (
    ClientMessage,
    Count,
    Frames,
    Name,
    Names,
    Part,
    ServerMessage,
    ServerPart,
    Time,
    Vector,
)
from transport.protocol.messages.command import SeenState
from transport.protocol.messages.state import Comm, Imu

ClientKind = Literal["robot", "sim", "replay", "shadow"]


class Client(Part):
    name: Name
    kind: ClientKind  # replies to a shadow are marked `dry_run`; it never controls the robot


class Model(Part):
    """The client's robot model. Every given field must agree with the server's model."""

    nq: Count
    nv: Count
    na: Count
    total_mass: float  # [kg]
    urdf_sha256: Name | None = None  # hex digest of the URDF text
    name: Name | None = None


class Base(Part):
    """Representation of the base in q and v. No field of it has a default: a wrong one makes a robot fall."""

    type: Literal["fixed", "free_flyer"]
    quat_order: Literal["xyzw"]
    vel_frame: Literal["local", "local_world_aligned"]  # base velocity, linear then angular, in body or in world axes
    measured: Literal["state", "imu"] = "state"  # imu: q and vel have no base; it is estimated from `imu` and `tau_meas`


class SpeedTorque(Part):
    """Speed–torque line of the motors: |τ| ≤ tau0·(1 − |v|/v0)."""

    tau0: Vector  # stall torque [N·m] (na)
    v0: Vector  # no-load speed [rad/s] (na)


class ClientLimits(Part):
    """Limits of the client's hardware, all (na). The stricter of these and the server's own apply."""

    tau_max: Vector | None = None  # [N·m]
    dtau_max: Vector | None = None  # [N·m/s]
    q_min: Vector | None = None  # [rad]
    q_max: Vector | None = None  # [rad]
    v_max: Vector | None = None  # [rad/s]
    speed_torque: SpeedTorque | None = None


class Hello(ClientMessage, tag="hello"):
    """Starts a session."""

    client: Client
    model: Model
    joint_names: Names  # all moving joints except the floating base, in the order of q and vel
    actuated: Names  # joints with a motor, in the order of every torque vector
    base: Base
    dt_nominal: float  # nominal period [s]
    limits: ClientLimits | None = None
    contact_frames: Frames | None = None  # frames that `state.contacts` will name
    mu: float | None = None  # default friction coefficient of contacts
    clock: Literal["monotonic_ns"] = "monotonic_ns"  # clock of t_robot and t_send


class EffectiveLimits(ServerPart):
    """The limits that apply, all (na), in the order of `actuated`; inf: no limit."""

    tau_max: Vector  # [N·m]
    dtau_max: Vector  # [N·m/s]
    q_min: Vector  # [rad]
    q_max: Vector  # [rad]
    v_max: Vector  # [rad/s]
    tau0: Vector  # |τ| ≤ tau0·(1 − |v|/v0) [N·m]
    v0: Vector  # [rad/s]


class Welcome(ServerMessage, tag="welcome"):
    """The answer to `hello`: the session has started."""

    session: Count  # below 2⁵³, for all later messages
    server: str  # name and version of the server
    dry_run: bool  # true for a shadow: its torques must not be applied
    limits: EffectiveLimits
    watchdog_ms: float  # time without states until the watchdog level is `hold` [ms]
    latch_ms: float  # time without states until the session is latched [ms]
    deadline_us: float  # time budget of an answer [µs]
    max_state_age_ms: float  # older states are refused [ms]
    mode: Literal["ok", "latched"]  # initial mode
    model_name: str
    urdf_sha256: str
    joint_names: list[str]  # in the server's own order
    contact_frames: list[str]
    controller: dict[str, Any]  # controller settings in use
    latched: str = ""  # what stops the robot until `reset`: it outlasts sessions; '' in mode `ok`


class Stop(ClientMessage, tag="stop"):
    """Ends the session. Works with any session number."""

    session: Count = 0
    reason: Name = ""


class StopAck(ServerMessage, tag="stop_ack"):
    """The answer to `stop`. With a `reason` it is the server's own goodbye: it ends, and no further state is answered."""

    session: Count
    reason: str = ""


class Reset(ClientMessage, tag="reset"):
    """Clears a latched fault or emergency stop. Refused while the robot, at q and vel, tilts or moves too much."""

    session: Count
    q: Vector  # as in `state`
    vel: Vector  # as in `state`
    imu: Imu | None = None  # with `base.measured: imu`: attitude and rate of the base


class ResetAck(ServerMessage, tag="reset_ack"):
    session: Count


class Estop(ClientMessage, tag="estop"):
    """Stops the robot: its torque damps until `reset`. Needs no session, only the role `estop`; counts from any connection."""

    name: Name = ""  # as in the server's setting `estops`; not needed with a key
    stop: bool = True  # false: only a heartbeat, see the server's setting `estop_timeout_ms`


class EstopAck(ServerMessage, tag="estop_ack"):
    stopped: bool  # the emergency stop is engaged
    reason: str  # '' if it is not
    timeout_ms: float | None  # longest time between messages of such a client [ms]


class Heartbeat(ClientMessage, tag="heartbeat"):
    """Tests the connection without a state. Neither prolongs the client's control of the robot nor resets the watchdog."""

    session: Count
    t_send: Time = 0


class HeartbeatAck(ServerMessage, tag="heartbeat_ack"):
    session: Count
    t_send: int  # of the heartbeat
    t_recv: int  # server clock
    mode: Literal["ok", "latched"]


class ConfigGet(ClientMessage, tag="config_get"):
    """Requests the controller settings."""


class ConfigSet(ClientMessage, tag="config_set"):
    """Changes controller settings. Refused while a client controls the robot."""

    settings: dict[str, Any]  # changes, nested as in `config.settings`


class Config(ServerMessage, tag="config"):
    """The controller settings in use."""

    settings: dict[str, Any]


class StatsGet(ClientMessage, tag="stats_get"):
    """Requests the server's statistics."""


class Stats(ServerMessage, tag="stats"):
    """Statistics since the start of the server."""

    received: int  # messages of all clients, valid or not
    torques: int  # torque messages computed
    refused: dict[str, int]  # by error code
    deadline_misses: int
    step_us_mean: float  # duration of a controller step [µs]
    step_us_max: float  # [µs]
    comm: Comm | None  # of the client's session, else of the last one that took control
    fault: str | None  # what stops the robot until `reset`
    others_us_mean: float = 0.0  # time for other clients per torque [µs]
    dropped: int = 0  # messages without an answer, for lack of time
    states: int = 0  # states of clients with a session, answered or not


class TickGet(ClientMessage, tag="tick_get"):
    """Requests the last tick of the controlled robot."""


class WorldForce(ServerPart):
    """Predicted force on the robot at one contact, in the world."""

    frame: str
    point: Vector  # where it acts [m] (3)
    force: Vector  # [N] (3)


class Tick(ServerMessage, tag="tick"):
    """The last tick of the controlled robot, in the server's order of the joints, for observers."""

    urdf_sha256: str  # of the server's model
    state: SeenState | None = None  # that was answered; absent while no client controls the robot
    tau: Vector | None = None  # of the answer [N·m] (na)
    contact_force: list[WorldForce] = msgspec.field(default_factory=list)  # of the answer
    imu: Imu | None = None  # of the state
    status: str = ""  # of the answer, as in `torque`; '' without a state
    message: str = ""


AnyRequest = Stop | Reset | Estop | Heartbeat | ConfigGet | ConfigSet | StatsGet | TickGet
AnyAnswer = StopAck | ResetAck | EstopAck | HeartbeatAck | Config | Stats | Tick
