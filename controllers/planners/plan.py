"""The plan of a walking robot, and how it goes on from tick to tick: see `controllers.planners.locomotion`."""

from typing import Any, ClassVar

import numpy as np

from controllers import attitude
from controllers.planners.cubics import Cubics, aim, at, stop
from controllers.planners.gait import Gait, GaitSettings
from controllers.planners.legs import Legs, foot_places, solve
from idyn.compiled import FLAG, FLAGS, MATRIX, REAL, VECTOR, ArrayRecord, compiled, new_record
from idyn.solvers.linalg import copy
from idyn.types import Array

STILL = 1e-9
"""A base slower than this stands [m/s, rad/s]."""

AT_HOME = 1e-3
"""Feet nearer than this to their places under the hips need no further step [m]."""

LANDING = 0.1
"""Share of the swing time in which a foot that is about to land, or is late, is to reach the ground."""

EARLY = 0.4
"""Share of the swing at its end in which ground that is met ends it."""

CUBIC_PEAK = 1.5
"""Largest over mean speed of a cubic from rest to rest."""


class Plan(ArrayRecord):
    """What is meant to happen, of n feet.

    The robot   legs; hips: where feet are to stand on average, in the base frame [m] (n, 3)
    Settings    start, tick, swing, stride: when the gait begins, of the ticks, of one swing, of one stance [s]; longest: step
        [m]; acceleration: of the base (3); walks, touchdown (n) and the others: see `GaitSettings`
    The base    t: of the last tick [s], NaN before the first; pose: x, y, yaw (3); u: velocity in its own frame, forward, left,
        turn (3); du: its rate (3)
    The feet    phase (n); lag: by how much the gait is late, patience: so much longer it may wait [s]; wait: until a foot lifts
        or lands [s] (n); swinging, seeking: in the air by plan, or looking for ground that was lost (n); end: of the swing [s]
        (n); lifted: where it began, in the plane (n, 2); ways: cubics of x, y in the plane and of z in the base frame
    The joints  angles: last reference [rad] (na)
    """

    field_types: ClassVar[dict[str, Any]] = {
        "legs": Legs.TYPE,
        "ways": Cubics.TYPE,
        **dict.fromkeys(("hips", "lifted"), MATRIX),
        **dict.fromkeys(("acceleration", "touchdown", "pose", "u", "du", "phase", "wait", "end", "angles"), VECTOR),
        **dict.fromkeys(("swinging", "seeking"), FLAGS),
        "walks": FLAG,
        **dict.fromkeys(("start", "tick", "period", "duty", "swing", "stride", "longest", "step_height"), REAL),
        **dict.fromkeys(("touchdown_speed", "redirect", "most_patience", "settle"), REAL),
        **dict.fromkeys(("t", "lag", "patience"), REAL),
    }

    hips: Array
    pose: Array
    u: Array
    wait: Array
    swinging: Array
    angles: Array
    ways: Cubics

    def __init__(
        self,
        legs: Legs,
        hips: Array,
        settings: GaitSettings,
        gait: Gait,
        acceleration: Array,
        times: tuple[float, float],
        angles: Array,
    ) -> None:
        """times: start, tick [s]; angles: any, for their number (na)"""
        s, n = settings, len(hips)
        self.fields = self.begin(_blank)
        self.put(_robot, legs, Cubics(hips), hips, acceleration, gait.touchdown)
        self.put(_gait, gait.walks, *times, gait.period, gait.duty, gait.swing_time, gait.stance_time)
        self.put(_steps, s.swing_speed * gait.swing_time / CUBIC_PEAK, s.step_height, s.touchdown_speed, s.redirect)
        self.put(_base, *np.zeros((3, 3)), s.patience, s.settle)
        self.put(_feet, *np.zeros((3, n)), np.zeros((n, 2)), *np.zeros((2, n), dtype=np.bool_), angles.copy())

    def begin_anew(self, feet: Array, angles: Array) -> None:
        """At rest with the feet there, in the base frame [m] (n, 3), and such joints [rad] (na)."""
        self.ways.rest(feet)
        self.angles[:] = angles
        forget(self.fields)


TYPE = Plan.TYPE


@compiled
def _blank():
    return new_record(TYPE)


@compiled
def _robot(plan, legs, ways, hips, acceleration, touchdown):
    plan.legs, plan.ways, plan.hips, plan.acceleration, plan.touchdown = legs, ways, hips, acceleration, touchdown


@compiled
def _gait(plan, walks, start, tick, period, duty, swing, stride):
    plan.walks, plan.start, plan.tick = walks, start, tick
    plan.period, plan.duty, plan.swing, plan.stride = period, duty, swing, stride


@compiled
def _steps(plan, longest, step_height, touchdown_speed, redirect):
    plan.longest, plan.step_height, plan.touchdown_speed, plan.redirect = longest, step_height, touchdown_speed, redirect


@compiled
def _base(plan, pose, u, du, most_patience, settle):
    plan.pose, plan.u, plan.du, plan.most_patience, plan.settle = pose, u, du, most_patience, settle


