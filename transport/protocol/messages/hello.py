"""The start of a session: description of client and robot, and the server's answer."""

from typing import Any, Literal

from transport.protocol.messages.base import ClientMessage, Count, Frames, Name, Names, Part, ServerMessage, ServerPart, Vector

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
