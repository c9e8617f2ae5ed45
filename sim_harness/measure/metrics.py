"""Figures of a run, computed from its trace  [ZD §7–8; MATHEMATICS §10]."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np

from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Terrain
from idyn.model.robot import Robot
from idyn.model.so3 import yaw
from idyn.types import Array
from sim_harness.measure.fall import base_tilt, risen
from sim_harness.measure.trace import Trace
from sim_harness.measure.verdict import Task, Verdict, judge
from sim_harness.world.world import contact_jacobian

SETTLED = 5
"""Number of ticks at the start of a run that force errors and torque rates omit, because the world comes to rest in them."""

STRIDE = 10
"""Forces of single contacts are compared in every tick with an index divisible by this; each comparison needs a Jacobian."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a run; NaN where a figure is undefined.

    torque: mean |τ| [N·m]; torque_rate, torque_rate_max: mean and max |dτ/dt| [N·m/s]
    """

    label: str  # of the run, usually the law
    engine: str  # of the simulated world
    seconds: float  # simulated time [s]
    verdict: Verdict  # how the run ended; a run in lock-step, and so `seconds`, ends at a fall
    height: float  # final height of the base [m]
    tilt: float  # largest tilt of the base from upright [rad]
    drift: float  # horizontal displacement of the base at the end [m]
    distance: float  # travelled by the base in the plane [m]; height, tilt, drift and distance are 0 for a fixed base
    # forward, left, turn: mean velocity of the base in its own level frame in the second half of the run [m/s, m/s, rad/s]
    forward: float
    left: float
    turn: float
    # tracking, speed_tracking: mean |θ − θ_ref| [rad] and |θ̇ − θ̇_ref| [rad/s] over time and the joints that follow a
    # reference, without gripping joints
    tracking: float
    speed_tracking: float
    risen: float  # time after which a robot that had to get up stood to the end [s]; NaN if it did not, or others
    last_tracking: float  # as tracking, in the last second
    torque: float
    torque_rate: float
    torque_rate_max: float
    weight: float  # m g [N]
    force: float  # mean Σ f_N of the simulator [N]
    force_error: float  # mean |Σ f_N predicted − Σ f_N simulated| [N]
    force_error_relative: float  # force_error divided by the mean simulated Σ f_N
    contact_force_error: float  # mean error of a single normal force [N], without the null-space part of the impulses
    path_error: float  # mean distance of the centre of mass from the path in the plane [m]
    modes: dict[str, float]  # share of the ticks in each mode of the reply or the failsafe
    substituted: float  # share of the ticks that another law than the controller's answered
    told: float  # share of the loaded contacts for which there was a prediction, NaN without loaded contacts
    # step_p50, step_p99, step_max: run time of the controller's step [µs], None if the replies do not have it
    step_p50: float | None
    step_p99: float | None
    step_max: float | None
    # round_trip_p50, round_trip_p99: time from sending the state to receiving the torque [µs], None if it was not measured
    round_trip_p50: float | None
    round_trip_p99: float | None
    late: int  # number of replies that took longer than a period
    punctual: float  # share of the ticks that were answered within the period
    pace: float  # simulated time over wall-clock time, 1 in real time; NaN for a run of one tick
    longest_tick: float  # in wall-clock time [s]

    @property
    def upright(self) -> bool:
        """Whether the figures are those of a whole run, without a fall, refusal or stop."""
        return self.verdict.upright


def summarise(trace: Trace, robot: Robot, task: Task, *, label: str, engine: str, ticks: int, dt: float) -> Summary:
    """Return the figures of a run. ticks: planned number of periods; dt: period [s]"""
    base = trace.q[:, :7] if robot.floating else np.zeros((len(trace), 7))
    following = np.array([name not in task.gripping for name in robot.joint_names])
    off = np.abs(tracking_errors(trace, robot))[:, following]
    rate = np.abs(np.diff(trace.tau, axis=0))[SETTLED:] / dt
    predicted, simulated = normal_forces(trace)
    error = _mean(np.abs(predicted - simulated)[SETTLED:])
    force = _mean(simulated)
    ticking, corners = np.diff(trace.wall), task.reference.corners
    forward, left, turn = mean_velocity(base[len(base) // 2 :], dt)
    stepped, timed = _finite(trace.solve_time) * 1e6, _finite(trace.round_trip) * 1e6
    return Summary(
        label=label,
        engine=engine,
        seconds=len(trace) * dt,
        verdict=judge(trace, robot, task, ticks=ticks, dt=dt),
        height=float(base[-1, 2]),
        tilt=float(base_tilt(base).max()),
        drift=float(np.linalg.norm(base[-1, :2] - base[0, :2])),
        distance=float(np.linalg.norm(np.diff(base[:, :2], axis=0), axis=1).sum()),
        forward=forward,
        left=left,
        turn=turn,
        tracking=_mean(off),
        risen=float("nan") if task.stance is None else risen(trace, robot, task.terrain, task.stance),
        last_tracking=_mean(off[-round(1.0 / dt) :]),
        speed_tracking=_mean(np.abs(trace.v[:, robot.tree.a] - trace.v_ref)[:, following]),
        torque=_mean(np.abs(trace.tau)),
        torque_rate=_mean(rate),
        torque_rate_max=float(_finite(rate).max(initial=0.0)),
        weight=robot.weight,
        force=force,
        force_error=error,
        force_error_relative=error / force if force > 0 else float("nan"),
        contact_force_error=contact_force_error(trace, robot, task.terrain),
        path_error=path_error(trace, robot, np.array(corners, dtype=float)) if corners else float("nan"),
        modes={mode: trace.share(mode) for mode in trace.modes},
        substituted=trace.substituted(task.law),
        told=_mean(np.isfinite(trace.predicted[:, :, 0])[trace.simulated[:, :, 0] > 0.0].astype(float)),
        step_p50=_percentile(stepped, 50),
        step_p99=_percentile(stepped, 99),
        step_max=_percentile(stepped, 100),
        round_trip_p50=_percentile(timed, 50),
        round_trip_p99=_percentile(timed, 99),
        late=int(np.sum(timed > dt * 1e6)),
        punctual=float(np.mean(trace.round_trip <= dt)) if len(trace) else float("nan"),
        pace=(len(trace) - 1) * dt / float(ticking.sum()) if len(ticking) else float("nan"),
        longest_tick=float(ticking.max(initial=0.0)),
    )


def mean_velocity(base: Array, dt: float) -> tuple[float, float, float]:
    """Return the mean velocity forward, left [m/s] and turn [rad/s] of a base in its own level frame; NaN for one pose.

    base: poses (n, 7); dt: period [s]
    """
    if len(base) < 2:
        return float("nan"), float("nan"), float("nan")
    headings = np.unwrap([yaw(q[3:7]) for q in base])
    (x, y), middle = np.diff(base[:, :2], axis=0).T / dt, 0.5 * (headings[:-1] + headings[1:])
    c, s = np.cos(middle), np.sin(middle)
    return (
        float((c * x + s * y).mean()),
        float((c * y - s * x).mean()),
        float(headings[-1] - headings[0]) / ((len(base) - 1) * dt),
    )


def _finite(values: Array) -> Array:
    return values[np.isfinite(values)]


def _mean(values: Array) -> float:
    """Return the mean of the finite values, NaN without any."""
    there = _finite(values)
    return float(there.mean()) if len(there) else float("nan")


def _percentile(values: Array, percent: float) -> float | None:
    return float(np.percentile(values, percent)) if len(values) else None


def contact_force_error(trace: Trace, robot: Robot, terrain: Terrain) -> float:
    """Return the mean |f_N predicted − f_N simulated| of single contacts [N], without the part in the null space of J_uᵀ.

    Two correct answers may differ in this null space if contacts are redundant: that part of the forces does not move
    unactuated bodies. The difference is therefore projected onto the column space of J_u. Ticks with a simulated force at a
    contact without a predicted force are ignored.
    """
    errors = []
    for k in range(SETTLED, len(trace), STRIDE):
        predicted, simulated = trace.predicted[k], trace.simulated[k]
        there = np.isfinite(predicted[:, 0])
        if not there.any() or (np.isfinite(simulated[:, 0]) & ~there & (simulated[:, 0] != 0)).any():
            continue
        difference = (predicted - np.nan_to_num(simulated))[there][:, [1, 2, 0]].ravel()
        terms = robot.terms(trace.q[k], trace.v[k])
        contacts = contacts_from_geometry(robot, trace.q[k], terrain, margin=np.inf)
        J_u = contact_jacobian(terms.axes, robot.tree.support, contacts)[np.repeat(there, 3)][:, robot.tree.u]
        errors.append(np.abs((J_u @ (np.linalg.pinv(J_u) @ difference))[2::3]).mean())
    return float(np.mean(errors)) if errors else float("nan")


def path_error(trace: Trace, robot: Robot, corners: Array) -> float:
    """Return the mean distance of the centre of mass from a polyline in the plane [m]. corners: [m] (n, 2), n ≥ 1"""
    com = np.array([robot.center_of_mass(q)[:2] for q in trace.q[::STRIDE]])
    begin, along = corners[:-1], np.diff(corners, axis=0)
    if not len(along):
        return float(np.linalg.norm(com - corners[0], axis=1).mean())
    lengths2 = np.maximum((along**2).sum(axis=1), np.finfo(float).tiny)
    share = np.clip(((com[:, None] - begin) * along).sum(axis=2) / lengths2, 0.0, 1.0)
    nearest = begin + share[..., None] * along
    return float(np.linalg.norm(com[:, None] - nearest, axis=2).min(axis=1).mean())


def tracking_errors(trace: Trace, robot: Robot) -> Array:
    """Return the deviations of the joints from their references [rad] (ticks, na)."""
    rows = zip(trace.q, trace.q_ref, strict=True)
    return np.array([robot.joint_error(robot.joint_angles(q), wanted) for q, wanted in rows]).reshape(-1, robot.na)


def normal_forces(trace: Trace) -> tuple[Array, Array]:
    """Return Σ f_N predicted and simulated [N] (n).

    Predicted sums are NaN in ticks without a prediction, simulated ones in ticks without a simulated or measured contact.
    """
    predicted, simulated = trace.predicted[..., 0], trace.simulated[..., 0]
    near, known = np.isfinite(simulated).any(axis=1), np.isfinite(predicted).any(axis=1)
    return np.where(known, np.nansum(predicted, axis=1), np.nan), np.where(near, np.nansum(simulated, axis=1), np.nan)


class Quantity(NamedTuple):
    """A quantity of a run."""

    heading: str  # of its column, with unit
    value: Callable[[Summary], float]  # function that returns the quantity of a run, NaN where it is undefined


QUANTITIES = {
    "tracking": Quantity("E|θ−θ_des| rad", lambda s: s.tracking),
    "joint-error": Quantity("E|θ−θ_des| mrad", lambda s: 1e3 * s.tracking),
    "last-joint-error": Quantity("E|θ−θ_des| in the last second mrad", lambda s: 1e3 * s.last_tracking),
    "risen": Quantity("time to get up s", lambda s: s.risen),
    "speed-tracking": Quantity("E|θ̇−θ̇_des| rad/s", lambda s: s.speed_tracking),
    "torque-rate": Quantity("E|dτ/dt| N·m/s", lambda s: s.torque_rate),
    "torque-rate-max": Quantity("max |dτ/dt| N·m/s", lambda s: s.torque_rate_max),
    "torque": Quantity("E|τ| N·m", lambda s: s.torque),
    "force-error": Quantity("Σf_N error N", lambda s: s.force_error),
    "force-error-relative": Quantity("Σf_N error %", lambda s: 100 * s.force_error_relative),
    "contact-force-error": Quantity("f_N error of a contact N", lambda s: s.contact_force_error),
    "path-error": Quantity("CoM distance from path mm", lambda s: 1e3 * s.path_error),
    "distance": Quantity("distance travelled by the base m", lambda s: s.distance),
    "progress": Quantity("displacement of the base m", lambda s: s.drift),
    "forward": Quantity("mean forward velocity m/s", lambda s: s.forward),
    "left": Quantity("mean velocity to the left m/s", lambda s: s.left),
    "turn": Quantity("mean turn rate rad/s", lambda s: s.turn),
    "told": Quantity("loaded contacts in the prediction %", lambda s: 100 * s.told),
    "late": Quantity("ticks without an answer within the period %", lambda s: 100 * (1.0 - s.punctual)),
    "pace": Quantity("× real time", lambda s: s.pace),
    "substituted": Quantity("ticks answered by another law %", lambda s: 100 * s.substituted),
}
"""Smaller is better, except for `distance`, `progress`, `told` and the velocities."""


REAL_TIME = 0.995  # least `pace` of a run that counts as real time


def slowness(summary: Summary, period: float) -> str:
    """Return a message that explains why a paced run was slower than real time, '' if it was not. period: of the ticks [s]"""
    if not summary.pace < REAL_TIME:
        return ""
    times = (
        f"p50 {summary.round_trip_p50:.0f} µs, p99 {summary.round_trip_p99:.0f} µs" if summary.round_trip_p50 else "no replies"
    )
    return (
        f"{summary.label}: this machine did not keep {1 / period:g} Hz; the world ran at {summary.pace:.2f} × real time. "
        f"Of {round(summary.seconds / period)} replies {summary.late} took longer than a period ({times}); "
        f"the longest tick took {1e3 * summary.longest_tick:.0f} ms."
    )
