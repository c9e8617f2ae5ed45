"""Inverse kinematics of legs with two or three hinges: angles, speeds and accelerations of the joints from the motion of the
feet in the base frame.

The axes of the hinges (direction w, point r) and the foot x are known at zero angles; rotation about hinge after hinge moves
them:

    J = [ w_j × (x − r_j) ],     ẋ = J θ̇,     ẍ = J θ̈ + J̇ θ̇
θ follows by Newton's method from the last solution, then θ̇ and θ̈ with the same Jacobian.

With two hinges, J has the third column n = J_1 × J_2 / |J_1 × J_2|, whose share of a solution is dropped: least squares. The
foot comes nearest to the target, and the motion along n, which the leg cannot make, is left out.
"""

import numpy as np

from controllers.robot.kinematics import contact_places
from idyn.errors import ConfigError
from idyn.jit.compiled import compiled
from idyn.jit.records import ArrayRecord, Cube, Matrix, Spans
from idyn.jit.stack import stack_array
from idyn.model.robot import Robot
from idyn.solvers.vectors import copy, copy_rows, fill
from idyn.types import Array

Triad = tuple[Array, Array, Array]

TOLERANCE = 1e-12
"""Largest position error of a foot in a solution [m]."""

ITERATIONS = 30
"""Largest number of Newton steps. From the last tick's solution it takes two or three."""

LARGEST_STEP = 0.3
"""Largest change of a joint angle in one Newton step [rad]."""

LEFT_OUT = 0.03
"""Largest distance from a foot's target across the plane of a leg of two hinges [m]. Farther is out of reach. It allows
attitudes of a tenth of a radian, and says that a robot cannot step sideways."""

SINGULAR = 1e-4
"""Smallest |det J| over the product of the lever arms. It bounds the joint speeds near a stretched leg."""


class Legs(ArrayRecord):
    """Legs of a robot: one per contact sphere, two or three hinges each (k), without common joints.

    axes, points: direction and a point of each hinge at zero angles, base frame (n, k, 3)
    places: foot centres at zero angles, base frame [m] (n, 3)
    joints: indices of each leg's joint angles (n, k)
    """

    axes: Cube
    points: Cube
    places: Matrix
    joints: Spans

    def __init__(self, robot: Robot) -> None:
        """Raises ConfigError for a robot whose legs have another structure."""
        if not robot.floating or not robot.spheres.keys:
            raise ConfigError("reference.kind", "'gait' needs a floating base and contact points")
        joints = [np.flatnonzero(robot.tree.support[joint][robot.tree.a]) for joint in robot.spheres.joints]
        for key, leg in zip(robot.spheres.keys, joints, strict=True):
            if len(leg) not in (2, 3) or len(leg) != len(joints[0]):
                given = f"'{key}' has {len(leg)}"
                raise ConfigError("reference.kind", f"'gait' needs two or three joints above each foot, alike; {given}")
        if len(set(np.concatenate(joints).tolist())) < sum(map(len, joints)):
            raise ConfigError("reference.kind", "'gait' needs feet that share no joint")
        neutral, of_legs = robot.neutral(), np.array(joints, dtype=np.int64)
        screws = robot.terms(neutral, np.zeros(robot.nv)).axes[robot.tree.a[of_legs]]
        axes = screws[..., 3:].copy()
        if not np.allclose(np.linalg.norm(axes, axis=2), 1.0):
            raise ConfigError("reference.kind", "'gait' needs legs of hinges, got a prismatic joint above a foot")
        self.put(
            axes=axes, points=np.cross(axes, screws[..., :3]), places=contact_places(robot, neutral).copy(), joints=of_legs
        )

    @property
    def planar(self) -> bool:
        """Whether the feet move in planes only: legs of two hinges."""
        return self.joints.shape[1] == 2

    def feet(self, angles: Array) -> Array:
        """Return the foot centres in the base frame [m] (n, 3) at joint angles [rad] (na)."""
        places: Array = foot_places(self.fields, angles)
        return places


