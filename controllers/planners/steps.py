"""Kernels of the gait plan: its update in each tick, lift-offs, swings and touchdowns.

See `controllers.planners.locomotion` for the method and `controllers.planners.plan.Plan` for the record.
"""

import numpy as np

from controllers.planners.cubics import aim, at, stop
from controllers.planners.feet import foot_at, ground_below, ground_under, incline, vertical
from controllers.planners.legs import Triad, solve
from controllers.planners.path import DONE
from controllers.planners.plan import HALTS, HOLDS, READY, Plan
from controllers.planners.pose import advance, in_base, level_motion
from controllers.planners.speed import adapt, drive, foothold, integrate_pose
from idyn.jit.compiled import compiled
from idyn.model import so3
from idyn.solvers.linalg import copy, fill
from idyn.terms.inputs import finite
from idyn.types import Array

STILL, AT_HOME = 1e-9, 1e-3
"""Largest velocity of a base at rest [m/s, rad/s]. Feet nearer than this to their nominal places need no further step [m]."""

LANDING = 0.1
"""Share of the swing time. The height target of a swing is last updated this long before touchdown; a foot that seeks the
ground is aimed this far ahead."""

EARLY = 0.4
"""Share of the swing time, before its planned end, in which touching the ground ends the swing."""

REDIRECT = 0.75
"""Share of the swing time during which the foothold is updated by the command."""

STEP = 0.01
"""Difference of the heights of two footholds from which a swing counts as one up or down a step [m]."""

STRAIGHT_UP, OVER_EDGE = 0.25, 0.35
"""Shares of the swing time: up a step, and where there may be one, a foot first rises that long before it moves forwards; down
a step, it descends last."""

TOUCHDOWN_SPEED, SEEKING_SPEED = 0.15, 0.4
"""Vertical speed of a foot at touchdown, and of one that seeks the ground of a step down [m/s]."""

TOUCHING = 1e-4
"""Largest gap of a foot that touches [m]."""

LOST = 0.01
"""A standing foot that does not touch for longer is lowered until it touches [s]."""

ROUNDING = 1e-9
"""Share of the period by which swings end before their paths do, so that no foot rests in the air."""

SETTLE = 0.1
"""Time after touchdown in which a foot moves to its nominal height below a level base [s]."""


@compiled
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


@compiled
def follow(plan: Plan, t: float, measured: Triad, contacts: tuple[Array, Array], motion: Triad) -> bool:
    """Update the plan to time t [s] and fill the joint motion. Return whether all feet are within reach.

    measured: q, v and joint angles of the robot, see `Legs` (m)
    contacts: (foot of each contact or −1 (n), gaps [m] (n))
    motion: joint angles [rad], speeds [rad/s], accelerations [rad/s²] (m)
    """
    q, v, touches = measured[0], measured[1], _touching(plan, contacts)
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
    return reached


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
    for k in range(3):
        plan.u[k] += dt * plan.du[k]
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
