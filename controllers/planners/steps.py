"""Kernels of the gait plan (`controllers.planners.plan.Plan`): its update in each tick, lift-offs, swings and touchdowns.
The planned velocity u follows the command r; where the measured velocity v differs by more than a band, u yields, and
returns at a bounded rate. A foothold is half a stance of the command after the hip, plus the capture point [Pratt 2006;
Raibert 1986]:

    u ← u + λ dt band(v − u),     u̇ = ṙ + bounded((r − u) / τ),     x = hip + r T_stance / 2 + k √(h / g) (u − r)
"""

import numpy as np

from controllers.planners.legs import Triad, solve
from controllers.planners.path import DONE, Triple, command, corrected
from controllers.planners.plan import (
    HALTS,
    HOLDS,
    READY,
    Plan,
    aim,
    at,
    foot_at,
    ground_below,
    ground_under,
    incline,
    stop,
    vertical,
)
from controllers.planners.pose import advance, in_base, level_motion
from idyn.library.kernels import compiled, entry
from idyn.library.records import Flags, Indices, Vector, written
from idyn.model import so3
from idyn.solvers.linalg import axpy, copy, fill
from idyn.terms.inputs import finite
from idyn.types import Array

SMOOTHING = 0.015  # time constant of the measured velocity [s]
BANDS = (0.15, 0.15, 0.5)  # deviations of the measured velocity to which a plan does not yield [m/s, m/s, rad/s]
YIELDING = 30.0  # rate at which the planned velocity follows the measured one outside of the bands [1/s]

RETURN_TIME, RETURN = 0.1, (3.0, 3.0, 8.0)
"""Time constant of the return of the planned velocity to the commanded one [s], and its largest rate [m/s², rad/s²]."""

NEAR = 1e-4  # difference from the commanded velocity at which the return ends [m/s, rad/s]
RISE, FALL = 10.0, 1.0  # largest rates of the share of the fast gait [1/s]. The duty factor must not grow faster than phases


@compiled
def drive(plan: Plan, t: float, q: Array, v: Array) -> None:
    """Update the velocity of the base: commanded, measured and planned one.

    q: configuration (nq); v: velocity of the level frame (6 or more)
    """
    wanted = command(plan.path, t - plan.start, (q[0], q[1], so3.yaw(q[3:7])))
    wanted = (0.0, 0.0, 0.0) if plan.change[HALTS] else corrected(plan.path, wanted, plan.u, v, plan.tick)
    for k in range(3):
        plan.seen[k] += min(1.0, plan.tick / SMOOTHING) * (v[k if k < 2 else 5] - plan.seen[k])
        # ṙ within the acceleration limits, from the r of the next tick
        limit, before = plan.path.accelerations[k], plan.ramp[k]
        rate = min(max((wanted[k] - before) / plan.tick, -limit), limit)
        plan.ramp[k] = before + plan.tick * rate
        if abs(plan.u[k] - before) < NEAR:
            plan.u[k] = before
        # yield to the measured velocity, and return
        if plan.capture > 0.0:
            off = plan.seen[k] - plan.u[k]
            plan.u[k] += min(1.0, YIELDING * plan.tick) * (off - min(max(off, -BANDS[k]), BANDS[k]))
        back = (before - plan.u[k]) / max(RETURN_TIME, plan.tick)
        plan.du[k] = rate + min(max(back, -RETURN[k]), RETURN[k])


@compiled
def adapt(plan: Plan) -> None:
    """Set period, duty factor and step height by the largest speed of a hip, commanded or planned."""
    low, high = plan.speeds[0], plan.speeds[1]
    fastest = 0.0
    for i in range(len(plan.hips)):
        hx, hy = plan.hips[i, 0], plan.hips[i, 1]
        for u in (plan.u, plan.ramp):
            fastest = max(fastest, np.hypot(u[0] - u[2] * hy, u[1] + u[2] * hx))
    share = min(max((fastest - low) / (high - low), 0.0), 1.0)
    plan.share += min(max(share - plan.share, -FALL * plan.tick), RISE * plan.tick)
    s = plan.share
    plan.period = (1.0 - s) * plan.slow[0] + s * plan.fast[0]
    plan.duty = (1.0 - s) * plan.slow[1] + s * plan.fast[1]
    plan.step_height = (1.0 - s) * plan.slow[2] + s * plan.fast[2]
    plan.stance_time = plan.duty * plan.period
    plan.swing_time = plan.period - plan.stance_time


