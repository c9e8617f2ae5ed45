"""A cube on an elastic foundation under a rotating load [Drumwright §5.5], by an engine and as a differential equation.

The foundation is a bed of unilateral springs under the cube's lower face (Winkler): K = E a / depth, each with a damper B. The
force F points down and acts at (s/2) (cos 10 t, sin 10 t, 1) in the cube's frame. With 5 N all springs remain loaded, with 50 N
an edge lifts off.
"""

from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from idyn.jit.compiled import compiled
from idyn.types import Array, Record
from sim_harness.engines.engine import Engine, ForwardProblem, ForwardSolution

SIDE, DENSITY, DEPTH, DAMPER, TURN, GRAVITY = 1.0, 8.0, 1.0, 1.0, 10.0, 9.81
"""Side s [m], density [kg/m³], depth of the bed [m], B of each element [N·s/m], angular speed of the load [rad/s], g [m/s²]."""

MASS, INERTIA = DENSITY * SIDE**3, DENSITY * SIDE**5 / 6
"""Mass of the cube [kg], and its moment of inertia about any axis [kg·m²]."""


class Bed(NamedTuple):
    """The foundation and its load.

    points: of the elements on the cube's lower face, in the cube's frame [m] (n, 3); K: of each element [N/m]; force: F [N]
    """

    points: Array
    K: float
    force: float


def bed(per_side: int, modulus: float, force: float) -> Bed:
    """Return a foundation with per_side² elements. modulus: E [N/m²]; force: F [N]"""
    at = SIDE * ((np.arange(per_side) + 0.5) / per_side - 0.5)
    points = np.array([(x, y, -0.5 * SIDE) for x in at for y in at])
    return Bed(points, modulus * (SIDE / per_side) ** 2 / DEPTH, force)


class Pose(Record, frozen=True):
    """State of the cube.

    q: position [m] and unit quaternion xyzw (7); v: linear and angular velocity in world axes [m/s, rad/s] (6)
    """

    q: Array
    v: Array

    @property
    def tilt(self) -> float:
        """Angle of the cube's z axis from the vertical [rad]."""
        up = Rotation.from_quat(self.q[3:]).as_matrix()[:, 2]
        return float(np.arctan2(np.hypot(up[0], up[1]), up[2]))


START = Pose(q=np.array([0.0, 0.0, 0.5 * SIDE, 0.0, 0.0, 0.0, 1.0]), v=np.zeros(6))
"""Initial state: at rest on the undeformed bed."""


@compiled
def turned(quaternion: Array, points: Array) -> Array:
    """Return R p for each point p (n, 3), with R of a unit quaternion xyzw."""
    x, y, z, w = quaternion
    out = np.empty_like(points)
    for i in range(len(points)):
        a, b, c = points[i]
        # R p = p + 2 x × (x × p + w p), x the vector part of the quaternion
        s, t, u = y * c - z * b + w * a, z * a - x * c + w * b, x * b - y * a + w * c
        out[i, 0], out[i, 1], out[i, 2] = a + 2 * (y * u - z * t), b + 2 * (z * s - x * u), c + 2 * (x * t - y * s)
    return out


@compiled
def wrench(quaternion: Array, force: float, t: float) -> Array:
    """Return force [N] and torque about the centre [N·m] of weight and F, in world axes (6)."""
    arm = 0.5 * SIDE * np.array([[np.cos(TURN * t), np.sin(TURN * t), 1.0]])
    arm = turned(quaternion, arm)
    return np.array([0.0, 0.0, -MASS * GRAVITY - force, -arm[0, 1] * force, arm[0, 0] * force, 0.0])