def has_legs(robot: Robot) -> bool:
    """Return whether the robot stands on legs as `Legs` describes."""
    try:
        Legs(robot)
    except ConfigError:
        return False
    return True


@compiled
def foot_places(legs: Legs, angles: Array) -> Array:
    """Return the foot centres in the base frame [m] (n, 3) at joint angles [rad] (na)."""
    places, w, r = np.empty_like(legs.places), stack_array((3, 3)), stack_array((3, 3))
    for leg in range(len(places)):
        _place(legs, leg, angles, w, r, places[leg])
    return places


@compiled
def solve(legs: Legs, feet: Triad, motion: Triad) -> bool:
    """Fill the joint motion for a foot motion; return whether all feet are reached.

    feet: positions [m], velocities [m/s] and accelerations [m/s²] of the feet, base frame (n, 3)
    motion: joint angles [rad] (in: initial guess), speeds [rad/s] and accelerations [rad/s²] (na). A foot out of reach leaves
        the nearest angles that were found; joints that are not in a leg are unchanged
    """
    (places, velocities, accelerations), (q, dq, ddq) = feet, motion
    w, r, J, work = stack_array((3, 3)), stack_array((3, 3)), stack_array((3, 3)), stack_array((4, 3))
    x, d, rest = stack_array(3), stack_array(3), stack_array(3)
    fill(dq, 0.0)
    fill(ddq, 0.0)
    reached = True
    for leg in range(len(places)):
        # θ: Newton's method on the position error, J δθ = x_des − x, with bounded steps
        joints, near, there = legs.joints[leg], False, False
        hinges = len(joints)
        for _ in range(ITERATIONS):
            _place(legs, leg, q, w, r, x)
            for j in range(hinges):
                _cross(w[j], x[0] - r[j, 0], x[1] - r[j, 1], x[2] - r[j, 2], J[j])
            for c in range(3):
                rest[c] = places[leg, c] - x[c]
            there = hinges == 3 or _leave_out(J, rest) < LEFT_OUT
            near = max(abs(rest[0]), abs(rest[1]), abs(rest[2])) < TOLERANCE
            if near:
                break
            _solve3(J, rest, d)
            for j in range(hinges):
                q[joints[j]] += min(max(d[j], -LARGEST_STEP), LARGEST_STEP)
        reached = reached and near and there
        # θ̇ = J⁻¹ ẋ,  θ̈ = J⁻¹ (ẍ − J̇ θ̇)
        _solve3(J, velocities[leg], d)
        for c in range(3):
            rest[c] = accelerations[leg, c]
        _subtract_bias((w, r, x, J), d[:hinges], rest, work)
        for j in range(hinges):
            dq[joints[j]] = d[j]
        _solve3(J, rest, d)
        for j in range(hinges):
            ddq[joints[j]] = d[j]
    return reached


@compiled
def _rotate(w: Array, r: Array | tuple[float, ...], c: float, s: float, x: Array) -> None:
    """Rotate the point x about the axis through r along the unit vector w, by an angle with cosine c and sine s, in place."""
    # Rodrigues: x ← r + c d + s (w × d) + (1 − c) (w · d) w,  d = x − r
    d0, d1, d2 = x[0] - r[0], x[1] - r[1], x[2] - r[2]
    along = (1.0 - c) * (w[0] * d0 + w[1] * d1 + w[2] * d2)
    x[0] = r[0] + c * d0 + s * (w[1] * d2 - w[2] * d1) + along * w[0]
    x[1] = r[1] + c * d1 + s * (w[2] * d0 - w[0] * d2) + along * w[1]
    x[2] = r[2] + c * d2 + s * (w[0] * d1 - w[1] * d0) + along * w[2]


