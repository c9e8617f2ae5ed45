"""What a client sends in every tick."""

from transport.protocol.messages.base import ClientMessage, Count, Part, Time, Vector


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

    frame: str  # as in `contacts`
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
