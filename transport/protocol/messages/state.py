"""The state of the robot, sent once per tick."""

from typing import Annotated

import msgspec

from transport.protocol.messages.base import ClientMessage, Count, Name, Part, Time, Vector

Few = msgspec.Meta(max_length=256)
"""Bound of contacts in a state."""


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
