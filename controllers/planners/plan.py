"""Record of the gait plan, its cubics, and kernels of the feet and the ground in the level frame of the base, see
`controllers.planners.locomotion`; the update in each tick is in `controllers.planners.steps`."""

import numpy as np

from controllers.planners.gait import FastSettings, GaitSettings
from controllers.planners.legs import Legs, Triad, foot_places
from controllers.planners.path import Path, Triple
from controllers.planners.pose import BasePose, begin_leaning, lean_on, level_point
from controllers.planners.slope import RATE, Slope, across, advance_slope, begin, follow_height, heading_axes, observe, watch
from idyn.library.kernels import compiled
from idyn.library.records import ArrayRecord, Cube, Flags, Matrix, Vector
from idyn.model import so3
from idyn.solvers.linalg import fill
from idyn.types import Array


class Cubics(ArrayRecord):
    """Paths of n points in d coordinates, one cubic per coordinate. A coordinate rests at the end of its cubic."""

    c: Cube  # coefficients of 1, s, s², s³, with s the time since `since` (n, d, 4)
    since: Matrix  # start of each cubic [s] (n, d)
    until: Matrix  # end of each cubic [s] (n, d)

    def __init__(self, points: Array) -> None:
        """Start at rest at `points` (n, d)."""
        c = np.zeros((*points.shape, 4))
        c[..., 0] = points
        self.put(c=c, since=np.zeros(points.shape), until=np.zeros(points.shape))

    def rest(self, points: Array) -> None:
        """Set all points to rest at the positions `points` (n, d)."""
        self.c[...], self.since[:], self.until[:] = 0.0, 0.0, 0.0
        self.c[..., 0] = points


@compiled
def at(cubics: Cubics, i: int, k: int, t: float) -> tuple[float, float, float]:
    """Return position, velocity and acceleration (from the right) of coordinate k of point i at time t [s]."""
    c, until = cubics.c[i, k], cubics.until[i, k]
    s = min(t, until) - cubics.since[i, k]
    p = c[0] + s * (c[1] + s * (c[2] + s * c[3]))
    if t >= until:
        return p, 0.0, 0.0
    return p, c[1] + s * (2 * c[2] + s * 3 * c[3]), 2 * c[2] + s * 6 * c[3]


@compiled
def stop(cubics: Cubics, i: int, k: int, t: float) -> None:
    """Stop the coordinate at its position at time t [s]."""
    p, _, _ = at(cubics, i, k, t)
    fill(cubics.c[i, k], 0.0)
    cubics.c[i, k, 0] = p
    cubics.since[i, k] = cubics.until[i, k] = t


@compiled
def aim(cubics: Cubics, i: int, k: int, t: float, until: float, goal: float, velocity: float) -> None:
    """Start a cubic at time t from the current position and velocity to `goal` with `velocity` at time `until` [s].

    Does nothing if `until` ≤ t.
    """
    if until <= t:
        return
    c, T = cubics.c[i, k], until - t
    p, v, _ = at(cubics, i, k, t)
    distance = goal - p
    # x(T) = goal, ẋ(T) = velocity
    c[0], c[1] = p, v
    c[2] = (3 * distance / T - 2 * v - velocity) / T
    c[3] = (-2 * distance / T + v + velocity) / (T * T)
    cubics.since[i, k], cubics.until[i, k] = t, until


HOLDS, HALTS, READY = 0, 1, 2  # indices into `Plan.change`
GRAVITY = 9.81  # [m/s²]


