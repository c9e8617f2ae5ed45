"""Kernels of the gait plan that follow the speed: velocity of the base, timing of the gait, footholds.

The planned velocity u follows the command r, which is limited in acceleration. Where the measured velocity v differs from u by
more than a band, u yields to it, so that the legs do not fight a push, and returns to r at a bounded rate:

    u ← u + λ dt band(v − u),     u̇ = ṙ + bounded((r − u) / τ)
A foothold is the place of the hip at touchdown, half a stance of the command further, and the capture point of the deviation:

    x = hip + r T_stance / 2 + k √(h / g) (u − r)
as for an inverted pendulum of height h: a foot at √(h/g) w ahead of it stops one that moves at w [Pratt 2006; Raibert 1986].
"""

import numpy as np

from controllers.planners.path import Triple, command, corrected
from controllers.planners.plan import HALTS, Plan
from idyn.jit.compiled import compiled
from idyn.model import so3
from idyn.types import Array

SMOOTHING = 0.015
"""Time constant of the measured velocity [s]."""

BANDS = (0.15, 0.15, 0.5)
"""Deviation of the measured from the planned velocity to which the plan does not yield [m/s, m/s, rad/s]; trots sway less."""

YIELDING = 30.0
"""Rate at which the planned velocity follows the measured one outside of the bands [1/s]."""

RETURN_TIME, RETURN = 0.1, (3.0, 3.0, 8.0)
"""Time constant of the return of the planned velocity to the commanded one [s], and its largest rate [m/s², rad/s²]."""

NEAR = 1e-4
"""Difference from the commanded velocity at which the return ends [m/s, rad/s]."""

RISE, FALL = 10.0, 1.0
"""Largest rates of the share of the fast gait [1/s]. The duty factor must not grow faster than the phase of a swinging foot."""


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


@compiled
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
