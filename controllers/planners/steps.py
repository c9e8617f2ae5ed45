"""How the plan of a walking robot goes on from tick to tick, and when and where its feet step: see
`controllers.planners.locomotion`; the plan: `controllers.planners.plan.Plan`."""

import numpy as np

from controllers.planners.cubics import aim, at, stop
from controllers.planners.legs import Triad, foot_places, solve
from controllers.planners.path import DONE, Triple, command
from controllers.planners.plan import Plan
from controllers.robot import attitude
from idyn.jit.compiled import compiled
from idyn.solvers.linalg import copy
from idyn.terms.inputs import finite
from idyn.types import Array

STILL = 1e-9
"""A base slower than this stands [m/s, rad/s]."""

AT_HOME = 1e-3
"""Feet nearer than this to their places under the hips need no further step [m]."""

LANDING = 0.1
"""Share of the swing time in which a foot that is about to land, or is late, is to reach the ground."""

EARLY = 0.4
"""Share of the swing at its end in which ground that is met ends it."""

REDIRECT = 0.75
"""Share of the swing until which its goal follows the command."""

TOUCHDOWN_SPEED = 0.15
"""With which a foot is to meet the ground [m/s]."""

TOUCHING = 1e-4
"""A foot with a gap up to this touches [m]."""

SETTLE = 0.1
"""After touchdown a foot goes to its height below a level base in this time [s]."""


@compiled
def forget(plan: Plan) -> None:
    """The next tick is the first; until the gait begins the feet go under the hips."""
    plan.t, plan.lag, plan.patience = np.nan, 0.0, plan.most_patience
    plan.pose[:], plan.u[:], plan.du[:], plan.phase[:], plan.end[:] = 0.0, 0.0, 0.0, 0.0, 0.0
    plan.wait[:], plan.swinging[:], plan.seeking[:] = np.inf, False, False
    for i in range(len(plan.hips)):
        for k in range(2):
            aim(plan.ways, i, k, 0.0, plan.start, plan.hips[i, k], 0.0)


@compiled
def follow(plan: Plan, t: float, measured: Triad, contacts: tuple[Array, Array], motion: Triad) -> bool:
    """The plan at time t [s], and the joints' motion that goes with it: fills angles, speeds and accelerations (na). Whether
    every leg reaches so far.

    measured: q, v and the joint angles of the robot as it is
    contacts: their places, −1 for those that are elsewhere, and gaps (n)
    """
    _advance(plan, t)
    if t >= plan.start:
        # the base's acceleration u̇ towards the commanded velocity, then lift-offs, swings and touchdowns
        q = measured[0]
        if plan.walks:
            wanted = command(plan.path, t - plan.start, (q[0], q[1], attitude.yaw(q[3:7])))
            for k in range(3):
                limit = plan.path.accelerations[k]
                plan.du[k] = min(max((wanted[k] - plan.u[k]) / plan.tick, -limit), limit)
        _step(plan, t, plan.path.progress[DONE] == 0, measured, _touching(plan, contacts))
    # the feet as the base sees them: x, ẋ, ẍ, and the joints that go with them, from the last reference on
    feet = np.empty((3, len(plan.hips), 3))
    for i in range(len(plan.hips)):
        feet[0, i], feet[1, i], feet[2, i] = _seen(plan, i, t)
    copy(plan.angles, motion[0])
    reached = solve(plan.legs, (feet[0], feet[1], feet[2]), motion)
    if finite(motion[0]):
        copy(motion[0], plan.angles)
    return reached


@compiled
def _touching(plan: Plan, contacts: tuple[Array, Array]) -> Array:
    """Which feet touch (n)."""
    places, gaps = contacts
    touches = np.zeros(len(plan.hips), dtype=np.bool_)
    for i in range(min(len(places), len(gaps))):
        if places[i] >= 0 and gaps[i] <= TOUCHING:
            touches[places[i]] = True
    return touches


@compiled
def _advance(plan: Plan, t: float) -> None:
    """The base from the last tick to this one, with the acceleration decided then."""
    dt = 0.0 if np.isnan(plan.t) else t - plan.t
    plan.t = t
    plan.pose[0], plan.pose[1], plan.pose[2] = _ahead(plan, dt, 0.5 * dt)
    for k in range(3):
        plan.u[k] += dt * plan.du[k]


