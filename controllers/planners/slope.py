"""Slope of the ground under a gait: the plane through the standing feet, or that of a known terrain, followed smoothly.

The gradient y of the plane, in the world frame, is observed by a low-pass filter of least-squares fits to the standing feet
dᵢ, hᵢ, relative to their means; ε keeps what two feet do not determine. The plan uses a gradient g that follows y, with s =
0 on ground that is level within `EVEN` and s = 1 on slopes:

    ẏ = Ω (Σ dᵢ dᵢᵀ + ε)⁻¹ Σ dᵢ (hᵢ − y · dᵢ),      g̈ = Ω² (s(‖y‖) y − g) − 2 Ω ġ
Where the places at which the feet stood last are on no plane, there are steps: for a while the plan is then careful.
"""

import numpy as np

from idyn.library.kernels import compiled
from idyn.library.records import ArrayRecord, Matrix, Vector
from idyn.solvers.linalg import axpy, copy, fill
from idyn.types import Array

RATE = 10.0  # Ω, natural frequency of both filters [rad/s]
REGULARISATION = 0.01  # ε as a share of Σ ‖dᵢ‖²
FASTEST = 0.25  # largest |eₖ|: the gradient changes by at most Ω/2 times as much per second
STEP = 0.05  # largest error of the height that is followed [m]
STEEPEST = 0.7  # largest component of a gradient; 35°
UNEVEN = 0.005  # distance of a foothold from the plane of all that only a step makes [m]: of 2 cm; 1 mrad of noise: 3 mm
CAREFUL, HIGHER = 1.0, 1.5  # time after the last step for which a plan is careful [s], and how many times higher its feet rise
EVEN, SLOPING = 0.015, 0.03  # gradients of level ground, and of slopes; in between s rises evenly


class Slope(ArrayRecord):
    """Gradient of the ground.

    On uneven ground heights are planned above z = 0 of the world instead of above the slope. Where feet met steps, `heights`
    are those above the slope.
    """

    follows: bool  # whether the gradient follows what is observed; otherwise the ground counts as level
    told: bool  # whether `target` is known; otherwise the gradient is observed by the feet
    uneven: bool  # whether also the height of the ground at each foothold is known, because the known ground is no plane
    watches: bool  # whether feet may meet steps that are not known
    careful: bool  # whether they have met some, until the time `until` [s]
    target: Vector  # gradient of the ground, known or observed, world frame (2)
    x: Vector  # gradient, world frame, with its rates dx, ddx (2)
    dx: Vector
    ddx: Vector
    g: Vector  # the same in the heading frame of the base: forward, left (2)
    dg: Vector
    ddg: Vector
    heights: Vector  # of the ground at each foothold [m] (n)
    lifted: Vector  # the same at the last lift-off (n)
    goal: Matrix  # wanted footholds of the feet in the air, in the plane of the plan [m] (n, 2)
    shift: Matrix  # from there to safe ones (n, 2)
    heave: Vector  # height that the base follows, and its rates [m] (3)
    last: Matrix  # places where the feet stood last, NaN before, world [m] (n, 3)
    below: float  # height below the base of the plane through the footholds [m]
    until: float
    rise: float  # height of swings as a multiple of `step_height`

    def __init__(self, feet: int = 4, *, follows: bool = False) -> None:
        self.put(follows=follows, told=False, uneven=False, watches=False, careful=False, below=0.0, heave=np.zeros(3))
        self.put(until=-np.inf, rise=1.0, last=np.full((feet, 3), np.nan))
        self.put(heights=np.zeros(feet), lifted=np.zeros(feet), goal=np.zeros((feet, 2)), shift=np.zeros((feet, 2)))
        self.put(**{name: np.zeros(2) for name in ("target", "x", "dx", "ddx", "g", "dg", "ddg")})

    def reset(self) -> None:
        """Return to level ground."""
        for part in (self.target, self.x, self.dx, self.ddx, self.g, self.dg, self.ddg, self.heave):
            part[:] = 0.0
        for part in (self.heights, self.lifted, self.goal, self.shift):
            part[:] = 0.0
        self.last[:] = np.nan
        self.put(until=-np.inf)


