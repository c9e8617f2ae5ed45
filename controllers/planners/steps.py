"""When and where the feet of a plan step: see `controllers.planners.locomotion`; the plan: `controllers.planners.plan.Plan`."""

import numpy as np

from controllers.planners.cubics import aim, at, stop
from controllers.planners.legs import foot_places
from controllers.robot import attitude
from idyn.jit.compiled import compiled
from idyn.solvers.linalg import copy

STILL = 1e-9
"""A base slower than this stands [m/s, rad/s]."""

AT_HOME = 1e-3
"""Feet nearer than this to their places under the hips need no further step [m]."""

LANDING = 0.1
"""Share of the swing time in which a foot that is about to land, or is late, is to reach the ground."""

EARLY = 0.4
"""Share of the swing at its end in which ground that is met ends it."""


@compiled
def step(plan, t, onwards, measured, touches):
    """Lift-offs, swings and touchdowns."""
    lifts, phase = _begun(plan, t, touches), plan.phase
    goes = lifts.any() and _wants_to_step(plan, t, onwards)
    for i in range(len(phase)):
        if not (plan.swinging[i] or plan.seeking[i] or touches[i]):  # it is to stand but does not touch any more
            plan.seeking[i] = True
            _stop_in_plane(plan, i, t)
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
            _stop_in_plane(plan, i, t)
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
        x, _, _ = seen(plan, i, t)
        for k in range(3):
            away = away or abs(x[k] - plan.hips[i, k]) > AT_HOME
    return away


@compiled
def _stop_in_plane(plan, i, t):
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
    _stop_in_plane(plan, i, t)
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
        share = left / plan.swing_time
        if plan.swinging[i] and share >= 1.0 - plan.redirect:
            x, y = _foothold(plan, i, left)
            aim(plan.ways, i, 0, t, plan.end[i], x, 0.0)
            aim(plan.ways, i, 1, t, plan.end[i], y, 0.0)
        falls = share >= LANDING and left <= 0.5 * plan.swing_time + plan.tick  # no tick is lost on top
        if not (plan.seeking[i] or falls):
            continue
        if np.isnan(below):
            below = _ground_below(plan, measured[2], up, touches)
        goal, speed = _ground_under(plan, i, t, below, up, measured[1])
        speed, until = speed - plan.touchdown_speed, plan.end[i]
        if plan.seeking[i]:
            until = t + LANDING * plan.swing_time
            goal = at(plan.ways, i, 2, t)[0] + speed * (until - t)
        aim(plan.ways, i, 2, t, until, goal, speed)


@compiled
def _foothold(plan, i, left):
    """x, y where foot i will be under its hip in the middle of the stance that begins in `left` [s]."""
    x, y, yaw = ahead(plan, left + 0.5 * plan.stance_time, 0.0)
    c, s, hx, hy = np.cos(yaw), np.sin(yaw), plan.hips[i, 0], plan.hips[i, 1]
    fx, fy = plan.lifted[i]
    wx, wy = x + c * hx - s * hy - fx, y + s * hx + c * hy - fy
    share = min(1.0, plan.longest / max(np.hypot(wx, wy), 1e-12))
    return fx + wx * share, fy + wy * share


@compiled
def _ground_below(plan, angles, up, touches):
    """Height of the ground over the base's origin along the world's z, as the feet tell that touch, or else stand; in flight
    as if it were below all [m]."""
    feet, total, told = foot_places(plan.legs, angles), 0.0, 0
    flies = plan.swinging.all() and not touches.any()
    for i in range(len(feet)):
        if touches[i] or flies or (not touches.any() and not plan.swinging[i]):
            total += feet[i, 0] * up[0] + feet[i, 1] * up[1] + feet[i, 2] * up[2]
            told += 1
    return total / told


@compiled
def _ground_under(plan, i, t, below, up, v):
    """Height in the base frame of the ground below foot i, and its rate [m, m/s]."""
    x, dx, _ = seen(plan, i, t)
    z = (below - x[0] * up[0] - x[1] * up[1]) / up[2]
    rising = (
        (v[0] + v[4] * z - v[5] * x[1]) * up[0]
        + (v[1] + v[5] * x[0] - v[3] * z) * up[1]
        + (v[2] + v[3] * x[1] - v[4] * x[0]) * up[2]
    )
    return z, -(rising + dx[0] * up[0] + dx[1] * up[1]) / up[2]


@compiled
def seen(plan, i, t):
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


@compiled
def ahead(plan, time, changing):
    """The base's x, y, yaw after so long [s] at its velocity, which changes for `changing` [s] before."""
    x, y, yaw = plan.pose
    dx, dy, turn = (plan.u + changing * plan.du) * time
    half = 0.5 * turn
    chord = np.sin(half) / half if abs(half) > 1e-8 else 1.0
    c, s = chord * np.cos(yaw + half), chord * np.sin(yaw + half)
    return x + c * dx - s * dy, y + s * dx + c * dy, yaw + turn