@compiled
def _place(legs: Legs, leg: int, angles: Array, w: Array, r: Array, x: Array) -> None:
    """Fill axes w, points r (3, 3) and foot x (3) of one leg at joint angles (na)."""
    hinges = legs.joints.shape[1]
    copy_rows(legs.axes[leg], w[:hinges])
    copy_rows(legs.points[leg], r[:hinges])
    copy(legs.places[leg], x)
    origin = (0.0, 0.0, 0.0)
    for j in range(hinges):
        angle = angles[legs.joints[leg, j]]
        c, s = np.cos(angle), np.sin(angle)
        for i in range(j + 1, hinges):
            _rotate(w[j], origin, c, s, w[i])
            _rotate(w[j], r[j], c, s, r[i])
        _rotate(w[j], r[j], c, s, x)


@compiled
def _cross(a: Array, b0: float, b1: float, b2: float, out: Array) -> None:
    """Fill `out` with a × b."""
    out[0], out[1], out[2] = a[1] * b2 - a[2] * b1, a[2] * b0 - a[0] * b2, a[0] * b1 - a[1] * b0


@compiled
def _leave_out(J: Array, e: Array) -> float:
    """Fill J_3 = n for a leg of two hinges, subtract n nᵀ e from e and return |nᵀ e|."""
    n = J[2]
    _cross(J[0], J[1, 0], J[1, 1], J[1, 2], n)
    length = max(np.sqrt(n[0] ** 2 + n[1] ** 2 + n[2] ** 2), 1e-12)
    along = (n[0] * e[0] + n[1] * e[1] + n[2] * e[2]) / length
    for c in range(3):
        n[c] /= length
        e[c] -= along * n[c]
    return abs(along)


@compiled
def _solve3(J: Array, e: Array, d: Array) -> None:
    """Solve Σ_j J_j d_j = e by Cramer's rule, with |det J| bounded below. Column J_j is stored in row j of J."""
    scale = 1.0
    for j in range(3):
        scale *= np.sqrt(J[j, 0] ** 2 + J[j, 1] ** 2 + J[j, 2] ** 2) + 1e-12
    det = _triple(J[0], J[1], J[2])
    floor = SINGULAR * scale
    if abs(det) < floor:
        det = floor if det >= 0.0 else -floor
    for j in range(3):
        d[j] = _triple(e, J[(j + 1) % 3], J[(j + 2) % 3]) / det


@compiled
def _triple(a: Array, b: Array, c: Array) -> float:
    """Return a · (b × c)."""
    return a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2]) + a[2] * (b[0] * c[1] - b[1] * c[0])


@compiled
def _subtract_bias(placed: tuple[Array, Array, Array, Array], speeds: Array, a: Array, work: Array) -> None:
    """Subtract J̇ θ̇ = Σ_j θ̇_j [ ẇ_j × (x − r_j) + w_j × (ẋ − ṙ_j) ] from a. The hinges before j move axis j.

    placed: (w, r, x, J)
    work: buffer (4, 3)
    """
    (w, r, x, J), turning, moving, part, foot = placed, work[0], work[1], work[2], work[3]
    # ẋ = J θ̇
    fill(foot, 0.0)
    for j in range(len(speeds)):
        for c in range(3):
            foot[c] += speeds[j] * J[j, c]
    for j in range(len(speeds)):
        # ω of the body that carries axis j, and ṙ_j
        fill(turning, 0.0)
        fill(moving, 0.0)
        for i in range(j):
            _cross(w[i], r[j, 0] - r[i, 0], r[j, 1] - r[i, 1], r[j, 2] - r[i, 2], part)
            for c in range(3):
                moving[c] += speeds[i] * part[c]
                turning[c] += speeds[i] * w[i, c]
        _cross(turning, w[j, 0], w[j, 1], w[j, 2], part)
        copy(part, turning)  # ẇ_j
        # a −= θ̇_j [ ẇ_j × (x − r_j) + w_j × (ẋ − ṙ_j) ]
        _cross(turning, x[0] - r[j, 0], x[1] - r[j, 1], x[2] - r[j, 2], part)
        for c in range(3):
            a[c] -= speeds[j] * part[c]
        _cross(w[j], foot[0] - moving[0], foot[1] - moving[1], foot[2] - moving[2], part)
        for c in range(3):
            a[c] -= speeds[j] * part[c]
