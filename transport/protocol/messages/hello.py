"""The beginning of a session: what the client believes of the robot, what the server answers."""

from typing import Any, Literal

from transport.protocol.messages.base import ClientMessage, Count, Part, ServerMessage, ServerPart, Vector

ClientKind = Literal["robot", "sim", "replay", "shadow"]


class Client(Part):
    name: str
    kind: ClientKind  # a shadow gets answers marked `dry_run` and never controls


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