@compiled
def _feet(plan, phase, wait, end, lifted, swinging, seeking, angles):
    plan.phase, plan.wait, plan.end, plan.lifted = phase, wait, end, lifted
    plan.swinging, plan.seeking, plan.angles = swinging, seeking, angles


@compiled
def forget(plan):
    """The next tick is the first; until the gait begins the feet go under the hips."""
    plan.t, plan.lag, plan.patience = np.nan, 0.0, plan.most_patience
    plan.pose[:], plan.u[:], plan.du[:], plan.phase[:], plan.end[:] = 0.0, 0.0, 0.0, 0.0, 0.0
    plan.wait[:], plan.swinging[:], plan.seeking[:] = np.inf, False, False
    for i in range(len(plan.hips)):
        for k in range(2):
            aim(plan.ways, i, k, 0.0, plan.start, plan.hips[i, k], 0.0)


@compiled
def follow(plan, t, way, measured, touches, motion):
    """The plan at time t [s], and the joints' motion that goes with it: fills angles, speeds and accelerations (na), the angles
    from the guess in them. Whether every leg reaches so far.

    way: the base's velocity that is wanted (3), and whether there is any way left to go
    measured: q, v and the joint angles of the robot as it is; touches: which feet do (n)
    """
    _advance(plan, t)
    if t >= plan.start:
        if plan.walks:
            for k in range(3):
                limit = plan.acceleration[k]
                plan.du[k] = min(max((way[0][k] - plan.u[k]) / plan.tick, -limit), limit)
        _step(plan, t, way[1], measured, touches)
    feet = np.empty((3, len(plan.hips), 3))
    for i in range(len(plan.hips)):
        feet[0, i], feet[1, i], feet[2, i] = _seen(plan, i, t)
    reached = solve(plan.legs, (feet[0], feet[1], feet[2]), motion)
    copy(motion[0], plan.angles)
    return reached


# -- the base ---------------------------------------------------------------------------------------------------------


@compiled
def _advance(plan, t):
    """The base from the last tick to this one, with the acceleration decided then."""
    dt = 0.0 if np.isnan(plan.t) else t - plan.t
    plan.t = t
    plan.pose[0], plan.pose[1], plan.pose[2] = _ahead(plan, dt, 0.5 * dt)
    for k in range(3):
        plan.u[k] += dt * plan.du[k]


@compiled
def _ahead(plan, time, changing):
    """The base's x, y, yaw after so long [s] at its velocity, which changes for `changing` [s] before."""
    x, y, yaw = plan.pose
    dx, dy, turn = (plan.u + changing * plan.du) * time
    half = 0.5 * turn
    chord = np.sin(half) / half if abs(half) > 1e-8 else 1.0
    c, s = chord * np.cos(yaw + half), chord * np.sin(yaw + half)
    return x + c * dx - s * dy, y + s * dx + c * dy, yaw + turn


# -- the feet ---------------------------------------------------------------------------------------------------------


@compiled
def _step(plan, t, onwards, measured, touches):
    """Lift-offs, swings and touchdowns."""
    lifts, phase = _begun(plan, t, touches), plan.phase
    goes = lifts.any() and _wants_to_step(plan, t, onwards)
    for i in range(len(phase)):
        if not (plan.swinging[i] or plan.seeking[i] or touches[i]):  # it is to stand but does not touch any more
            plan.seeking[i] = True
            _stop(plan, i, t)
        if goes and lifts[i]:
            _lift(plan, i, t, (1.0 - phase[i]) * plan.period)
    for i in range(len(phase)):
        if not (plan.swinging[i] or plan.seeking[i]):
            continue
        late = phase[i] < plan.duty or phase[i] > 1.0 - EARLY * (1.0 - plan.duty)
        if touches[i] and late:
            _land(plan, i, t)
        elif phase[i] < plan.duty and not plan.seeking[i]:
            plan.swinging[i], plan.seeking[i] = False, True
            _stop(plan, i, t)
    _reach(plan, t, measured, touches)
    if plan.walks:
        for i in range(len(phase)):
            left = 1.0 - phase[i] if plan.swinging[i] else (plan.duty - phase[i]) % 1.0
            plan.wait[i] = left * plan.period


@compiled
def _begun(plan, t, touches):
    """Which feet are to lift now (n); the phases go on, unless the feet that are to carry instead do not touch yet."""
    n = len(plan.phase)
    lifts, phase = np.zeros(n, dtype=np.bool_), np.empty(n)
    for i in range(n):
        phase[i] = ((t - plan.start - plan.lag) / plan.period - plan.touchdown[i]) % 1.0
        lifts[i] = phase[i] >= plan.duty and not plan.swinging[i] and plan.phase[i] < plan.duty
    if lifts.any():
        carried = True
        for i in range(n):
            carried = carried and (plan.swinging[i] or lifts[i] or touches[i])
        if not carried and plan.patience > 0.0:
            plan.patience -= plan.tick
            plan.lag += plan.tick
            lifts[:] = False
            return lifts
        plan.patience = plan.most_patience
    copy(phase, plan.phase)
    return lifts


