"""Inverse kinematics of legs with three hinges: foot motion in the base frame → joint motion, exact to second order.

The hinges' axes (direction w, point r) and the foot x are known at zero angles; turning hinge after hinge moves them:

    J = [ w_j × (x − r_j) ],     ẋ = J θ̇,     ẍ = J θ̈ + J̇ θ̇
θ by Newton's method from the last solution, then θ̇ and θ̈ with the same Jacobian.
"""

import numpy as np

from controllers.kinematics import contact_places
from idyn.compiled import compiled
from idyn.errors import ConfigError
from idyn.robot import Robot
from idyn.types import Array

TOLERANCE = 1e-12
"""Largest error of a foot that counts as solved [m]."""

ITERATIONS = 30
"""Of Newton's method. From the last tick's solution it takes two or three."""

LARGEST_STEP = 0.3
"""Of a joint in one iteration [rad]."""

SINGULAR = 1e-4
"""Least |det J| over the product of the lever arms: near a stretched leg joint speeds stop growing instead of exploding."""


class Legs:
    """The legs of a robot: one for each contact place, three hinges each, none shared."""

    def __init__(self, robot: Robot) -> None:
        """Raises ConfigError for a robot that is built otherwise."""
        if not robot.floating or not robot.spheres.keys:
            raise ConfigError("reference.kind", "'gait' needs a floating base and contact places")
        joints = [np.flatnonzero(robot.tree.support[joint][robot.tree.a]) for joint in robot.spheres.joints]
        for key, leg in zip(robot.spheres.keys, joints, strict=True):
            if len(leg) != 3:
                raise ConfigError("reference.kind", f"'gait' needs three joints above each foot; '{key}' has {len(leg)}")
        if len(set(np.concatenate(joints).tolist())) < 3 * len(joints):
            raise ConfigError("reference.kind", "'gait' needs feet that share no joint")
        neutral = robot.neutral()
        self._joints = np.array(joints, dtype=np.int64)
        self._feet = contact_places(robot, neutral).copy()
        screws = robot.terms(neutral, np.zeros(robot.nv)).axes[robot.tree.a[self._joints]]
        self._axes = screws[..., 3:].copy()
        if not np.allclose(np.linalg.norm(self._axes, axis=2), 1.0):
            raise ConfigError("reference.kind", "'gait' needs legs of hinges; a joint above a foot slides")
        self._points = np.cross(self._axes, screws[..., :3])

    def feet(self, angles: Array) -> Array:
        """Foot centres in the base frame [m] (n, 3) for joint angles [rad] (na)."""
        return _places(self._axes, self._points, self._feet, self._joints, angles)

    def solve(self, x: Array, v: Array, a: Array, guess: Array) -> tuple[Array, Array, Array, bool]:
        """Joint angles, speeds and accelerations (na) for foot places, velocities and accelerations in the base frame
        [m, m/s, m/s²] (n, 3). Joints of no leg stay at `guess` (na). False: a foot cannot get there; its angles are then
        the nearest that were found.
        """
        q, dq, ddq = guess.copy(), np.zeros(len(guess)), np.zeros(len(guess))
        reached = _solve((self._axes, self._points), self._feet, self._joints, (x, v, a), q, dq, ddq)
        return q, dq, ddq, reached


@compiled
def _turn(w, r, angle, x):
    """Turns the point x about the axis through r along the unit vector w, in place; a direction with r = 0."""
    c, s = np.cos(angle), np.sin(angle)
    d0, d1, d2 = x[0] - r[0], x[1] - r[1], x[2] - r[2]
    along = (1.0 - c) * (w[0] * d0 + w[1] * d1 + w[2] * d2)
    x[0] = r[0] + c * d0 + s * (w[1] * d2 - w[2] * d1) + along * w[0]
    x[1] = r[1] + c * d1 + s * (w[2] * d0 - w[0] * d2) + along * w[1]
    x[2] = r[2] + c * d2 + s * (w[0] * d1 - w[1] * d0) + along * w[2]


