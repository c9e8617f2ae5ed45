"""Commanded height and attitude of the base: limits, smooth motion, and what they change for the feet. The base is raised by
h, then pitched by θ and rolled by φ in the level frame of the plan; h, φ, θ follow their targets with bounded rate and
acceleration:

    R = R_y(θ) R_x(φ),     x = Rᵀ (y − h e_z)          for a foot at y in the level frame and at x in the base frame
"""

import itertools

import msgspec
import numpy as np

from controllers.config.loading import Settings
from controllers.planners.legs import Legs, Triad, solve
from controllers.planners.path import Triple
from idyn.errors import ConfigError, InputError
from idyn.library.kernels import compiled, entry
from idyn.library.records import ArrayRecord, Matrix, Vector, written
from idyn.model.so3 import cross
from idyn.types import Array

GAIN = 6.0  # rate per distance to the target [1/s]; the rate follows with four times this gain, which is critical damping
FASTEST = (0.1, 0.4, 0.4)  # largest rates of height [m/s], roll and pitch [rad/s]
HASTE = 10.0  # largest acceleration per largest rate [1/s]; above `GAIN`, so that the motion stops without overshoot
ARRIVED = 1e-6  # distance and rate below which the motion has arrived [m, rad; m/s, rad/s]
BISECTIONS = 7  # number of bisections for the reach in the plane
SHARES = 21  # number of shares of the configured limits that are tried for the reach of the legs
FEET, MOTION = (Matrix,), written((Vector, Vector, Vector))  # types of the arguments `feet` and `motion` of `stand`


class PoseSettings(Settings, frozen=True):
    """Limits of the commanded height and attitude of the base. They shrink to the share that the legs of the stance reach."""

    # lower, higher: largest change of the height, downwards and upwards [m]
    lower: float = 0.06
    higher: float = 0.02
    tilt: float = 0.15  # largest roll and pitch [rad]


class BasePose(ArrayRecord):
    """Commanded pose of the base: height [m], roll, pitch [rad]."""

    target: Vector  # commanded pose (3)
    x: Vector  # present pose, with its rate dx and acceleration ddx (3)
    dx: Vector
    ddx: Vector
    fastest: Vector  # largest rates (3)
    lean: Vector  # roll and pitch of the ground, which are added, with their rates dlean, ddlean [rad] (2)
    dlean: Vector
    ddlean: Vector
    R: Matrix  # rotation from the base frame to the level frame (3, 3)
    w: Vector  # rate of R, in the base frame (3)
    dw: Vector  # its acceleration (3)
    away: bool  # whether the pose differs from the level stance or moves

    def __init__(self, settings: PoseSettings, where: str = "reference.pose") -> None:
        """Raises ConfigError for invalid settings."""
        for field, value in msgspec.structs.asdict(settings).items():
            if not 0.0 <= value < np.inf:
                raise ConfigError(f"{where}.{field}", f"expected a finite number ≥ 0, got {value}")
        s = settings
        self.bounds = np.array([[-s.lower, s.higher], [-s.tilt, s.tilt], [-s.tilt, s.tilt]])
        self.put(**{name: np.zeros(3) for name in ("target", "x", "dx", "ddx", "w", "dw")}, R=np.eye(3), away=False)
        self.put(**{name: np.zeros(2) for name in ("lean", "dlean", "ddlean")})
        self.put(fastest=np.array(FASTEST))

    def reset(self) -> None:
        """Return to the level stance at once."""
        for part in (self.target, self.x, self.dx, self.ddx, self.lean, self.dlean, self.ddlean):
            part[:] = 0.0
        self.R[:], self.w[:], self.dw[:] = np.eye(3), 0.0, 0.0
        self.put(away=False)