class Plan(ArrayRecord):
    """Plan of a gait with n feet. Period, duty and step height follow the speed, see `GaitSettings`."""

    legs: Legs  # inverse kinematics
    path: Path  # path follower of the base
    base: BasePose  # height and attitude of the base; all feet below are in its level frame
    slope: Slope  # of the ground
    cubics: Cubics  # paths of x, y in the plane and of z in the level frame, above the slope through its origin
    hips: Matrix  # nominal positions of the feet under the hips, level frame [m] (n, 3)
    lifted: Matrix  # position at lift-off in the plane [m] (n, 2)
    touchdown: Vector  # touchdown phases (n)
    pose: Vector  # of the base: x, y [m], yaw [rad] (3)
    u: Vector  # velocity in the frame of the base, forward, left [m/s], turn [rad/s] (3)
    du: Vector  # its rate (3)
    phase: Vector  # share of the period since touchdown (n)
    wait: Vector  # time until a foot lifts or lands [s] (n)
    end: Vector  # end of the swing [s]; −inf after a standing foot lost the ground (n)
    touched: Vector  # time at which the foot last touched [s] (n)
    angles: Vector  # last reference of the joints, see `Legs` [rad] (m)
    # while another gait is awaited: lift-offs are held back, the base halts; all feet stand, so that the gait may change (3)
    change: Flags
    cut: Flags  # whether a foothold was moved within reach in this tick (1)
    cycle: Vector  # number of periods since the start of the gait (1)
    slow: Vector  # period, duty and step_height at low speed (3)
    fast: Vector  # the same at high speed (3)
    speeds: Vector  # speeds of the hips at which the gait begins to change, and has changed [m/s] (2)
    ramp: Vector  # commanded velocity within the acceleration limits (3)
    seen: Vector  # measured velocity, smoothed (3)
    swinging: Flags  # planned to be in the air (n)
    seeking: Flags  # planned to stand, lowered in search of the ground (n)
    walks: bool  # whether feet lift
    start: float  # start of the gait [s]
    tick: float  # control period [s]
    period: float
    duty: float
    swing_time: float  # duration of a swing [s]
    stance_time: float  # duration of a stance [s]
    stride: float  # largest distance of a foothold from the hip, forwards [m]
    slender: float  # `stride` over that distance sideways
    capture: float  # distance of a capture point per velocity [s]; 0: the plan does not follow the measured velocity
    share: float  # share of the gait at high speed in the present one
    lifting: float  # duty factor at which `phase` was last compared
    dt: float  # time since the tick before [s]
    step_height: float
    max_patience: float  # `patience` of `GaitSettings` [s]
    t: float  # time of the last tick [s], NaN before the first
    patience: float  # remaining time for which lift-offs may wait [s]

    def __init__(
        self,
        legs: Legs,
        path: Path,
        base: BasePose,
        slope: Slope,
        *,
        hips: Array,
        gait: GaitSettings,
        times: tuple[float, float],
        angles: Array,
    ) -> None:
        """times: start of the gait, control period [s]
        angles: joint angles of the stance [rad] (m)
        Raises ConfigError if the settings are not a gait of these feet."""
        n = len(hips)
        self.put(legs=legs, path=path, base=base, slope=slope, cubics=Cubics(hips), hips=hips, start=times[0], tick=times[1])
        self.put(stride=np.inf, slender=1.0, dt=0.0, cut=np.zeros(1, np.bool_))
        self.put(angles=angles.copy(), lifted=np.zeros((n, 2)), cycle=np.zeros(1))
        self.put(**{name: np.zeros(3) for name in ("pose", "u", "du", "ramp", "seen", "slow", "fast")}, speeds=np.zeros(2))
        self.put(**{name: np.zeros(n) for name in ("phase", "wait", "end", "touched", "touchdown")})
        self.put(**{name: np.zeros(k, dtype=np.bool_) for name, k in (("swinging", n), ("seeking", n), ("change", 3))})
        self.adopt(gait)

    def adopt(self, gait: GaitSettings) -> None:
        """Set the timing and shape of the steps. Raises ConfigError if the settings are not a gait of these feet."""
        swing_time = (1.0 - gait.duty) * gait.period
        self.touchdown[:] = gait.phases(len(self.hips))
        self.put(walks=gait.pattern != "stand", period=gait.period, duty=gait.duty, step_height=gait.step_height)
        self.put(swing_time=swing_time, stance_time=gait.duty * gait.period, max_patience=gait.patience)
        self.slow[:] = gait.period, gait.duty, gait.step_height
        fast = gait.fast or FastSettings(speeds=(1e9, 2e9), period=gait.period, duty=gait.duty, step_height=gait.step_height)
        self.fast[:], self.speeds[:] = (fast.period, fast.duty, fast.step_height), fast.speeds
        self.put(share=0.0, lifting=gait.duty, capture=gait.capture * np.sqrt(np.abs(self.hips[:, 2]).mean() / GRAVITY))
        self.change[:] = False

    def restart_cycle(self, t: float) -> None:
        """Begin the cycle at time t [s], while all feet stand: just before a lift-off at which as many feet as possible are in
        their planned stance, so that feet lift as near as possible to their nominal positions. Feet that are in their planned
        swing stand until their next lift-off."""
        if not self.walks:
            self.u[:], self.du[:], self.ramp[:], self.wait[:] = 0.0, 0.0, 0.0, np.inf
            return
        begins = self.touchdown + self.duty - 0.5 * self.tick / self.period
        phases = (begins[:, None] - self.touchdown) % 1.0  # of each foot, if the cycle begins with the lift-off of the first
        left = (self.duty - phases) % 1.0 * self.period
        x, y, yaw = self.pose
        R = np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
        moved = (self.places(t) - (x, y)) @ R - self.hips[:, :2]  # relative to the nominal places, level frame [m] (n, 2)
        away = np.abs(moved - left[..., None] * self.u[:2]).max(axis=(1, 2))
        standing = (phases < self.duty).sum(axis=1)
        best = int(np.argmin(np.where(standing == standing.max(), away, np.inf)))
        self.phase[:] = phases[best]
        self.cycle[0] = begins[best]

    def places(self, t: float) -> Array:
        """Return the places of the feet in the plane at time t [s] [m] (n, 2)."""
        c, s = self.cubics.c[:, :2], (np.minimum(t, self.cubics.until) - self.cubics.since)[:, :2]
        found: Array = c[..., 0] + s * (c[..., 1] + s * (c[..., 2] + s * c[..., 3]))
        return found


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