@compiled
def _step(plan: Plan, t: float, onwards: bool, measured: Triad, touches: Array) -> None:
    """Lift-offs, swings and touchdowns."""
    # lift-offs: feet whose phase says so, when there is reason to step; a standing foot that lost the ground seeks it
    lifts, phase = _begun(plan, t, touches), plan.phase
    goes = lifts.any() and _wants_to_step(plan, t, onwards)
    for i in range(len(phase)):
        if not (plan.swinging[i] or plan.seeking[i] or touches[i]):  # it is to stand but does not touch any more
            plan.seeking[i] = True
            _stop_in_plane(plan, i, t)
        if goes and lifts[i]:
            _lift(plan, i, t, (1.0 - phase[i]) * plan.period)
    # touchdowns: on ground that is met late in the swing; a foot whose swing ends without ground seeks it further down
    for i in range(len(phase)):
        if not (plan.swinging[i] or plan.seeking[i]):
            continue
        late = phase[i] < plan.duty or phase[i] > 1.0 - EARLY * (1.0 - plan.duty)
        if touches[i] and late:
            _land(plan, i, t)
        elif phase[i] < plan.duty and not plan.seeking[i]:
            plan.swinging[i], plan.seeking[i] = False, True
            _stop_in_plane(plan, i, t)
    # the cubics of the feet in the air, and how long each foot stays where it is
    _reach(plan, t, measured, touches)
    if plan.walks:
        for i in range(len(phase)):
            left = 1.0 - phase[i] if plan.swinging[i] else (plan.duty - phase[i]) % 1.0
            plan.wait[i] = left * plan.period


@compiled
def _begun(plan: Plan, t: float, touches: Array) -> Array:
    """Which feet are to lift now (n); the phases go on, unless the feet that are to carry instead do not touch yet."""
    n = len(plan.phase)
    lifts, phase = np.zeros(n, dtype=np.bool_), np.empty(n)
    for i in range(n):
        phase[i] = ((t - plan.start - plan.lag) / plan.period - plan.touchdown[i]) % 1.0
        lifts[i] = phase[i] >= plan.duty and not plan.swinging[i] and plan.phase[i] < plan.duty
    # lift-offs wait for the feet that are to carry instead, as long as `patience` lasts; the gait is late by as much
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
def _wants_to_step(plan: Plan, t: float, onwards: bool) -> bool:
    """Whether there is still a way to go, the base moves, or a foot is not under its hip."""
    if not plan.walks:
        return False
    away = onwards or np.abs(plan.u).max() > STILL
    for i in range(len(plan.hips)):
        x, _, _ = _seen(plan, i, t)
        for k in range(3):
            away = away or abs(x[k] - plan.hips[i, k]) > AT_HOME
    return away


@compiled
def _stop_in_plane(plan: Plan, i: int, t: float) -> None:
    """Foot i moves no further across the plane."""
    stop(plan.ways, i, 0, t)
    stop(plan.ways, i, 1, t)


@compiled
def _lift(plan: Plan, i: int, t: float, swing: float) -> None:
    """Foot i begins a swing of that time [s], upwards for the first half."""
    plan.swinging[i], plan.seeking[i], plan.end[i] = True, False, t + swing
    for k in range(2):
        plan.lifted[i, k], _, _ = at(plan.ways, i, k, t)
    aim(plan.ways, i, 2, t, t + 0.5 * swing, plan.hips[i, 2] + plan.step_height, 0.0)


@compiled
def _land(plan: Plan, i: int, t: float) -> None:
    """Stay on the ground that was met, and level the base."""
    plan.swinging[i] = plan.seeking[i] = False
    _stop_in_plane(plan, i, t)
    stop(plan.ways, i, 2, t)
    aim(plan.ways, i, 2, t, t + SETTLE, plan.hips[i, 2], 0.0)