@compiled
def advance_slope(slope: Slope, dt: float, yaw: float, turn: float) -> None:
    """Advance the gradient by a time [s], and express it in the heading frame.

    yaw: heading of the base [rad]; turn: its rate [rad/s]
    """
    x, dx, ddx = slope.x, slope.dx, slope.ddx
    for k in range(2):
        x[k] = min(max(x[k] + dt * (dx[k] + 0.5 * dt * ddx[k]), -STEEPEST), STEEPEST)
        dx[k] += dt * ddx[k]
    c, s, g, dg, ddg = np.cos(yaw), np.sin(yaw), slope.g, slope.dg, slope.ddg
    g[0], g[1] = c * x[0] + s * x[1], c * x[1] - s * x[0]
    # ġ = Rᵀ ẋ + ψ̇ (g_y, −g_x), and once more, at a constant turn rate
    rx, ry = c * dx[0] + s * dx[1], c * dx[1] - s * dx[0]
    dg[0], dg[1] = rx + turn * g[1], ry - turn * g[0]
    ddg[0] = c * ddx[0] + s * ddx[1] + turn * (dg[1] + ry)
    ddg[1] = c * ddx[1] - s * ddx[0] - turn * (dg[0] + rx)
    heave = slope.heave
    heave[0] += dt * (heave[1] + 0.5 * dt * heave[2])
    heave[1] += dt * heave[2]


@compiled
def observe(slope: Slope, feet: Array, up: Array, stands: Array, yaw: float, share: float) -> None:
    """Observe the gradient, unless it is told, and let the planned one follow it.

    feet: measured foot centres in the base frame [m] (n, 3); up: world's z axis in the base frame (3)
    stands: which feet stand on the ground (n)
    share: of the observed change that is taken over: Ω dt, or 1 in the first tick
    """
    if not slope.follows:
        return
    x, y = slope.target
    if not slope.told:
        c, s = np.cos(yaw), np.sin(yaw)
        ex, ey = plane_error(feet, up, stands, (c * x + s * y, c * y - s * x))
        slope.target[0], slope.target[1] = x + share * (c * ex - s * ey), y + share * (s * ex + c * ey)
    sloping = share_of_slope(slope)
    for k in range(2):
        left = min(max(sloping * slope.target[k] - slope.x[k], -FASTEST), FASTEST)
        slope.ddx[k] = RATE * (RATE * left - 2.0 * slope.dx[k])


@compiled
def watch(slope: Slope, places: Array, stands: Array, goals: Array, t: float) -> None:
    """Be careful for a while after feet stood where no plane passes through all of them, with the heights of all footholds
    above the planned plane.

    places: of the feet, world [m] (n, 3); stands: which of them stand (n)
    goals: where feet in the air are to land, NaN of the others, world [m] (n, 2)
    t: time [s]
    """
    last, n = slope.last, len(places)
    for i in range(n):
        if (stands[i] or np.isnan(last[i, 0])) and np.isfinite(places[i].sum()):
            copy(places[i], last[i])
    middle, gx, gy = plane_of(last)
    for i in range(n):
        away = last[i] - middle
        if abs(away[2] - gx * away[0] - gy * away[1]) > UNEVEN:
            slope.until = t + CAREFUL
    slope.careful = t < slope.until
    slope.rise = HIGHER if slope.careful else 1.0
    gx, gy = gx - slope.x[0], gy - slope.x[1]
    for i in range(n):
        if not slope.careful:
            slope.heights[i] = 0.0
        elif np.isnan(goals[i, 0]):
            away = last[i] - middle
            slope.heights[i] = away[2] - slope.x[0] * away[0] - slope.x[1] * away[1]
        else:  # in the plane through the last places
            slope.heights[i] = gx * (goals[i, 0] - middle[0]) + gy * (goals[i, 1] - middle[1])


