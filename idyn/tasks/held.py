"""Held motion and forces: all accelerations v̇ and contact forces f that the contact modes and the unactuated dynamics permit.

    M_u v̇ + h_u = J_uᵀ ((1 + ρ) f − ρ f⁻) + G_uᵀ λ,   f = B ζ         unactuated rows; f⁻: forces of the last tick
    W (J v̇ + J v/T_r + φ/dt²) = 0,   G (v̇ dt + v) = −rate             held rows of contacts; closures

v̇ is the acceleration without the memory of the contact compliance model (ρ = T_p/dt), f are the forces that act. Both are
affine in coordinates x = (y, w):  v̇ = v̇₀ + V x,  f = f₀ + F x,  τ = τ₀ + T x. Inconsistent held rows are met in the sense of
least squares.
"""

from typing import NamedTuple

import numpy as np

from idyn.contact.ground import opening_speed
from idyn.jit.compiled import interpreted
from idyn.tasks.modes import ModeRows
from idyn.terms.stages import Dynamics
from idyn.types import Array

RANK = 1e-9
"""Singular values up to this share of the largest one count as zero."""


class Affine(NamedTuple):
    """value(x) = offset + slope x."""

    offset: Array
    slope: Array

    def at(self, x: Array) -> Array:
        """Return the value at x."""
        value: Array = self.offset + self.slope @ x
        return value


class HeldMotion(NamedTuple):
    """acceleration: v̇ (nv); force: f, rows S, T, N of each contact (3n); torque: τ (na); as functions of the coordinates.
    rows: left sides of the equations for v̇, first those of held contact rows (·, nv)"""

    acceleration: Affine
    force: Affine
    torque: Affine
    rows: Array


def held_motion(d: Dynamics, modes: ModeRows) -> HeldMotion:
    """Return the accelerations and forces that the modes permit."""
    own, model = d.given.own, d.given.model.own
    M, h, v, u, dt = own["M"], own["h"], own["v"], model["u"], d.given.dt
    J, G, rate, rho = d.own["J"], d.own["G"], d.own["rate"], d.given.rho if len(u) else 0.0
    last = J[:, u].T @ (own["last"] / dt) * rho
    # forces: columns of the unactuated rows, with closures; directions z that no force reaches
    pushes = np.hstack([J[:, u].T @ modes.B, G[:, u].T])
    inverse, free, unreached = _pseudo_inverse(pushes)
    # equations for v̇
    rows = np.vstack([J[modes.held], G, unreached.T @ M[u]])
    speeds = np.array([_closing_speed(d, row) for row in modes.held.tolist()])
    targets = np.concatenate([-((1.0 - d.given.keep) * (J[modes.held] @ v) + speeds) / dt, -(rate + G @ v) / dt])
    targets = np.concatenate([targets, -unreached.T @ (h[u] + last)])
    inverse_rows, Z, _ = _pseudo_inverse(rows)
    v0 = inverse_rows @ targets
    # coordinates x = (y, w)
    k, m = Z.shape[1], free.shape[1]
    acceleration = Affine(v0, np.hstack([Z, np.zeros((len(v), m))]))
    columns = modes.B.shape[1]
    chosen = modes.B @ inverse[:columns], modes.B @ free[:columns]
    force = Affine(
        chosen[0] @ (M[u] @ v0 + h[u] + last) / (1.0 + rho),
        np.hstack([chosen[0] @ (M[u] @ Z) / (1.0 + rho), chosen[1]]).reshape(len(J), k + m),
    )
    return HeldMotion(acceleration, force, _torque(d, acceleration, force), rows)


def _torque(d: Dynamics, acceleration: Affine, force: Affine) -> Affine:
    """Return τ = M_au v̇_u + M_aa v̇_a + h_a − J_aᵀ f − G_aᵀ λ, with v̇_u and λ from the unactuated rows and the closures."""
    own, model, dt = d.given.own, d.given.model.own, d.given.dt
    M, h, v, u, a, J, G = own["M"], own["h"], own["v"], model["u"], model["a"], d.own["J"], d.own["G"]
    one = np.eye(1, 1 + acceleration.slope.shape[1])
    motion, forces = np.column_stack(acceleration), np.column_stack(force)
    joints = motion[a]
    push = J.T @ forces - np.outer(h, one)
    inertia = np.linalg.inv(M[np.ix_(u, u)])
    base = inertia @ (push[u] - M[np.ix_(u, a)] @ joints)
    if len(G):
        asked = np.outer(-(d.own["rate"] + G @ v) / dt, one) - G[:, a] @ joints - G[:, u] @ base
        closing = np.linalg.pinv(G[:, u] @ inertia @ G[:, u].T, rcond=RANK) @ asked
        base, push = base + inertia @ G[:, u].T @ closing, push + G.T @ closing
    torque = M[np.ix_(a, u)] @ base + M[np.ix_(a, a)] @ joints - push[a]
    return Affine(torque[:, 0], torque[:, 1:])


def _closing_speed(d: Dynamics, row: int) -> float:
    """Return the allowance φ/dt of a row of the contact Jacobian [m/s]; 0 for tangential rows."""
    given = d.given
    if row % 3 < 2:
        return 0.0
    return interpreted(opening_speed)(float(given.own["gaps"][row // 3]), given.dt, given.noise, given.recovery_speed)


def _pseudo_inverse(A: Array) -> tuple[Array, Array, Array]:
    """Return A⁺, and orthonormal bases (columns) of the null spaces of A and of Aᵀ."""
    if not A.size:
        return np.zeros(A.T.shape), np.eye(A.shape[1]), np.eye(A.shape[0])
    U, s, Vt = np.linalg.svd(A)
    rank = int((s > RANK * s[0]).sum())
    inverse: Array = Vt[:rank].T @ (U[:, :rank].T / s[:rank, None])
    return inverse, Vt[rank:].T, U[:, rank:]
