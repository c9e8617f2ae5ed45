"""The quadratic programs of [Drumwright §5.2, §6.2] as published, with their known defects.

    min ½ ζ ‖(λ_n, λ_u)‖² + ½ ‖(λ_r, λ_s)‖² + ½ ‖β‖²        β = λ_t + B_t u⁺_t: deviation of friction from a damper
    s.t.  λ_n ≥ −K φ⁺ − B φ̇⁺,  λ_u ≥ −K φ⁺ − B φ̇⁺,  λ_n, λ_u ≥ 0,  ‖(λ_r, λ_s)‖ ≤ μ λ_n        (83)–(85), (109)–(120)
λ_n, λ_r, λ_s: normal and tangential forces of contacts; λ_u: forces of stops and of contacts without friction. Tied rows
(bilateral) are eliminated [Drumwright App. A]. f* = f + G_bᵀ C⁻¹ c also enters d and e; (197) and (198) omit it.

Known defects:
- Inequalities replace complementarity. One contact can press more than its spring to relieve others: a foot that should stand
  tips over.
- With the paper's weight ζ = 1/dt, normal forces grow in order to reduce slip: a block on a ramp presses with twice its
  weight, sticks where it should slide, and jumps.
- Friction does not maximise dissipation.

Method: a sequence of QPs, in which tangent planes are added where cones are violated, until the violation is small. Newton's
method on the optimality conditions then completes the solution, and certifies it.
"""

from typing import NamedTuple

import numpy as np

from controllers.config.loading import Positive
from idyn.errors import InputError
from idyn.solvers.qp import solve_qp
from idyn.status import Status
from idyn.types import Array
from sim_harness.engines.first_order import Bodies, ContactTerms, FirstOrder, Free
from sim_harness.engines.first_order_law import NORMAL, TANGENT, Table

FACETS, MOST_CUTS = 8, 40
"""Initial number of tangent planes of each cone; largest number of QPs: usually 3 to 8; each quarters the violation."""

NEAR, DONE = 1e-2, 1e-8
"""Violation of the cones below which Newton's method is tried, relative to the largest unknown; residual of the optimality
conditions below which the result of Newton's method is accepted."""

TIP = 1e-9
"""Share of the largest force below which a contact counts as unloaded, at the tip of its cone."""

MOST_STEPS, ROUNDING = 20, 1e-14
"""Largest number of Newton steps, usual: 4; residual at which it stops."""


class Program(NamedTuple):
    """The program min ½ xᵀ H x + gᵀ x, subject to A x ≥ q and friction cones  (180)–(186).

    x = (λ_n, λ_r, λ_s, λ_u) [N]: λ_n, λ_r, λ_s of n contacts, λ_u of u stops and contacts without friction
    """

    H: Array
    g: Array
    A: Array
    q: Array
    mu: Array  # friction coefficients (n)
    ties: tuple[Array, Array]  # forces of tied rows, λ_b = ties[0] + ties[1] x


def tied(S: Array, S_dt: Array, phi_K: Array, G: Array, Minv: Array, v: Array) -> tuple[Array, Array, Array]:
    """Return C⁻¹ c [N] (b), C⁻¹ D (b, nv) and Λ (nv, nv) of tied rows, for Ġ v = 0: λ_b = C⁻¹ (c + D G*ᵀ x)  (189)–(192).

    S: dt² K + dt B (b); S_dt: dt K + B (b); phi_K: K φ [N] (b); G: rows (b, nv); Minv: M⁻¹ (nv, nv)
    v: velocity after the step without constraint forces (nv)
    """
    D = -S[:, None] * (G @ Minv)
    C = np.identity(len(S)) - D @ G.T
    constant = np.linalg.solve(C, -phi_K - S_dt * (G @ v))
    share = np.linalg.solve(C, D)
    return constant, share, Minv + Minv @ G.T @ share