@compiled
def plane_of(places: Array) -> tuple[Array, float, float]:
    """Return the mean (3) of places (n, 3), and the gradient of the plane that fits them, level if they are on a line."""
    middle = np.zeros(3)
    for i in range(len(places)):
        middle += places[i] / len(places)
    xx, xy, yy, xz, yz = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(places)):
        x, y, z = places[i, 0] - middle[0], places[i, 1] - middle[1], places[i, 2] - middle[2]
        xx, xy, yy, xz, yz = xx + x * x, xy + x * y, yy + y * y, xz + x * z, yz + y * z
    det = xx * yy - xy * xy
    if not det > 1e-12:
        return middle, 0.0, 0.0
    return middle, (yy * xz - xy * yz) / det, (xx * yz - xy * xz) / det


@compiled
def follow_height(slope: Slope, u: Array) -> None:
    """Let the base follow the height of uneven ground. u: velocity of the base, forward and left [m/s] (2 or more)"""
    if slope.uneven:
        # like the gradient, plus the rise on the slope itself
        rise, left = slope.g[0] * u[0] + slope.g[1] * u[1], slope.below - slope.heave[0]
        slope.heave[2] = RATE * (RATE * min(max(left, -STEP), STEP) + 2.0 * (rise - slope.heave[1]))


@compiled
def share_of_slope(slope: Slope) -> float:
    """Return s, the share of the gradient that the plan uses."""
    return min(max((np.hypot(slope.target[0], slope.target[1]) - EVEN) / (SLOPING - EVEN), 0.0), 1.0)


@compiled
def begin(slope: Slope, feet: Array, up: Array, stands: Array, yaw: float) -> None:
    """Set the planned gradient to the one observed in the first tick; see `observe`. Fewer than three feet count as level."""
    if not slope.told:
        fill(slope.target, 0.0)
    if slope.follows and stands.sum() >= 3:
        observe(slope, feet, up, stands, yaw, 1.0)
        for k in range(2):
            slope.x[k] = share_of_slope(slope) * slope.target[k]
    if slope.uneven:
        slope.heave[0] = slope.below


@compiled
def plane_error(feet: Array, up: Array, stands: Array, g: tuple[float, float]) -> tuple[float, float]:
    """Return the change of the gradient that fits a plane to the standing feet, heading frame. g: present gradient"""
    ax, ay = heading_axes(up)
    n, middle = 0, np.zeros(3)
    for i in range(len(feet)):
        if stands[i]:
            n += 1
            axpy(1.0, feet[i], middle)
    if n < 2:
        return 0.0, 0.0
    xx, xy, yy, bx, by = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(feet)):
        if not stands[i]:
            continue
        x, y, h = 0.0, 0.0, 0.0
        for k in range(3):
            d = feet[i, k] - middle[k] / n
            x, y, h = x + ax[k] * d, y + ay[k] * d, h + up[k] * d
        h -= g[0] * x + g[1] * y
        xx, xy, yy, bx, by = xx + x * x, xy + x * y, yy + y * y, bx + x * h, by + y * h
    damping = REGULARISATION * (xx + yy) if n < 3 else 0.0
    xx, yy = xx + damping, yy + damping
    det = xx * yy - xy * xy
    if det <= 1e-12:
        return 0.0, 0.0
    return (yy * bx - xy * by) / det, (xx * by - xy * bx) / det


@compiled
def heading_axes(up: Array) -> tuple[Array, Array]:
    """Return the horizontal axes, forward and left, in a frame in which `up` is the world's z axis (3)."""
    # forward: e_x without its part along `up`; left = up × forward
    length = np.sqrt(max(1.0 - up[0] * up[0], 1e-12))
    ax, ay = np.empty(3), np.empty(3)
    for k in range(3):
        ax[k] = ((1.0 if k == 0 else 0.0) - up[0] * up[k]) / length
    ay[0] = up[1] * ax[2] - up[2] * ax[1]
    ay[1] = up[2] * ax[0] - up[0] * ax[2]
    ay[2] = up[0] * ax[1] - up[1] * ax[0]
    return ax, ay


@compiled
def across(slope: Slope, up: Array) -> Array:
    """Return n (3), with which n · x of a point x is its vertical height above the plane through the origin. up: see
    `heading_axes`"""
    ax, ay = heading_axes(up)
    n = np.empty(3)
    for k in range(3):
        n[k] = up[k] - slope.g[0] * ax[k] - slope.g[1] * ay[k]
    return n