@compiled
def integrate_pose(pose: Array, u: Triple, time: float) -> Triple:
    """Return x, y, yaw after `time` [s] at the constant velocity u in the base's own frame."""
    x, y, yaw = pose
    dx, dy, turn = u[0] * time, u[1] * time, u[2] * time
    # arc of constant curvature: the chord is sin(θ/2)/(θ/2) times its length, in the direction yaw + θ/2
    half = 0.5 * turn
    chord = np.sin(half) / half if abs(half) > 1e-8 else 1.0
    c, s = chord * np.cos(yaw + half), chord * np.sin(yaw + half)
    return x + c * dx - s * dy, y + s * dx + c * dy, yaw + turn


@entry((float,) * 2, (float,) * 3, (float,) * 3, (float,) * 2)
def from_hip(hip: tuple[float, float], r: Triple, off: Triple, times: tuple[float, float]) -> tuple[float, float]:
    """Return the displacement of a foothold from the hip at touchdown, in the frame of the base [m]: half a stance of the
    command further, and the capture point of the deviation.

    hip: nominal place of the foot [m]; r: commanded velocity; off: deviation from it, forward, left [m/s], turn [rad/s]
    times: half the duration of a stance, and distance of a capture point per velocity [s]
    """
    half, capture = times
    move = half * r[0] + capture * off[0], half * r[1] + capture * off[1]
    mx, my, turn = integrate_pose(np.zeros(3), (move[0], move[1], half * r[2] + capture * off[2]), 1.0)
    c, s, hx, hy = np.cos(turn), np.sin(turn), hip[0], hip[1]
    return mx + c * hx - s * hy - hx, my + s * hx + c * hy - hy


@compiled
def foothold(plan: Plan, i: int, left: float) -> tuple[float, float]:
    """Return x, y of the foothold of foot i, whose stance starts in `left` [s]. `plan.cut` becomes true where the leg would not
    reach it: then it is the nearest one within reach of the hip."""
    u, r, hx, hy = plan.u, plan.ramp, plan.hips[i, 0], plan.hips[i, 1]
    x, y, yaw = integrate_pose(plan.pose, (u[0], u[1], u[2]), left)
    off = u[0] - r[0], u[1] - r[1], u[2] - r[2]
    dx, dy = from_hip((hx, hy), (r[0], r[1], r[2]), off, (0.5 * plan.stance_time, plan.capture))
    share = min(1.0, plan.stride / max(np.hypot(dx, plan.slender * dy), 1e-12))
    plan.cut[0] = plan.cut[0] or share < 1.0
    dx, dy = hx + share * dx, hy + share * dy
    c, s = np.cos(yaw), np.sin(yaw)
    return x + c * dx - s * dy, y + s * dx + c * dy


STILL, AT_HOME = 1e-9, 1e-3
"""Largest velocity of a base at rest [m/s, rad/s]. Feet nearer than this to their nominal places need no further step [m]."""

LANDING = 0.1  # share of the swing time in which its height target is fixed, and by which feet that seek the ground look ahead
EARLY = 0.4  # share of the swing time, before its planned end, in which touching the ground ends the swing
REDIRECT = 0.75  # share of the swing time during which the foothold is updated by the command
STEP = 0.01  # difference of the heights of two footholds from which a swing counts as one up or down a step [m]

STRAIGHT_UP, OVER_EDGE = 0.25, 0.35
"""Shares of the swing time: up a step, and where there may be one, a foot first rises that long before it moves forwards; down
a step, it descends last."""

TOUCHDOWN_SPEED, SEEKING_SPEED = 0.15, 0.4  # vertical speed of a foot at touchdown, and of one that seeks the ground [m/s]
TOUCHING = 1e-4  # largest gap of a foot that touches [m]
LOST = 0.01  # a standing foot that does not touch for longer is lowered until it touches [s]
ROUNDING = 1e-9  # share of the period by which swings end before their paths do, so that no foot rests in the air
SETTLE = 0.1  # time after touchdown in which a foot moves to its nominal height below a level base [s]