def program(bodies: Bodies, free: Free, table: Table, zeta: float) -> Program:
    """Return the program of a step. zeta: ζ. Raises InputError for μ = ∞, and for rigid contacts or stops, where K = ∞."""
    dt, tie = bodies.dt, table.tie
    stop, contact = ~tie & (table.mu == 0.0), ~tie & (table.mu > 0.0)
    if np.isinf(table.mu[contact]).any():
        raise InputError("mu", "expected finite friction with the friction 'published' of the engine 'first-order', got inf")
    if (table.R[:, NORMAL] == 0.0).any():
        raise InputError("stiffness", "expected finite stiffness with the friction 'published' of 'first-order', got inf")
    half = np.linalg.inv(np.tril(free.L))
    half -= free.factor.Q.T @ (free.factor.Q @ half)  # M⁻¹ projected onto the motions that rigid rows permit
    Minv, normals = half.T @ half, bodies.J[2::3]
    S = 1.0 / table.R[:, NORMAL]
    phi_K = -S * table.v_hat / dt  # K φ
    # elimination of tied rows (189)–(192)
    constant, share, Lam = tied(S[tie], S[tie] / dt, phi_K[tie], normals[tie], Minv, free.v_free)
    v = free.v_free + dt * Minv @ normals[tie].T @ constant
    n, u = int(np.count_nonzero(contact)), int(np.count_nonzero(stop))
    G_r, G_s = bodies.J[0::3][contact], bodies.J[1::3][contact]
    G = np.vstack([normals[contact], G_r, G_s, normals[stop]])
    # objective: ζ and 1 on the forces, and ½ ‖β‖² of friction
    H = np.diag(np.concatenate([np.full(n, zeta), np.ones(2 * n), np.full(u, zeta)]))
    g = np.zeros(3 * n + u)
    S_t = 1.0 / table.R[contact, TANGENT]
    for k, G_t in enumerate((G_r, G_s), start=1):
        slack = S_t[:, None] * (G_t @ Lam @ G.T)
        slack[:, k * n : (k + 1) * n] += np.eye(n)
        H += slack.T @ slack
        g += slack.T @ (S_t / dt * (G_t @ v))
    # constraints: λ ≥ −K φ⁺ − B φ̇⁺ of normals and stops
    pressing = np.concatenate([np.flatnonzero(contact), np.flatnonzero(stop)])
    own = np.concatenate([np.arange(n), 3 * n + np.arange(u)])
    A = S[pressing, None] * (normals[pressing] @ Lam @ G.T)
    A[np.arange(n + u), own] += 1.0
    q = -phi_K[pressing] - S[pressing] / dt * (normals[pressing] @ v)
    return Program(H, g, A, q, table.mu[contact], (constant, share @ G.T))


class Scaled(NamedTuple):
    """The program in scaled unknowns z, with x = units · z.

    H has ones on its diagonal. Rows of A have length 1; its last rows are λ_n, λ_u ≥ 0.
    """

    H: Array
    g: Array
    A: Array
    q: Array
    cones: Array  # c = (c_n, c_r, c_s) of c_n z_n ≥ ‖(c_r z_r, c_s z_s)‖ (n, 3)
    units: Array


def scaled(a: Program) -> Scaled:
    """Return the scaled program."""
    n, size = len(a.mu), len(a.g)
    units = 1.0 / np.sqrt(np.diag(a.H))
    signs = np.eye(size)[np.concatenate([np.arange(n), np.arange(3 * n, size)])]
    A = a.A * units
    lengths = np.linalg.norm(A, axis=1)
    q = np.concatenate([a.q / lengths, np.zeros(len(signs))])
    unit = max(float(np.abs(q).max(initial=0.0)), float(np.abs(units * a.g).max(initial=0.0))) or 1.0
    cones = units[: 3 * n].reshape(3, n).T * np.column_stack([a.mu, np.ones(n), np.ones(n)])
    alone = (np.count_nonzero(a.H, axis=0) == 1) & (a.g == 0.0)  # friction without coupling is 0 at the minimum
    cones[:, 1:][alone[n : 3 * n].reshape(2, n).T] = 0.0
    H, A = units[:, None] * a.H * units, np.vstack([A / lengths[:, None], signs])
    return Scaled(H, units * a.g / unit, A, q / unit, cones / np.linalg.norm(cones, axis=1)[:, None], unit * units)


def solve_program(a: Program, facets: int = FACETS) -> tuple[Array, Status, int, float]:
    """Solve the program. Return x [N], status, number of QPs, and residual of the optimality conditions in scaled unknowns.

    facets: initial number of tangent planes of each cone
    """
    s, n, left = scaled(a), len(a.mu), np.inf
    z, size = np.zeros(len(a.g)), len(s.q)
    cuts = [_plane(s, i, 2 * np.pi * k / facets) for i in range(n) for k in range(facets)]
    for rounds in range(1, MOST_CUTS + 1):
        answer = solve_qp(s.H, s.g, np.vstack([s.A, *cuts]), np.concatenate([s.q, np.zeros(len(cuts))]))
        if not answer.status.ok or answer.multipliers is None:
            return s.units * z, answer.status, rounds, np.inf
        z, loads = answer.x, answer.multipliers
        outside = _violation(s, z)
        if outside.max(initial=0.0) <= NEAR * np.abs(z).max(initial=0.0):
            slides = [i for i in range(n) if any(loads[size + k] != 0.0 and cuts[k][i] != 0.0 for k in range(len(cuts)))]
            tips = [i for i in range(n) if z[i] <= TIP * np.abs(z).max()]
            presses = [int(k) for k in np.flatnonzero(loads[:size]) if k - len(a.A) not in tips]
            # Newton's method with the active set of the QP
            better, left = polished(s, z, presses, [i for i in slides if i not in tips], tips)
            if left <= DONE:
                return s.units * better, Status.SOLVED, rounds, left
        for i in np.flatnonzero(outside > 0.0):
            cuts.append(_plane(s, int(i), np.arctan2(s.cones[i, 2] * z[2 * n + i], s.cones[i, 1] * z[n + i])))
    return s.units * z, Status.NOT_CERTIFIED, MOST_CUTS, left


