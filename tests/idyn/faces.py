"""The face of each law's solution (MATHEMATICS §3.5) written in all variables, and the best point of it by quadprog."""

import numpy as np
import scipy.optimize
from oracles import Full, corners, facet_normals, solve_semidefinite_qp

from idyn.types import Array, Prediction

ZERO = 1e-9
"""Speeds below this are zero [m/s]."""


class Polyhedron:
    """p = G x with A x ≥ 0 and E x = 0, and all with the same J_uᵀ p."""

    def __init__(self, G: Array, A: Array, E: Array) -> None:
        self.G, self.A, self.E = G, A, E

    def contains(self, f: Full, p: Array, p0: Array, tolerance: float) -> bool:
        """Whether p is a point of the face through p0, up to `tolerance` times the largest impulse."""
        scale, m = max(np.abs(p0).max(initial=0), 1e-6), self.G.shape[1]
        E, e = np.vstack([self.E, self.G]), np.r_[np.zeros(len(self.E)), p / scale]
        error = np.ones((len(E), 1))
        found = scipy.optimize.linprog(
            np.r_[np.zeros(m), 1.0],
            A_ub=np.block([[-self.A, -np.ones((len(self.A), 1))], [E, -error], [-E, -error]]),
            b_ub=np.r_[np.zeros(len(self.A)), e, -e],
            bounds=[(None, None)] * m + [(0, None)],
        )
        same = np.abs(f.Ju.T @ (p - p0)).max(initial=0) < tolerance * scale
        return bool(same and found.status == 0 and found.x[-1] < tolerance)

    def empty(self, f: Full, p0: Array) -> bool:
        """Whether no point of it has the J_uᵀ p of p0."""
        scale = max(np.abs(p0).max(initial=0), 1e-6)
        E, e = np.vstack([self.E, f.Ju.T @ self.G]), np.r_[np.zeros(len(self.E)), f.Ju.T @ p0 / scale]
        found = scipy.optimize.linprog(
            np.zeros(self.G.shape[1]), A_ub=-self.A, b_ub=np.zeros(len(self.A)), A_eq=E, b_eq=e, bounds=(None, None)
        )
        return found.status == 2

    def nearest(self, f: Full, p0: Array, K: Array, k0: Array, target: Array) -> Array:
        """The value k₀ + K (p − p₀) nearest to `target` over the face through p0."""
        unit, size = max(np.abs(p0).max(initial=0), 1e-6), np.abs(K).max(initial=0) or 1.0
        B, error = K @ self.G / size, (k0 - K @ p0 - target) / (size * unit)
        E, e = np.vstack([self.E, f.Ju.T @ self.G]), np.r_[np.zeros(len(self.E)), f.Ju.T @ p0 / unit]
        x = solve_semidefinite_qp(B.T @ B, B.T @ error, self.A, np.full(len(self.A), -1e-10), E, e)
        return k0 + K @ (unit * self.G @ x - p0)


def convex_face(mu: Array, k: int, pinned: Array | None = None) -> Polyhedron:
    """p_N ≥ 0 and the friction polygon; μ = ∞ has none; no tangential impulse at μ = 0; `pinned` components are 0 (3n)."""
    n = len(mu)
    A, E = [np.eye(3 * n)[2::3]], [np.zeros((0, 3 * n)) if pinned is None else np.eye(3 * n)[pinned]]
    for i in range(n):
        if 0 < mu[i] < np.inf:
            facets = np.zeros((k, 3 * n))
            facets[:, 3 * i : 3 * i + 2], facets[:, 3 * i + 2] = -facet_normals(k), mu[i]
            A.append(facets)
        elif mu[i] == 0:
            E.append(np.eye(3 * n)[3 * i : 3 * i + 2])
    return Polyhedron(np.eye(3 * n), np.vstack(A), np.vstack(E))