@compiled
def _place(axes, points, foot, angles, joints, w, r, x):
    """Fills axes w, points r (3, 3) and the foot x (3) of one leg at the given angles (na)."""
    origin = np.zeros(3)
    w[:], r[:], x[:] = axes, points, foot
    for j in range(3):
        angle = angles[joints[j]]
        for i in range(j + 1, 3):
            _turn(w[j], origin, angle, w[i])
            _turn(w[j], r[j], angle, r[i])
        _turn(w[j], r[j], angle, x)


@compiled
def _places(axes, points, feet, joints, angles):
    places = np.empty((len(feet), 3))
    w, r = np.empty((3, 3)), np.empty((3, 3))
    for leg in range(len(feet)):
        _place(axes[leg], points[leg], feet[leg], angles, joints[leg], w, r, places[leg])
    return places


@compiled
def _cross(a, b, out):
    out[0] = a[1] * b[2] - a[2] * b[1]
    out[1] = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]


@compiled
def _unravel(J, e, d):
    """Solves Σ_j J_j d_j = e for the columns J_j, kept in the rows of J, by Cramer's rule, away from singularity."""
    across, scale = np.empty(3), 1.0
    for j in range(3):
        scale *= np.sqrt(J[j] @ J[j]) + 1e-12
    _cross(J[1], J[2], across)
    det = J[0] @ across
    floor = SINGULAR * scale
    if abs(det) < floor:
        det = floor if det >= 0.0 else -floor
    d[0] = (e @ across) / det
    _cross(J[2], J[0], across)
    d[1] = (e @ across) / det
    _cross(J[0], J[1], across)
    d[2] = (e @ across) / det


@compiled
def _columns(w, r, x, J):
    for j in range(3):
        _cross(w[j], x - r[j], J[j])


@compiled
def _solve(hinges, feet, joints, motion, q, dq, ddq):
    """Fills q, from the guess in it, dq and ddq; whether all feet get there. hinges: their axes and points; motion: the feet's
    places, velocities and accelerations."""
    (axes, points), (xs, vs, accelerations) = hinges, motion
    w, r, J = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    x, d = np.empty(3), np.empty(3)
    reached = True
    for leg in range(len(feet)):
        there = False
        for _ in range(ITERATIONS):
            _place(axes[leg], points[leg], feet[leg], q, joints[leg], w, r, x)
            _columns(w, r, x, J)
            error = xs[leg] - x
            if np.abs(error).max() < TOLERANCE:
                there = True
                break
            _unravel(J, error, d)
            for j in range(3):
                q[joints[leg, j]] += min(max(d[j], -LARGEST_STEP), LARGEST_STEP)
        reached = reached and there
        _unravel(J, vs[leg], d)
        bias = _bias(w, r, x, J, d)
        for j in range(3):
            dq[joints[leg, j]] = d[j]
        _unravel(J, accelerations[leg] - bias, d)
        for j in range(3):
            ddq[joints[leg, j]] = d[j]
    return reached


@compiled
def _bias(w, r, x, J, speeds):
    """J̇ θ̇ = Σ_j θ̇_j [ ẇ_j × (x − r_j) + w_j × (ẋ − ṙ_j) ]; the hinges before j carry axis j along."""
    bias, part, lever = np.zeros(3), np.empty(3), np.empty(3)
    foot = speeds[0] * J[0] + speeds[1] * J[1] + speeds[2] * J[2]
    for j in range(3):
        turning, moving = np.zeros(3), np.zeros(3)
        for i in range(j):
            _cross(w[i], r[j] - r[i], part)
            moving += speeds[i] * part
            turning += speeds[i] * w[i]
        _cross(turning, w[j], part)
        _cross(part, x - r[j], lever)
        bias += speeds[j] * lever
        _cross(w[j], foot - moving, part)
        bias += speeds[j] * part
    return bias
