"""`lcp`: rigid contact and polygonal Coulomb friction as one LCP per step  [ZD §2.3, §5].

    0 ≤ p_N ⟂ N v⁺ + c ≥ 0        0 ≤ p_F ⟂ F v⁺ + E λ ≥ 0        0 ≤ λ ⟂ μ p_N − Eᵀ p_F ≥ 0
F holds `edges` tangent directions per contact and c the gap speed φ/dt:
the time stepping of Stewart & Trinkle and of Anitescu & Potra.

Differences from the textbook:
- A contact with μ = ∞ has no λ, since its tangents stick. A contact with μ = 0 has no tangents.
- The LCP does not bound the friction of an open contact with μ = ∞. The step is therefore solved again without the friction
  of open contacts until the set of open contacts does not change. If the set does not settle, the last solve includes the
  friction of all contacts.
- The gap speed of a penetrating contact is at least −recovery, so bodies leave a penetration slowly instead of being ejected.

Modelling error: the polygon is inscribed in the friction circle. The largest friction is between μ cos(π/edges) and μ times the
normal force, depending on direction, and sliding friction may not point exactly against the slip. Contact is
inelastic unless `restitution` is set. Events inside a step are not resolved: velocities are first order in dt.
"""

from typing import Annotated

import msgspec
import numpy as np

from controllers.config.loading import Kind, NonNegative
from idyn.jit.compiled import compiled
from idyn.solvers.lemke import lemke, natural_residual
from idyn.status import NOT_CERTIFIED, SOLVED, Status
from idyn.types import Array
from sim_harness.engines.contact_space import contact_space, no_solution, solution
from sim_harness.engines.engine import ForwardProblem, ForwardSolution
from sim_harness.engines.impacts import Restitution, gap_speeds
from sim_harness.engines.vectors import SHIFTS

TOLERANCE = 1e-8
"""Largest |min(z, w)| of a solved step, relative to max(1, ‖r‖∞) [N·s or m/s]. Typical: 1e-15."""

ROUNDS = 8
"""Largest number of LCPs per step while the set of open contacts with μ = ∞ changes."""


class PolygonLcp(Kind, frozen=True, tag="lcp"):
    """Rigid contacts with Coulomb friction as a linear complementarity problem.

    edges: number of corners of the friction polygon, ≥ 3; 4 is the paper's pyramid
    recovery: largest speed at which a penetration is reduced [m/s], ≥ 0; at 0 penetrations stay. The body reaches the surface
        with this speed and hops by recovery² / 2g: 0.1 mm at the default, 50 mm at 1 m/s
    restitution: ratio of the speeds after and before an impact, see `sim_harness.engines.impacts`
    max_pivots: largest number of pivots of one Lemke run
    """

    edges: Annotated[int, msgspec.Meta(ge=3, le=32)] = 4
    recovery: NonNegative = 0.05
    restitution: Restitution = 0.0
    max_pivots: Annotated[int, msgspec.Meta(ge=1)] = 1000

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        space = contact_space(problem)
        if not space.regular:
            return no_solution(problem)
        a, D, b = space.problem, space.D, space.b
        unlimited, pivots = np.isinf(a.mu), 0
        released = np.zeros_like(unlimited)
        c = gap_speeds(a.gaps, a.J[2::3] @ a.v, a.dt, self.recovery, self.restitution)
        for turn in range(ROUNDS):
            mu = a.mu if turn == ROUNDS - 1 else np.where(released, 0.0, a.mu)
            p, status, used, error = solve_polygon(D, b, mu, c, self.edges, self.max_pivots)
            pivots += used
            before, released = released, unlimited & (p[:, 2] <= 0.0)
            if (released == before).all():
                break
        return solution(space, p.ravel(), Status(status), pivots, error)


@compiled
def solve_polygon(D: Array, b: Array, mu: Array, c: Array, edges: int, max_pivots: int) -> tuple[Array, int, int, float]:
    """Return impulses (n, 3) in contact coordinates, status, pivots, and max |min(z, w)| for D without diagonal shift."""
    n = len(mu)
    A, r, contact, direction = polygon_lcp(D, b, mu, c, edges)
    scale = 1.0
    for i in range(len(r)):
        scale = max(scale, abs(r[i]))
    best = np.inf
    z_best = np.zeros(len(r))
    status, pivots = SOLVED, 0
    mean = np.trace(D) / max(3 * n, 1)
    for shift in SHIFTS:
        shifted = A
        if shift > 0.0:
            shifted = polygon_lcp(D + shift * mean * np.eye(3 * n), b, mu, c, edges)[0]
        z, status, used, _ = lemke(shifted, r, max_pivots, np.ones(len(r)))
        pivots += used
        error = natural_residual(A, r, z)
        if error < best:
            best, z_best = error, z
        if best <= TOLERANCE * scale:
            status = SOLVED
            break
        if status == SOLVED:
            status = NOT_CERTIFIED
    p = np.zeros((n, 3))
    for i in range(len(r)):
        if direction[i, 2] > 0.0:
            p[contact[i], 2] += z_best[i]
        else:  # tangent variables; the direction of a λ is zero
            p[contact[i], 0] += direction[i, 0] * z_best[i]
            p[contact[i], 1] += direction[i, 1] * z_best[i]
    return p, status, pivots, best


@compiled
def polygon_lcp(D: Array, b: Array, mu: Array, c: Array, edges: int) -> tuple[Array, Array, Array, Array]:
    """Return A and r of w = A z + r, and the contact and direction (s, t, n) of each variable z; zero direction for λ.

    Order of variables: the n normals, then the tangents and λ of each contact.
    """
    n = len(mu)
    size = n
    for i in range(n):
        size += (edges if mu[i] > 0.0 else 0) + (1 if 0.0 < mu[i] < np.inf else 0)
    contact, direction = np.zeros(size, dtype=np.int64), np.zeros((size, 3))
    A, r = np.zeros((size, size)), np.zeros(size)
    # directions of F; coupling of λ: A holds μ, −Eᵀ in the row of λ and E in its column
    row = n
    for i in range(n):
        contact[i], direction[i, 2] = i, 1.0
        for j in range(edges if mu[i] > 0.0 else 0):
            angle = 2.0 * np.pi * j / edges
            contact[row] = i
            direction[row, 0] = np.cos(angle) if abs(np.cos(angle)) > 1e-15 else 0.0
            direction[row, 1] = np.sin(angle) if abs(np.sin(angle)) > 1e-15 else 0.0
            row += 1
        if 0.0 < mu[i] < np.inf:
            contact[row] = i
            A[row, i] = mu[i]
            for j in range(row - edges, row):
                A[j, row], A[row, j] = 1.0, -1.0
            row += 1
    # r = dᵀ b (+ c for normals) and A += d_xᵀ D d_y for directions d
    for x in range(size):
        for e in range(3):
            r[x] += direction[x, e] * b[3 * contact[x] + e]
        if x < n:
            r[x] += c[x]
        for y in range(x + 1):
            s = 0.0
            for e in range(3):
                if direction[x, e] != 0.0:
                    for g in range(3):
                        s += direction[x, e] * direction[y, g] * D[3 * contact[x] + e, 3 * contact[y] + g]
            A[x, y] += s
            if x != y:
                A[y, x] += s
    return A, r, contact, direction