@compiled
def derivative(t: float, state: Array, points: Array, K: float, B: float, force: float) -> Array:
    """Return d/dt of pose and velocity (13)."""
    q, v, w = state[3:7], state[7:10], state[10:13]
    arms, load = turned(q, points), wrench(q, force, t)
    # elements: f = max(0, −K φ − B φ̇) with the deformation φ of the element
    for i in range(len(points)):
        x, y, z = arms[i]
        speed = v[2] + w[0] * y - w[1] * x
        press = -K * (state[2] + z) - B * speed
        if press > 0.0:
            load[2] += press
            load[3] += press * y
            load[4] -= press * x
    out = np.empty(13)
    out[:3] = v
    # quaternion: q̇ = ½ (ω, 0) q
    a, b, c, d = q
    out[3] = 0.5 * (w[0] * d + w[1] * c - w[2] * b)
    out[4] = 0.5 * (w[1] * d + w[2] * a - w[0] * c)
    out[5] = 0.5 * (w[2] * d + w[0] * b - w[1] * a)
    out[6] = -0.5 * (w[0] * a + w[1] * b + w[2] * c)
    out[7:10] = load[:3] / MASS
    out[10:13] = load[3:] / INERTIA
    return out


def integrated(on: Bed, method: str, seconds: float, rtol: float, atol: float) -> tuple[Pose, int]:
    """Integrate the differential equation with a method of `scipy.integrate`; return (final state, number of evaluations).

    Raises RuntimeError if the method fails.
    """
    found = solve_ivp(
        derivative,
        (0.0, seconds),
        np.concatenate([START.q, START.v]),
        method,
        args=(on.points, on.K, DAMPER, on.force),
        rtol=rtol,
        atol=atol,
        t_eval=[seconds],
    )
    if not found.success:
        raise RuntimeError(f"{method}: {found.message}")
    q = found.y[:7, -1]
    q[3:] /= np.linalg.norm(q[3:])
    return Pose(q=q, v=found.y[7:, -1]), int(found.nfev)


def problem(on: Bed, pose: Pose, t: float, dt: float) -> ForwardProblem:
    """Return the forward problem of the step that begins at t. Elements are contacts with zero tangential rows and μ = 0."""
    arms, n = turned(pose.q[3:], on.points), len(on.points)
    J = np.zeros((3 * n, 6))
    J[2::3, 2], J[2::3, 3], J[2::3, 4] = 1.0, arms[:, 1], -arms[:, 0]
    return ForwardProblem(
        M=np.diag([MASS] * 3 + [INERTIA] * 3),
        h=np.zeros(6),
        v=pose.v,
        J=J,
        force=wrench(pose.q[3:], on.force, t),
        mu=np.zeros(n),
        gaps=pose.q[2] + arms[:, 2],
        dt=dt,
        stiffness=np.full(n, on.K),
        dissipation=np.full(n, DAMPER / on.K),
    )


def stepped(engine: Engine, on: Bed, dt: float, seconds: float) -> tuple[Pose, ForwardSolution, int]:
    """Simulate with an engine; return (final state, solution of the last step, fewest elements that pressed in a step).

    Raises RuntimeError if a step is not solved.
    """
    pose, pressed = START, len(on.points)
    for k in range(round(seconds / dt)):
        solution = engine.solve(problem(on, pose, k * dt, dt))
        if not solution.status.ok:
            raise RuntimeError(f"at {k * dt:.4g} s: {solution.status.sentence}")
        pressed = min(pressed, int(np.count_nonzero(solution.p[:, 2] > 0.0)))
        v = solution.v_plus
        q = pose.q.copy()
        q[:3] += dt * v[:3]
        q[3:] = (Rotation.from_rotvec(dt * v[3:]) * Rotation.from_quat(q[3:])).as_quat()
        pose = Pose(q=q, v=v)
    return pose, solution, pressed


def distance(a: Pose, b: Pose) -> float:
    """Return the norm of the difference of two poses: of position [m] and quaternion together.

    Q and −Q are the same attitude; the sign with the smaller difference is used.
    """
    sign = 1.0 if a.q[3:] @ b.q[3:] >= 0.0 else -1.0
    return float(np.hypot(np.linalg.norm(a.q[:3] - b.q[:3]), np.linalg.norm(a.q[3:] - sign * b.q[3:])))