@compiled
def _reach(plan: Plan, t: float, measured: Triad, touches: Array) -> None:
    """Aim the swinging feet at their footholds, and those that are late at the ground."""
    below, up = np.nan, attitude.up(measured[0][3:7])
    for i in range(len(plan.hips)):
        if not (plan.swinging[i] or plan.seeking[i]):
            continue
        # across the plane: to the foothold, until late in the swing
        left = plan.end[i] - t
        share = left / plan.swing_time
        if plan.swinging[i] and share >= 1.0 - REDIRECT:
            x, y = _foothold(plan, i, left)
            aim(plan.ways, i, 0, t, plan.end[i], x, 0.0)
            aim(plan.ways, i, 1, t, plan.end[i], y, 0.0)
        # in height: in the second half, from the top on without losing a tick, to the ground below; beyond it while seeking
        falls = share >= LANDING and left <= 0.5 * plan.swing_time + plan.tick
        if not (plan.seeking[i] or falls):
            continue
        if np.isnan(below):
            below = _ground_below(plan, measured[2], up, touches)
        goal, speed = _ground_under(plan, i, t, below, up, measured[1])
        speed, until = speed - TOUCHDOWN_SPEED, plan.end[i]
        if plan.seeking[i]:
            until = t + LANDING * plan.swing_time
            goal = at(plan.ways, i, 2, t)[0] + speed * (until - t)
        aim(plan.ways, i, 2, t, until, goal, speed)


@compiled
def _foothold(plan: Plan, i: int, left: float) -> tuple[float, float]:
    """x, y where foot i will be under its hip in the middle of the stance that begins in `left` [s]."""
    x, y, yaw = _ahead(plan, left + 0.5 * plan.stance_time, 0.0)
    c, s, hx, hy = np.cos(yaw), np.sin(yaw), plan.hips[i, 0], plan.hips[i, 1]
    fx, fy = plan.lifted[i]
    wx, wy = x + c * hx - s * hy - fx, y + s * hx + c * hy - fy
    share = min(1.0, plan.longest / max(np.hypot(wx, wy), 1e-12))
    return fx + wx * share, fy + wy * share


@compiled
def _ground_below(plan: Plan, angles: Array, up: Array, touches: Array) -> float:
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
def _ground_under(plan: Plan, i: int, t: float, below: float, up: Array, v: Array) -> tuple[float, float]:
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
def _seen(plan: Plan, i: int, t: float) -> tuple[Triple, Triple, Triple]:
    """Place, velocity and acceleration of foot i in the base frame (3)."""
    # f, ḟ, f̈ in the plane, turned into the base's heading: Rᵀ (f − c), Rᵀ ḟ, Rᵀ f̈
    (x, y, yaw), u, du = plan.pose, plan.u, plan.du
    (px, vx, ax), (py, vy, ay), (z, vz, az) = at(plan.ways, i, 0, t), at(plan.ways, i, 1, t), at(plan.ways, i, 2, t)
    c, s, turn = np.cos(yaw), np.sin(yaw), u[2]
    fx, fy = c * (px - x) + s * (py - y), c * (py - y) - s * (px - x)
    vx, vy = c * vx + s * vy, c * vy - s * vx
    ax, ay = c * ax + s * ay, c * ay - s * ax
    # ẋ = Rᵀ ḟ − u − ω × x,  ẍ = Rᵀ f̈ − ω × Rᵀ ḟ − u̇ − ω̇ × x − ω × ẋ
    dx, dy = vx - u[0] + turn * fy, vy - u[1] - turn * fx
    ddx = ax + turn * vy - du[0] + du[2] * fy + turn * dy
    ddy = ay - turn * vx - du[1] - du[2] * fx - turn * dx
    return (fx, fy, z), (dx, dy, vz), (ddx, ddy, az)


@compiled
def _ahead(plan: Plan, time: float, changing: float) -> Triple:
    """The base's x, y, yaw after so long [s] at its velocity, which changes for `changing` [s] before."""
    x, y, yaw = plan.pose
    dx, dy, turn = (plan.u + changing * plan.du) * time
    half = 0.5 * turn
    chord = np.sin(half) / half if abs(half) > 1e-8 else 1.0
    c, s = chord * np.cos(yaw + half), chord * np.sin(yaw + half)
    return x + c * dx - s * dy, y + s * dx + c * dy, yaw + turn