@compiled
def _wants_to_step(plan, t, onwards):
    if not plan.walks:
        return False
    away = onwards or np.abs(plan.u).max() > STILL
    for i in range(len(plan.hips)):
        x, _, _ = _seen(plan, i, t)
        for k in range(3):
            away = away or abs(x[k] - plan.hips[i, k]) > AT_HOME
    return away


@compiled
def _stop(plan, i, t):
    """In the plane."""
    stop(plan.ways, i, 0, t)
    stop(plan.ways, i, 1, t)


@compiled
def _lift(plan, i, t, swing):
    plan.swinging[i], plan.seeking[i], plan.end[i] = True, False, t + swing
    for k in range(2):
        plan.lifted[i, k], _, _ = at(plan.ways, i, k, t)
    aim(plan.ways, i, 2, t, t + 0.5 * swing, plan.hips[i, 2] + plan.step_height, 0.0)


@compiled
def _land(plan, i, t):
    """Stay on the ground that was met, and level the base."""
    plan.swinging[i] = plan.seeking[i] = False
    _stop(plan, i, t)
    stop(plan.ways, i, 2, t)
    aim(plan.ways, i, 2, t, t + plan.settle, plan.hips[i, 2], 0.0)


@compiled
def _reach(plan, t, measured, touches):
    """Aim the swinging feet at their footholds, and those that are late at the ground."""
    below, up = np.nan, attitude.up(measured[0][3:7])
    for i in range(len(plan.hips)):
        if not (plan.swinging[i] or plan.seeking[i]):
            continue
        left = plan.end[i] - t
        share = left / plan.swing
        if plan.swinging[i] and share >= 1.0 - plan.redirect:
            x, y = _foothold(plan, i, left)
            aim(plan.ways, i, 0, t, plan.end[i], x, 0.0)
            aim(plan.ways, i, 1, t, plan.end[i], y, 0.0)
        falls = share >= LANDING and left <= 0.5 * plan.swing + plan.tick  # no tick is lost on top
        if not (plan.seeking[i] or falls):
            continue
        if np.isnan(below):
            below = _ground_below(plan, measured[2], up, touches)
        goal, speed = _ground(plan, i, t, below, up, measured[1])
        speed, until = speed - plan.touchdown_speed, plan.end[i]
        if plan.seeking[i]:
            until = t + LANDING * plan.swing
            goal = at(plan.ways, i, 2, t)[0] + speed * (until - t)
        aim(plan.ways, i, 2, t, until, goal, speed)


@compiled
def _foothold(plan, i, left):
    """x, y where foot i will be under its hip in the middle of the stance that begins in `left` [s]."""
    x, y, yaw = _ahead(plan, left + 0.5 * plan.stride, 0.0)
    c, s, hx, hy = np.cos(yaw), np.sin(yaw), plan.hips[i, 0], plan.hips[i, 1]
    fx, fy = plan.lifted[i]
    wx, wy = x + c * hx - s * hy - fx, y + s * hx + c * hy - fy
    share = min(1.0, plan.longest / max(np.hypot(wx, wy), 1e-12))
    return fx + wx * share, fy + wy * share


@compiled
def _ground_below(plan, angles, up, touches):
    """Height of the ground over the base's origin along the world's z, as the feet tell that touch, or else stand [m]."""
    feet, n, total, told = foot_places(plan.legs, angles), len(touches), 0.0, 0
    for i in range(n):
        if touches[i] or (not touches.any() and not plan.swinging[i]):
            total += feet[i, 0] * up[0] + feet[i, 1] * up[1] + feet[i, 2] * up[2]
            told += 1
    return total / told


@compiled
def _ground(plan, i, t, below, up, v):
    """Height in the base frame of the ground below foot i, and its rate [m, m/s]."""
    x, dx, _ = _seen(plan, i, t)
    z = (below - x[0] * up[0] - x[1] * up[1]) / up[2]
    rising = (
        (v[0] + v[4] * z - v[5] * x[1]) * up[0]
        + (v[1] + v[5] * x[0] - v[3] * z) * up[1]
        + (v[2] + v[3] * x[1] - v[4] * x[0]) * up[2]
    )
    return z, -(rising + dx[0] * up[0] + dx[1] * up[1]) / up[2]


@compiled
def _seen(plan, i, t):
    """Place, velocity and acceleration of foot i in the base frame (3)."""
    (x, y, yaw), u, du = plan.pose, plan.u, plan.du
    (px, vx, ax), (py, vy, ay), (z, vz, az) = at(plan.ways, i, 0, t), at(plan.ways, i, 1, t), at(plan.ways, i, 2, t)
    c, s, turn = np.cos(yaw), np.sin(yaw), u[2]
    fx, fy = c * (px - x) + s * (py - y), c * (py - y) - s * (px - x)
    vx, vy = c * vx + s * vy, c * vy - s * vx
    ax, ay = c * ax + s * ay, c * ay - s * ax
    dx, dy = vx - u[0] + turn * fy, vy - u[1] - turn * fx
    ddx = ax + turn * vy - du[0] + du[2] * fy + turn * dy
    ddy = ay - turn * vx - du[1] - du[2] * fx - turn * dx
    return (fx, fy, z), (dx, dy, vz), (ddx, ddy, az)