@entry(Plan)
def restart(plan: Plan) -> None:
    """Reset the plan. Until the start of the gait, the feet move to their nominal positions."""
    plan.t, plan.patience = np.nan, plan.max_patience
    plan.cycle[0], plan.share = 0.0, 0.0
    for zero in (plan.pose, plan.u, plan.du, plan.ramp, plan.seen, plan.phase, plan.end, plan.touched):
        fill(zero, 0.0)
    for i in range(len(plan.hips)):
        plan.wait[i], plan.swinging[i], plan.seeking[i] = np.inf, False, False
        for k in range(2):
            aim(plan.cubics, i, k, 0.0, plan.start, plan.hips[i, k], 0.0)


MEASURED, CONTACTS, MOTION = (Vector, Vector, Vector), (Indices, Vector), written((Vector, Vector, Vector))
PLANNED = written((Vector, Vector, Vector, Flags))


@entry(Plan, float, MEASURED, CONTACTS, MOTION, PLANNED)
def follow(
    plan: Plan, t: float, measured: Triad, contacts: tuple[Array, Array], motion: Triad, planned: tuple[Array, ...]
) -> tuple[bool, bool, bool, bool]:
    """Update the plan to time t [s] and fill the joint motion. Return whether all feet are within reach, a foothold was moved,
    the pose is away from the level stance, and the gait may change.

    measured: q, v and joint angles of the robot, see `Legs` (m)
    contacts: (foot of each contact or −1 (n), gaps [m] (n))
    motion: joint angles [rad], speeds [rad/s], accelerations [rad/s²] (m)
    planned: velocity and pose of the base (3), time until feet lift or land [s], whether they stand (n), see `Reference`
    """
    q, v, touches, (u, pose, wait, stance) = measured[0], measured[1], _touching(plan, contacts), planned
    plan.cut[0] = False
    up = so3.up(q[3:7])
    _advance(plan, t)
    incline(plan, t, measured, touches)
    if plan.base.away:
        up, v = level_motion(plan.base, up, v)
    if t >= plan.start:
        # velocity of the base, timing of the gait, then lift-offs, swings and touchdowns
        if plan.walks:
            drive(plan, t, q, v)
            adapt(plan)
        onwards = plan.path.progress[DONE] == 0 and not plan.change[HALTS]
        _step(plan, t, onwards, (vertical(plan, up), v, measured[2]), touches)
    # x, ẋ, ẍ of the feet in the base frame, and θ, θ̇, θ̈ by inverse kinematics from the last reference
    feet = np.empty((3, len(plan.hips), 3))
    for i in range(len(plan.hips)):
        x, dx, ddx = foot_at(plan, i, t)
        if plan.base.away:
            x, dx, ddx = in_base(plan.base, x, dx, ddx)
        feet[0, i], feet[1, i], feet[2, i] = x, dx, ddx
    copy(plan.angles, motion[0])
    reached = solve(plan.legs, (feet[0], feet[1], feet[2]), motion)
    if finite(motion[0]):
        copy(motion[0], plan.angles)
    copy(plan.u, u)
    copy(plan.wait, wait)
    copy(plan.base.x, pose)
    axpy(1.0, plan.base.lean, pose[1:])
    for i in range(len(stance)):
        stance[i] = not plan.swinging[i]
    return reached, plan.cut[0], plan.base.away, plan.change[READY]


@compiled
def _touching(plan: Plan, contacts: tuple[Array, Array]) -> Array:
    """Return which feet touch (n)."""
    places, gaps = contacts
    touches = np.zeros(len(plan.hips), dtype=np.bool_)
    for i in range(min(len(places), len(gaps))):
        if places[i] >= 0 and gaps[i] <= TOUCHING:
            touches[places[i]] = True
    return touches


