"""Model-predictive control of a single rigid body with point contacts: a convex quadratic program for the contact forces.

    v̇ = Σ f / m + g,    ω̇ = I⁻¹ Σ (r − c) × f,    ċ = v,    φ̇ = Rz(ψ)ᵀ ω
with the velocities v, ω of the body in the world, its centre of mass c, its attitude φ (roll, pitch, yaw), and the forces f on
the feet at r. I, r − c and ψ are those of the reference, so the equations are linear in the state x = (φ, c, ω, v) and the
forces. Over steps of duration T with constant forces,

    x₍ₖ₊₁₎ = A x₍ₖ₎ + B₍ₖ₎ f₍ₖ₎ + b,     min Σ ‖x₍ₖ₎ − x*₍ₖ₎‖²_Q + ‖f₍ₖ₎ − f*₍ₖ₎‖²_R,     |f_x|, |f_y| ≤ μ f_z,  0 ≤ f_z ≤ f_max
[Di Carlo 2018]. f* carries the weight in equal shares of the standing feet.
"""

from typing import NamedTuple

import numpy as np

from controllers.planners.path import turned
from controllers.planners.plan import GRAVITY
from idyn.solvers.qp import solve_qp
from idyn.types import Array

STATE = 12  # number of states: attitude, centre of mass, angular velocity, velocity

PYRAMID = np.array([[1.0, 0.0, 1.0], [-1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, -1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, -1.0]])
"""Rows of the friction pyramid and of the bounds of f_z, with μ to be put in for the first four of the last column."""


class Body(NamedTuple):
    """mass [kg]; inertia: about the centre of mass, axes of the heading [kg·m²] (3, 3)"""

    mass: float
    inertia: Array


class Weights(NamedTuple):
    """Weights of errors. state: of x (12); force: of f [1/N²]; friction: μ; most: largest f_z of a foot [N]"""

    state: Array
    force: float
    friction: float
    most: float


class Horizon(NamedTuple):
    """What is planned for N steps."""

    step: float  # duration of each [s]
    wanted: Array  # reference of x at the end of each step (N, 12)
    stands: Array  # which feet stand in each step (N, n)
    places: Array  # where they stand in the world [m] (N, n, 3)


class Motion(NamedTuple):
    """Solution. states: x at the end of each step (N, 12); forces: on the feet in each step, 0 in the air [N] (N, n, 3)"""

    states: Array
    forces: Array


def planned_motion(body: Body, start: Array, horizon: Horizon, weights: Weights) -> Motion | None:
    """Return the best motion from a state x (12), None if the program cannot be solved."""
    N, n = horizon.stands.shape
    columns = 3 * horizon.stands.sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(columns)])
    size, T = int(offsets[-1]), horizon.step
    free, response = np.empty((N, STATE)), np.zeros((N, STATE, size))
    x, S, preferred = start, np.zeros((STATE, size)), np.zeros(size)
    for k in range(N):
        yaw = float(horizon.wanted[k, 2])
        x, S = _advance(x, yaw, T), _advance_rows(S, yaw, T)
        standing = np.flatnonzero(horizon.stands[k])
        if len(standing):
            S[:, offsets[k] : offsets[k + 1]] += _effect(body, horizon.places[k, standing] - horizon.wanted[k, 3:6], yaw, T)
            preferred[offsets[k] + 2 : offsets[k + 1] : 3] = body.mass * GRAVITY / len(standing)
        free[k], response[k] = x, S
    if size == 0:
        return Motion(free, np.zeros((N, n, 3)))
    rows = response.reshape(N * STATE, size)
    q = np.tile(weights.state, N)
    H = rows.T @ (q[:, None] * rows) + weights.force * np.eye(size)
    f = rows.T @ (q * (free - horizon.wanted).ravel()) - weights.force * preferred
    block, low = PYRAMID.copy(), np.zeros(6)
    block[:4, 2], low[5] = weights.friction, -weights.most
    found = solve_qp(H, f, np.kron(np.eye(size // 3), block), np.tile(low, size // 3))
    if not found.status.ok:
        return None
    forces = np.zeros((N, n, 3))
    forces[horizon.stands] = found.x.reshape(-1, 3)
    return Motion(free + response @ found.x, forces)


def _advance(x: Array, yaw: float, T: float) -> Array:
    """Return the state a time T later without contact forces."""
    x = _advance_rows(x[:, None], yaw, T)[:, 0]
    x[5] -= 0.5 * T * T * GRAVITY
    x[11] -= T * GRAVITY
    return x


def _advance_rows(x: Array, yaw: float, T: float) -> Array:
    """Return A x for the columns of x (12, ·)."""
    c, s, later = np.cos(yaw), np.sin(yaw), x.copy()
    later[0] += T * (c * x[6] + s * x[7])
    later[1] += T * (c * x[7] - s * x[6])
    later[2] += T * x[8]
    later[3:6] += T * x[9:12]
    return later


def _effect(body: Body, arms: Array, yaw: float, T: float) -> Array:
    """Return B (12, 3k) of k feet. arms: from the centre of mass to them, world axes [m] (k, 3)"""
    R = np.eye(3)
    R[:2, :2] = turned(yaw)
    inverse, B = R @ np.linalg.inv(body.inertia) @ R.T, np.zeros((STATE, 3 * len(arms)))
    for i, (x, y, z) in enumerate(arms):
        turn = inverse @ np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        columns = slice(3 * i, 3 * i + 3)
        B[6:9, columns], B[0:3, columns] = T * turn, 0.5 * T * T * (R.T @ turn)
        B[9:12, columns], B[3:6, columns] = T / body.mass * np.eye(3), 0.5 * T * T / body.mass * np.eye(3)
    return B
