"""Kernels of the gait plan: the feet and the ground in the level frame of the base. See `controllers.planners.steps`."""

import numpy as np

from controllers.planners.cubics import at
from controllers.planners.legs import Triad, foot_places
from controllers.planners.path import Triple
from controllers.planners.plan import Plan
from controllers.planners.pose import begin_leaning, lean_on, level_point
from controllers.planners.slope import RATE, across, advance_slope, begin, follow_height, heading_axes, observe, watch
from idyn.jit.compiled import compiled
from idyn.model import so3
from idyn.types import Array


@compiled
def ground_below(plan: Plan, angles: Array, n: Array, touches: Array) -> float:
    """Return the height of the ground below the origin of the level frame, along the world's z and relative to it [m].

    It is the mean height of the feet that touch; without any, of the feet planned to stand; in flight, of all feet. On a slope
    these are heights above the parallel plane through the origin; on known uneven ground, above it.
    angles: measured joint angles, see `Legs` [rad] (m)
    n: n · x is the height of a point x of the level frame (3), see `controllers.planners.slope.across`
    """
    feet, total, count = foot_places(plan.legs, angles), 0.0, 0
    flies = plan.swinging.all() and not touches.any()
    for i in range(len(feet)):
        if touches[i] or flies or (not touches.any() and not plan.swinging[i]):
            x = feet[i, 0], feet[i, 1], feet[i, 2]
            if plan.base.away:
                x = level_point(plan.base, x)
            total += x[0] * n[0] + x[1] * n[1] + x[2] * n[2] - plan.slope.heights[i]
            count += 1
    return total / count


@compiled
def ground_under(plan: Plan, i: int, t: float, below: float, n: Array, v: Array) -> tuple[float, float]:
    """Return the height of the ground below foot i above the planned slope through the origin of the level frame [m], and its
    rate [m/s].

    below: height of the ground, from `ground_below` [m]; n: see there; v: velocity of the level frame (6 or more)
    """
    x, dx, _ = foot_at(plan, i, t)
    # nᵀ x = below, solved for z; its rate with the velocity of the base, nᵀ (v + ω × x)
    z = (below + plan.slope.heights[i] - x[0] * n[0] - x[1] * n[1]) / n[2]
    rising = (
        (v[0] + v[4] * z - v[5] * x[1]) * n[0]
        + (v[1] + v[5] * x[0] - v[3] * z) * n[1]
        + (v[2] + v[3] * x[1] - v[4] * x[0]) * n[2]
    )
    rate = -(rising + dx[0] * n[0] + dx[1] * n[1]) / n[2]
    offset, moving, _ = _above_ground(plan, x, dx, (0.0, 0.0, 0.0))
    return z - offset, rate - moving


@compiled
def foot_at(plan: Plan, i: int, t: float) -> tuple[Triple, Triple, Triple]:
    """Return position, velocity and acceleration of foot i in the level frame of the base (3)."""
    # x = Rᵀ (f − c), Rᵀ ḟ, Rᵀ f̈ in the plane
    (x, y, yaw), u, du = plan.pose, plan.u, plan.du
    (px, vx, ax), (py, vy, ay), (z, vz, az) = at(plan.cubics, i, 0, t), at(plan.cubics, i, 1, t), at(plan.cubics, i, 2, t)
    c, s, turn = np.cos(yaw), np.sin(yaw), u[2]
    fx, fy = c * (px - x) + s * (py - y), c * (py - y) - s * (px - x)
    vx, vy = c * vx + s * vy, c * vy - s * vx
    ax, ay = c * ax + s * ay, c * ay - s * ax
    # ẋ = Rᵀ ḟ − u − ω × x,  ẍ = Rᵀ f̈ − ω × Rᵀ ḟ − u̇ − ω̇ × x − ω × ẋ
    dx, dy = vx - u[0] + turn * fy, vy - u[1] - turn * fx
    ddx = ax + turn * vy - du[0] + du[2] * fy + turn * dy
    ddy = ay - turn * vx - du[1] - du[2] * fx - turn * dx
    offset, moving, speeding = _above_ground(plan, (fx, fy, z), (dx, dy, vz), (ddx, ddy, az))
    return (fx, fy, z + offset), (dx, dy, vz + moving), (ddx, ddy, az + speeding)