@compiled
def _advance(plan: Plan, t: float) -> None:
    """Integrate the base from the last tick to time t, with the acceleration computed then."""
    dt = 0.0 if np.isnan(plan.t) else t - plan.t
    plan.dt = dt
    half, u, du = 0.5 * dt, plan.u, plan.du
    mean = u[0] + half * du[0], u[1] + half * du[1], u[2] + half * du[2]
    plan.pose[0], plan.pose[1], plan.pose[2] = integrate_pose(plan.pose, mean, dt)
    axpy(dt, plan.du, plan.u)
    advance(plan.base, dt)


@compiled
def _step(plan: Plan, t: float, onwards: bool, seen: Triad, touches: Array) -> None:
    """Update lift-offs, swings and touchdowns.

    onwards: whether the path is unfinished
    seen: vertical heights as in `controllers.planners.slope.across` (3), velocity of the level frame (6 or more), measured
        joint angles (m)
    """
    # lift-offs by the phase, if a step is needed; a standing foot that lost the ground seeks it
    lifts, phase = _lift_offs(plan, t, touches), plan.phase
    goes = lifts.any() and _needs_step(plan, t, onwards)
    for i in range(len(phase)):
        if touches[i]:
            plan.touched[i] = t
        elif not (plan.swinging[i] or plan.seeking[i]) and t - plan.touched[i] > LOST:  # planned to stand
            plan.seeking[i], plan.end[i] = True, -np.inf
            _stop_in_plane(plan, i, t)
        if goes and lifts[i]:
            _lift(plan, i, t, (1.0 - phase[i]) * plan.period)
    moves = onwards or np.abs(plan.u).max() > STILL
    # touchdowns late in the swing; a foot that does not touch at the end of its swing seeks the ground further down
    for i in range(len(phase)):
        if not (plan.swinging[i] or plan.seeking[i]):
            continue
        late = phase[i] < plan.duty or phase[i] > 1.0 - EARLY * (1.0 - plan.duty)
        if touches[i] and late:
            _land(plan, i, t, moves)
        elif phase[i] < plan.duty and not plan.seeking[i]:
            plan.swinging[i], plan.seeking[i] = False, True
            _stop_in_plane(plan, i, t)
    # cubics of the feet in the air, and the time until each foot lifts or lands
    _reach(plan, t, seen, touches)
    if plan.walks:
        for i in range(len(phase)):
            left = 1.0 - phase[i] if plan.swinging[i] else (plan.duty - phase[i]) % 1.0
            plan.wait[i] = left * plan.period
    if plan.change[HOLDS] or plan.change[HALTS]:
        stands = not (plan.swinging.any() or plan.seeking.any())
        plan.change[READY] = stands and (plan.change[HOLDS] or not _needs_step(plan, t, False))


@compiled
def _lift_offs(plan: Plan, t: float, touches: Array) -> Array:
    """Update the phases and return which feet lift now (n). Phases and lift-offs wait while a standing foot does not touch."""
    n = len(plan.phase)
    lifts, phase = np.zeros(n, dtype=np.bool_), np.empty(n)
    cycle = plan.cycle[0] + min(plan.dt, t - plan.start) / plan.period
    for i in range(n):
        phase[i] = (cycle - plan.touchdown[i] + ROUNDING) % 1.0
        lifts[i] = phase[i] >= plan.duty and not plan.swinging[i] and plan.phase[i] < plan.lifting
    if plan.change[HOLDS]:  # feet that miss their lift-off stand until the gait has changed
        fill(lifts, False)
    # lift-offs wait until all other feet that are planned to stand touch, for at most `patience`; the gait is delayed as long
    if lifts.any():
        carried = True
        for i in range(n):
            carried = carried and (plan.swinging[i] or lifts[i] or touches[i])
        if not carried and plan.patience > 0.0:
            plan.patience -= plan.tick
            fill(lifts, False)
            return lifts
        plan.patience = plan.max_patience
    plan.cycle[0], plan.lifting = cycle, plan.duty
    copy(phase, plan.phase)
    return lifts


@compiled
def _needs_step(plan: Plan, t: float, onwards: bool) -> bool:
    """Return whether the path is unfinished, the base moves, or a foot is away from its nominal position."""
    if not plan.walks:
        return False
    away = onwards or np.abs(plan.u).max() > STILL
    for i in range(len(plan.hips)):
        x, _, _ = foot_at(plan, i, t)
        for k in range(2):
            away = away or abs(x[k] - plan.hips[i, k]) > AT_HOME
    return away