def polished(s: Scaled, z: Array, active: list[int], slides: list[int], tips: list[int]) -> tuple[Array, float]:
    """Improve z by Newton's method on the optimality conditions for a given active set; return z and the residual.

    active: rows of A; slides: contacts on their cones; tips: contacts without force
    """
    n, size, m = len(s.cones), len(z), len(active)
    still = np.eye(size)[[k * n + i for i in tips for k in range(3)]]
    fixed = np.vstack([s.A[active], still])
    w = np.concatenate([z, np.zeros(len(fixed) + len(slides))])
    for step in range(MOST_STEPS):
        rows, curved = fixed, s.H.copy()
        missed = rows @ w[:size] - np.append(s.q[active], np.zeros(len(still)))
        for k, i in enumerate(slides):
            at = np.array([i, n + i, 2 * n + i])
            height, slope, bend = _cone(s.cones[i], w[at])
            row = np.zeros(size)
            row[at] = slope
            rows, missed = np.vstack([rows, row]), np.append(missed, height)
            curved[np.ix_(at, at)] += w[size + len(fixed) + k] * bend
        if step == 0:
            w[size:] = np.linalg.lstsq(rows.T, s.H @ z + s.g, rcond=None)[0]
        rest = np.concatenate([s.H @ w[:size] + s.g - rows.T @ w[size:], missed])
        whole = np.block([[curved, -rows.T], [rows, np.zeros((len(rows), len(rows)))]])
        if np.abs(rest).max(initial=0.0) <= ROUNDING:
            break
        w = w + np.linalg.lstsq(whole, -rest, rcond=1e-14)[0]
    # multipliers of tips must lie in the dual cones
    z, loads, corners = w[:size], np.delete(w[size:], np.arange(m, len(fixed))), w[size + m : size + len(fixed)].reshape(-1, 3)
    for corner, c in zip(corners, s.cones[tips], strict=True):
        sides = np.where(c[1:] > 0.0, corner[1:] / np.maximum(c[1:], 1e-300), 0.0)
        loads = np.append(loads, corner[0] - c[0] * np.linalg.norm(sides))
    left = max(np.abs(rest).max(initial=0.0), (-loads).max(initial=0.0), (s.q - s.A @ z).max(initial=0.0))
    return z, float(max(left, _violation(s, z).max(initial=0.0)))


def _cone(c: Array, x: Array) -> tuple[float, Array, Array]:
    """Return c_n x_n − ‖(c_r x_r, c_s x_s)‖, its gradient (3), and its negative Hessian (3, 3), set to 0 at the tip."""
    side = c[1:] * x[1:]
    radius, bend = float(np.linalg.norm(side)), np.zeros((3, 3))
    if radius == 0.0:
        return c[0] * x[0], np.array([c[0], 0.0, 0.0]), bend
    along = side / radius
    bend[1:, 1:] = (np.eye(2) - np.outer(along, along)) / radius * np.outer(c[1:], c[1:])
    return c[0] * x[0] - radius, np.append(c[0], -along * c[1:]), bend


def _violation(s: Scaled, z: Array) -> Array:
    """Return ‖(c_r z_r, c_s z_s)‖ − c_n z_n of each cone (n)."""
    n = len(s.cones)
    side = s.cones[:, 1:] * z[n : 3 * n].reshape(2, n).T
    return np.linalg.norm(side, axis=1) - s.cones[:, 0] * z[:n]


def _plane(s: Scaled, i: int, angle: float) -> Array:
    """Return the tangent plane of the cone of contact i at a direction of friction, as a unit row a (3n + u) of a · z ≥ 0."""
    n, row = len(s.cones), np.zeros(len(s.g))
    row[[i, n + i, 2 * n + i]] = s.cones[i] * [1.0, -np.cos(angle), -np.sin(angle)]
    return row / np.linalg.norm(row)


class Published(FirstOrder, frozen=True, tag="first-order-published"):
    """The engine `first-order` with the paper's programs. Configuration files cannot select it."""

    normal_weight: Positive | None = None  # ζ, > 0; None: the paper's 1/dt

    def impulses(self, bodies: Bodies, free: Free, table: Table, contacts: ContactTerms) -> tuple[Array, Status, int, float]:
        """Return impulses of the table's rows (N, 3), status, number of QPs, residual of the scaled optimality conditions."""
        a = program(bodies, free, table, 1.0 / bodies.dt if self.normal_weight is None else self.normal_weight)
        x, status, rounds, left = solve_program(a)
        n, p = len(a.mu), np.zeros((len(table.mu), 3))
        stop, contact = ~table.tie & (table.mu == 0.0), ~table.tie & (table.mu > 0.0)
        p[contact, 2], p[contact, 0], p[contact, 1] = x[:n], x[n : 2 * n], x[2 * n : 3 * n]
        p[stop, 2] = x[3 * n :]
        p[table.tie, 2] = a.ties[0] + a.ties[1] @ x
        return bodies.dt * p, status, rounds, left