@compiled
def _above_ground(plan: Plan, x: Triple, dx: Triple, ddx: Triple) -> Triple:
    """Return where the planned height of a foot counts from, in the level frame, and its rates: at the foot, the slope through
    the origin z = g · (x, y); on known uneven ground, the world's z = 0."""
    slope = plan.slope
    if slope.uneven:
        return -slope.heave[0], -slope.heave[1], -slope.heave[2]
    g, dg, ddg = slope.g, slope.dg, slope.ddg
    return (
        g[0] * x[0] + g[1] * x[1],
        g[0] * dx[0] + g[1] * dx[1] + dg[0] * x[0] + dg[1] * x[1],
        g[0] * ddx[0] + g[1] * ddx[1] + 2.0 * (dg[0] * dx[0] + dg[1] * dx[1]) + ddg[0] * x[0] + ddg[1] * x[1],
    )


@compiled
def incline(plan: Plan, t: float, measured: Triad, touches: Array) -> None:
    """Update slope of the ground and attitude of the base from the last tick to time t. measured: see
    `controllers.planners.steps.follow`"""
    slope, base, q = plan.slope, plan.base, measured[0]
    up, yaw, feet = so3.up(q[3:7]), so3.yaw(q[3:7]), foot_places(plan.legs, measured[2])
    stands = np.empty_like(touches)
    for i in range(len(stands)):
        stands[i] = touches[i] and not (plan.swinging[i] or plan.seeking[i])
    first = np.isnan(plan.t)
    if first:
        begin(slope, feet, up, stands, yaw)
    advance_slope(slope, 0.0 if first else t - plan.t, yaw, plan.u[2])
    lean_on(base, slope.g, slope.dg, slope.ddg)
    if first:
        begin_leaning(base, up)
        for i in range(len(stands)):
            plan.cubics.c[i, 2, 0] += slope.heights[i]
    observe(slope, feet, up, stands, yaw, RATE * plan.tick)
    if slope.watches:
        watch(slope, _places(feet, q, yaw), stands, _goals(plan, q, yaw), t)
    follow_height(slope, plan.u)
    plan.t = t


@compiled
def _places(feet: Array, q: Array, yaw: float) -> Array:
    """Return the places of feet (n, 3) of the base frame in the world [m] (n, 3)."""
    up, places = so3.up(q[3:7]), np.empty_like(feet)
    (ax, ay), c, s = heading_axes(up), np.cos(yaw), np.sin(yaw)
    for i in range(len(feet)):
        x, y, z = 0.0, 0.0, q[2]
        for k in range(3):
            x, y, z = x + ax[k] * feet[i, k], y + ay[k] * feet[i, k], z + up[k] * feet[i, k]
        places[i, 0], places[i, 1], places[i, 2] = q[0] + c * x - s * y, q[1] + s * x + c * y, z
    return places


@compiled
def _goals(plan: Plan, q: Array, yaw: float) -> Array:
    """Return where the feet in the air are to land, in the world, NaN of the others [m] (n, 2)."""
    goals, turn = np.full((len(plan.hips), 2), np.nan), yaw - plan.pose[2]
    c, s = np.cos(turn), np.sin(turn)
    for i in range(len(goals)):
        if plan.swinging[i] or plan.seeking[i]:
            x, y = plan.slope.goal[i, 0] - plan.pose[0], plan.slope.goal[i, 1] - plan.pose[1]
            goals[i, 0], goals[i, 1] = q[0] + c * x - s * y, q[1] + s * x + c * y
    return goals


@compiled
def vertical(plan: Plan, up: Array) -> Array:
    """Return n (3): heights n · x of points of the level frame above the slope, or on known uneven ground above a level."""
    return up if plan.slope.uneven else across(plan.slope, up)