@compiled
def _stop_in_plane(plan: Plan, i: int, t: float) -> None:
    """Stop foot i in the horizontal plane."""
    stop(plan.cubics, i, 0, t)
    stop(plan.cubics, i, 1, t)


@compiled
def _lift(plan: Plan, i: int, t: float, swing: float) -> None:
    """Start a swing of duration `swing` [s] of foot i, upwards in its first half."""
    plan.swinging[i], plan.seeking[i], plan.end[i] = True, False, t + swing
    for k in range(2):
        plan.lifted[i, k], _, _ = at(plan.cubics, i, k, t)
    slope = plan.slope
    slope.lifted[i], slope.shift[i, 0], slope.shift[i, 1] = slope.heights[i], 0.0, 0.0
    aim(plan.cubics, i, 2, t, t + 0.5 * swing, plan.hips[i, 2] + slope.heights[i] + slope.rise * plan.step_height, 0.0)


@compiled
def _land(plan: Plan, i: int, t: float, moves: bool) -> None:
    """End the swing of foot i at its present position, and start to level the base. A foot that found the ground again does so
    only if the base moves: at rest it would lift itself."""
    plan.swinging[i] = plan.seeking[i] = False
    _stop_in_plane(plan, i, t)
    stop(plan.cubics, i, 2, t)
    if moves or plan.end[i] > -np.inf:
        aim(plan.cubics, i, 2, t, t + SETTLE, plan.hips[i, 2] + plan.slope.heights[i], 0.0)


@compiled
def _reach(plan: Plan, t: float, seen: Triad, touches: Array) -> None:
    """Aim swinging feet at their footholds, and descending and seeking feet at the ground."""
    below, n = np.nan, seen[0]
    for i in range(len(plan.hips)):
        if not (plan.swinging[i] or plan.seeking[i]):
            if plan.slope.careful and plan.slope.watches:  # the base moves over standing feet as the planned slope changes
                aim(plan.cubics, i, 2, t, t + SETTLE, plan.hips[i, 2] + plan.slope.heights[i], 0.0)
            continue
        # in the plane: to the foothold, updated until late in the swing
        left = plan.end[i] - t
        share = left / plan.swing_time
        slope, climbs = plan.slope, plan.slope.heights[i] - plan.slope.lifted[i]
        if plan.swinging[i] and share >= 1.0 - REDIRECT:
            slope.goal[i, 0], slope.goal[i, 1] = foothold(plan, i, left)
            if (climbs < STEP and not slope.careful) or share <= 1.0 - STRAIGHT_UP:
                aim(plan.cubics, i, 0, t, plan.end[i], slope.goal[i, 0] + slope.shift[i, 0], 0.0)
                aim(plan.cubics, i, 1, t, plan.end[i], slope.goal[i, 1] + slope.shift[i, 1], 0.0)
            if climbs > STEP and left > 0.5 * plan.swing_time + plan.tick:
                top = plan.hips[i, 2] + slope.heights[i] + slope.rise * plan.step_height
                aim(plan.cubics, i, 2, t, plan.end[i] - 0.5 * plan.swing_time, top, 0.0)
        # in height: to the ground below, retargeted from mid-swing (one tick early) until `LANDING`; lower while seeking
        falls = share >= LANDING and left <= (0.5 if climbs > -STEP else OVER_EDGE) * plan.swing_time + plan.tick
        if not (plan.seeking[i] or falls):
            continue
        if np.isnan(below):
            below = ground_below(plan, seen[2], n, touches)
        goal, speed = ground_under(plan, i, t, below, n, seen[1])
        falling = SEEKING_SPEED if slope.careful and plan.seeking[i] else TOUCHDOWN_SPEED
        speed, until = speed - falling, plan.end[i]
        if plan.seeking[i]:
            until = t + LANDING * plan.swing_time
            goal = at(plan.cubics, i, 2, t)[0] + speed * (until - t)
        aim(plan.cubics, i, 2, t, until, goal, speed)
