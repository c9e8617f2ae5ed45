"""The answer to a state, with all one may want to know about it."""

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
    path: str  # the law that answered
    rung: str  # by which of its rungs
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


class WatchdogLevel(StrEnum):
    """How long the states have been missing when one arrives."""

    OK = "ok"
    WARN = "warn"  # at least one tick missed
    DEGRADED = "degraded"  # at least five
    HOLD = "hold"  # the robot has been holding its last torque, or damping
    LATCHED = "latched"  # the session is stopped until `reset`


class Watchdog(ServerPart):
    state: WatchdogLevel
    misses: int  # ticks without a state before this one
    pause_ms: float = 0.0  # of the server since the last state, during which the robot did send


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
    kp: Vector | None = None  # for the drives while no answer comes: see `transport.robot.failsafe` [N·m/rad] (na)
    kd: Vector | None = None  # the same, on speeds [N·m·s/rad] (na)
    missing: list[str] = msgspec.field(default_factory=list)  # contact frames that are planned to stand but do not touch
    reality: Reality | None = None  # absent until there is something to compare