class Reach:
    """What the legs reach around a stance, within the limits of their joints.

    angles: joint angles of the stance, see `Legs` [rad] (m); feet: nominal foot centres in the level frame [m] (n, 3)
    """

    def __init__(self, legs: Legs, angles: Array, feet: Array, ranges: tuple[Array, Array]) -> None:
        """ranges: lower and upper limits of the joints with motors [rad] (na)"""
        self._legs, self._angles, self._feet, self._ranges = legs, angles, feet, ranges

    @property
    def strides(self) -> tuple[float, float]:
        """Largest distances to which the legs reach from their hips forwards and sideways, on level ground [m]. Both are the
        least of all directions, except for legs that move in planes only."""
        directions = np.arange(8) * np.pi / 4.0
        around = np.column_stack([np.cos(directions), np.sin(directions), np.zeros(8)])
        forward, aside = (around[::4], around[2::4]) if self._legs.planar else (around, around)
        return self._stride(forward), self._stride(aside)

    def _stride(self, directions: Array) -> float:
        """Return the largest distance to which the legs reach from their hips in all of some directions (·, 3) [m]."""
        rest, least, most = (0.0, 0.0, 0.0), 0.0, float(np.abs(self._feet[:, 2]).max())
        for _ in range(BISECTIONS):
            middle = 0.5 * (least + most)
            reached = all(self.reaches(rest, tuple((middle * each).tolist())) for each in directions)
            least, most = (middle, most) if reached else (least, middle)
        return least

    def reaches(self, pose: tuple[float, ...], moved: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> bool:
        """Return whether the legs reach their feet at a pose of the base: height, roll, pitch (3).

        moved: displacement of all feet [m] (3)
        """
        base, n = BasePose(PoseSettings()), len(self._angles)
        base.x[:] = base.target[:] = pose
        motion = self._angles.copy(), np.zeros(n), np.zeros(n)
        found = stand(base, self._legs, 0.0, (self._feet + np.array(moved),), motion)
        motors, (low, high) = motion[0][: len(self._ranges[0])], self._ranges
        return bool(found and (motors >= low).all() and (motors <= high).all())

    def limits(self, bounds: Array) -> Array:
        """Return the largest share of bounds (3, 2) whose corners the legs reach (3, 2)."""
        for share in np.linspace(1.0, 0.0, SHARES):
            if all(self.reaches(corner) for corner in itertools.product(*(share * bounds).tolist())):
                break
        return share * bounds


def check_pose(pose: Array, limits: Array) -> None:
    """Raise InputError for a pose (3) outside its limits (3, 2), with the field of a command."""
    fields = ("height", "m"), ("attitude[0]", "rad"), ("attitude[1]", "rad")
    for (field, unit), value, (low, high) in zip(fields, pose.tolist(), limits.tolist(), strict=True):
        if not low <= value <= high:
            raise InputError(field, f"expected {low:.4g} to {high:.4g} {unit}, got {value:.4g}")


@compiled
def advance(pose: BasePose, dt: float) -> None:
    """Move the pose towards its target for a time [s]."""
    x, dx, ddx = pose.x, pose.dx, pose.ddx
    away = False
    for k in range(3):
        # with the acceleration of the last tick, then the next one
        x[k] += dt * (dx[k] + 0.5 * dt * ddx[k])
        dx[k] += dt * ddx[k]
        left, fastest = pose.target[k] - x[k], pose.fastest[k]
        if abs(left) < ARRIVED and abs(dx[k]) < ARRIVED:
            x[k], dx[k], ddx[k] = pose.target[k], 0.0, 0.0
        else:
            rate = min(max(GAIN * left, -fastest), fastest)
            ddx[k] = min(max(4.0 * GAIN * (rate - dx[k]), -HASTE * fastest), HASTE * fastest)
        away = away or x[k] != 0.0 or dx[k] != 0.0 or ddx[k] != 0.0
    if away or pose.away:
        turn(pose)
    pose.away = away


@compiled
def lean_on(pose: BasePose, g: Array, dg: Array, ddg: Array) -> None:
    """Let the base lean with the ground, so that its z axis is normal to it. g, dg, ddg: gradient of the ground, forward and
    left, and its rates (2)"""
    (gx, gy), (vx, vy), (ax, ay), lean, dlean, ddlean = g, dg, ddg, pose.lean, pose.dlean, pose.ddlean
    if gx == 0.0 and gy == 0.0 and vx == 0.0 and vy == 0.0 and lean[0] == 0.0 and lean[1] == 0.0:
        return
    # tan θ = −g_x, and tan φ = g_y cos θ = y, with c = cos θ
    s = 1.0 / (1.0 + gx * gx)
    lean[1], dlean[1], ddlean[1] = -np.arctan(gx), -vx * s, -ax * s + 2.0 * gx * vx * vx * s * s
    c = np.sqrt(s)
    dc = -gx * vx * s * c
    ddc = (-(vx * vx + gx * ax) + 3.0 * gx * gx * vx * vx * s) * s * c
    y, dy, ddy = gy * c, vy * c + gy * dc, ay * c + 2.0 * vy * dc + gy * ddc
    r = 1.0 / (1.0 + y * y)
    lean[0], dlean[0], ddlean[0] = np.arctan(y), dy * r, ddy * r - 2.0 * y * dy * dy * r * r
    pose.away = True
    turn(pose)


@compiled
def begin_leaning(pose: BasePose, up: Array) -> None:
    """Start with the measured attitude, between level and leaning. up: world's z axis in the base frame (3)"""
    # roll and pitch of the base: up = (−sin θ, cos θ sin φ, cos θ cos φ)
    roll, pitch = np.arctan2(up[1], up[2]), -np.arcsin(min(max(up[0], -1.0), 1.0))
    size = pose.lean[0] ** 2 + pose.lean[1] ** 2
    if size > 0.0:
        share = min(max((roll * pose.lean[0] + pitch * pose.lean[1]) / size, 0.0), 1.0)
        pose.x[1], pose.x[2] = (share - 1.0) * pose.lean[0], (share - 1.0) * pose.lean[1]
        turn(pose)


@entry(BasePose, Legs, float, FEET, MOTION)
def stand(pose: BasePose, legs: Legs, dt: float, feet: tuple[Array], motion: Triad) -> bool:
    """Move the pose for a time [s] and fill the joint motion of feet that stand; return whether all of them are reached.

    feet: (foot centres in the level frame [m] (n, 3),); motion: see `controllers.planners.legs.solve`
    """
    advance(pose, dt)
    places, rest = feet[0], (0.0, 0.0, 0.0)
    x = np.empty((3, len(places), 3))
    for i in range(len(places)):
        x[0, i], x[1, i], x[2, i] = in_base(pose, (places[i, 0], places[i, 1], places[i, 2]), rest, rest)
    return solve(legs, (x[0], x[1], x[2]), motion)


@compiled
def turn(pose: BasePose) -> None:
    """Compute R, ω and ω̇ from the angles and their rates."""
    roll, pitch, R = pose.x[1] + pose.lean[0], pose.x[2] + pose.lean[1], pose.R
    p, t = pose.dx[1] + pose.dlean[0], pose.dx[2] + pose.dlean[1]
    pp, tt = pose.ddx[1] + pose.ddlean[0], pose.ddx[2] + pose.ddlean[1]
    cr, sr, cp, sp = np.cos(roll), np.sin(roll), np.cos(pitch), np.sin(pitch)
    R[0, 0], R[0, 1], R[0, 2] = cp, sp * sr, sp * cr
    R[1, 0], R[1, 1], R[1, 2] = 0.0, cr, -sr
    R[2, 0], R[2, 1], R[2, 2] = -sp, cp * sr, cp * cr
    # ω = φ̇ e_x + R_xᵀ θ̇ e_y
    w, dw = pose.w, pose.dw
    w[0], w[1], w[2] = p, t * cr, -t * sr
    dw[0], dw[1], dw[2] = pp, tt * cr - t * p * sr, -tt * sr - t * p * cr


@compiled
def in_base(pose: BasePose, y: Triple, dy: Triple, ddy: Triple) -> tuple[Triple, Triple, Triple]:
    """Return position, velocity and acceleration in the base frame of a point that is given in the level frame."""
    h, w, dw = (pose.x[0], pose.dx[0], pose.ddx[0]), pose.w, pose.dw
    # x = Rᵀ (y − h e_z),  ẋ = Rᵀ (ẏ − ḣ e_z) − ω × x,  ẍ = Rᵀ (ÿ − ḧ e_z) − ω × Rᵀ (ẏ − ḣ e_z) − ω̇ × x − ω × ẋ
    x = _back(pose.R, (y[0], y[1], y[2] - h[0]))
    v, a = _back(pose.R, (dy[0], dy[1], dy[2] - h[1])), _back(pose.R, (ddy[0], ddy[1], ddy[2] - h[2]))
    c = cross(w, x)
    dx = v[0] - c[0], v[1] - c[1], v[2] - c[2]
    c, d, e = cross(w, v), cross(dw, x), cross(w, dx)
    return x, dx, (a[0] - c[0] - d[0] - e[0], a[1] - c[1] - d[1] - e[1], a[2] - c[2] - d[2] - e[2])


@compiled
def level_point(pose: BasePose, x: Triple) -> Triple:
    """Return the place in the level frame of a point of the base frame (3): y = R x + h e_z."""
    R = pose.R
    return (
        R[0, 0] * x[0] + R[0, 1] * x[1] + R[0, 2] * x[2],
        R[1, 0] * x[0] + R[1, 1] * x[1] + R[1, 2] * x[2],
        R[2, 0] * x[0] + R[2, 1] * x[1] + R[2, 2] * x[2] + pose.x[0],
    )


@compiled
def level_motion(pose: BasePose, up: Array, v: Array) -> tuple[Array, Array]:
    """Return the world's z axis (3) and linear and angular velocity (6) of the level frame, in its axes, from those of the
    base."""
    raised, moves, w, R, h = np.empty(3), np.empty(6), pose.w, pose.R, pose.x[0]
    # ω_L = R (ω − ω_pose),  v_L = R v − ḣ e_z − ω_L × h e_z
    for i in range(3):
        raised[i] = R[i, 0] * up[0] + R[i, 1] * up[1] + R[i, 2] * up[2]
        moves[i] = R[i, 0] * v[0] + R[i, 1] * v[1] + R[i, 2] * v[2]
        moves[3 + i] = R[i, 0] * (v[3] - w[0]) + R[i, 1] * (v[4] - w[1]) + R[i, 2] * (v[5] - w[2])
    moves[0] -= moves[4] * h
    moves[1] += moves[3] * h
    moves[2] -= pose.dx[0]
    return raised, moves


@compiled
def _back(R: Array, y: Triple) -> Triple:
    """Return Rᵀ y."""
    return (
        R[0, 0] * y[0] + R[1, 0] * y[1] + R[2, 0] * y[2],
        R[0, 1] * y[0] + R[1, 1] * y[1] + R[2, 1] * y[2],
        R[0, 2] * y[0] + R[1, 2] * y[1] + R[2, 2] * y[2],
    )