def no_slip_face(answer: Prediction, f: Full, mu: Array, extra: Array, k: int = 4) -> list[Polyhedron]:
    """First inside the real cones, then with tangential impulses as they like. Contacts that part carry nothing, unless the
    law holds them all the same: those keep tangential impulses, which no cone allows."""
    u = f.at_end(answer.v_plus).reshape(-1, 3)
    parts = u[:, 2] + extra > ZERO
    held = parts & (mu > 0) & (np.abs(u[:, :2]).max(axis=1) < ZERO)
    pinned = np.repeat(parts & ~held, 3)
    pinned[2::3] = parts
    unlimited = convex_face(np.where(mu > 0, np.inf, 0.0), k, pinned)
    return [unlimited] if held.any() else [convex_face(mu, k, pinned), unlimited]


def coulomb_face(answer: Prediction, f: Full, mu: Array, extra: Array, k: int = 4) -> Polyhedron:
    """In p_N and the k shares p_F of each contact: zero where the slack is not, Σ p_F ≤ μ p_N, = where it slides."""
    n, d = len(mu), corners(k)
    u = f.at_end(answer.v_plus).reshape(-1, 3)
    G, A, E = np.zeros((3 * n, (1 + k) * n)), [np.eye((1 + k) * n)], []
    for i in range(n):
        shares = range(n + k * i, n + k * i + k)
        G[3 * i + 2, i] = 1
        G[3 * i : 3 * i + 2, shares] = d.T
        along = d @ u[i, :2]
        slip = max(-along.min(), 0.0)
        zero = ([i] if u[i, 2] + extra[i] > ZERO else []) + [
            j for j, w in zip(shares, along + slip, strict=True) if w > 3 * ZERO
        ]
        E.append(np.eye((1 + k) * n)[zero])
        limit = np.zeros((1, (1 + k) * n))
        limit[0, i], limit[0, shares] = mu[i], -1
        (E if slip > ZERO else A).append(limit)
    return Polyhedron(G, np.vstack(A), np.vstack(E))


def exact_cone_face(answer: Prediction, f: Full, mu: Array, extra: Array, k: int = 8) -> Polyhedron:
    """Contacts that slide keep the direction of their friction; those that stick stay in a polygon inside their round cone,
    with a corner where their friction points. For 0 < μ < ∞."""
    n = len(mu)
    u, p = f.at_end(answer.v_plus).reshape(-1, 3), answer.p.reshape(-1, 3)
    A, E = [np.eye(3 * n)[2::3]], [np.zeros((0, 3 * n))]
    for i in range(n):
        rows, angle = np.eye(3 * n)[3 * i : 3 * i + 3], np.arctan2(p[i, 1], p[i, 0])
        if u[i, 2] + extra[i] > ZERO:
            E.append(rows)
        elif np.linalg.norm(u[i, :2]) > ZERO:
            if not p[i].any():
                angle = np.arctan2(-u[i, 1], -u[i, 0])
            E.append(rows[:2] - mu[i] * np.outer([np.cos(angle), np.sin(angle)], rows[2]))
        else:
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            A.append(mu[i] * rows[2] - facet_normals(k) @ turn.T @ rows[:2])
    return Polyhedron(np.eye(3 * n), np.vstack(A), np.vstack(E))


def cone_face(answer: Prediction, f: Full, mu: Array, extra: Array, k: int = 4) -> Polyhedron:
    """In the loads of each contact's k rays: none along which the contact opens. For 0 < μ < ∞."""
    n, d = len(mu), corners(k)
    u = f.at_end(answer.v_plus).reshape(-1, 3)
    G, zero = np.zeros((3 * n, k * n)), []
    for i in range(n):
        rays = range(k * i, k * i + k)
        G[3 * i : 3 * i + 2, rays], G[3 * i + 2, rays] = mu[i] * d.T, 1
        zero += [j for j, w in zip(rays, u[i, 2] + extra[i] + mu[i] * d @ u[i, :2], strict=True) if w > 3 * ZERO]
    return Polyhedron(G, np.eye(k * n), np.eye(k * n)[zero])
