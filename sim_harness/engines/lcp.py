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
- The LCP of redundant contacts has many solutions, and their motions differ: a box whose whole grip acts at one corner may turn
  about it. Lemke's method ends in any of them, or fails. Here contacts first yield by ε W p, with which the load is even and
  unique. The yield is then taken back in turns (proximal point method), so the rigid solution found is near to the even one.
- A step without a certified solution has the impulses of the turn with the least violation, not zero.

Modelling error: the polygon is inscribed in the friction circle. The largest friction is between μ cos(π/edges) and μ times the
normal force, depending on direction, and sliding friction may not point exactly against the slip. Contact is
inelastic unless `restitution` is set. Events inside a step are not resolved: velocities are first order in dt.
"""

from typing import Annotated

import msgspec
import numpy as np

from controllers.config.loading import Kind, NonNegative
from idyn.library.kernels import compiled, entry
from idyn.library.records import Matrix, Vector
from idyn.solvers.lemke import basis_solution, covering, lemke, natural_residual
from idyn.solvers.linalg import copy_rows, fill_rows
from idyn.status import NOT_CERTIFIED, SOLVED, Status
from idyn.types import Array
from sim_harness.engines.contact_space import contact_space, no_solution, solution
from sim_harness.engines.engine import ForwardProblem, ForwardSolution, Restitution, gap_speeds

TOLERANCE = 1e-8  # largest |min(z, w)| of a solved step, relative to max(1, ‖r‖∞) [N·s or m/s]. Typical: 1e-14
ROUNDS = 8  # largest number of LCPs per step while the set of open contacts with μ = ∞ changes

YIELD, LEAST_YIELD = 1e-3, 1e-7
"""ε in the first turn, and its least value. Of 749 steps of a box in a grip, Lemke's method fails in 148 with ε = 0 and in none
with 10⁻⁴ or more. With an ε below the least, rounding errors of gaps shift load between contacts."""

FALL, TURNS = 100.0, 20
"""Factor by which ε falls after a turn, and grows after a turn that failed; largest number of turns. Typical: 3 turns."""

AGREED = 1e-12  # the turns end when |min(z, w)| is below this share of max(1, ‖r‖∞)
CLOSER = 0.9  # a turn replaces an earlier one when its violation is below this share of the earlier one's
NEWTON_STEPS = 10  # largest number of Newton steps from the pairs of the last turn, before Lemke's method

SPREADS = (1.0, 0.0)
"""Spreads of the covering vectors of Lemke's method, tried in this order. Equal entries fail more often in symmetric grips."""


class PolygonLcp(Kind, frozen=True, tag="lcp"):
    """Rigid contacts with Coulomb friction as a linear complementarity problem."""

    # number of corners of the friction polygon, ≥ 3; 4 is the paper's pyramid
    edges: Annotated[int, msgspec.Meta(ge=3, le=32)] = 4
    # largest speed at which a penetration is reduced [m/s], ≥ 0; at 0 penetrations stay. The body reaches the surface with this
    # speed and hops by recovery² / 2g: 0.1 mm at the default, 50 mm at 1 m/s
    recovery: NonNegative = 0.05
    restitution: Restitution = 0.0  # ratio of the speeds after and before an impact, see `sim_harness.engines.engine`
    max_pivots: Annotated[int, msgspec.Meta(ge=1)] = 1000  # largest number of pivots of one Lemke run

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


@entry(Matrix, Vector, Vector, Vector, int, int)
def solve_polygon(D: Array, b: Array, mu: Array, c: Array, edges: int, max_pivots: int) -> tuple[Array, int, int, float]:
    """Return impulses (n, 3) in contact coordinates, status, pivots, and max |min(z, w)| of rigid contacts."""
    A, r, contact, direction = polygon_lcp(D, b, mu, c, edges)
    scale = 1.0
    for value in r:
        scale = max(scale, abs(value))
    W = np.ones(len(mu))  # mean diagonal of D of each contact, 1 for a contact that moves no body
    for i in range(len(mu)):
        trace = D[3 * i, 3 * i] + D[3 * i + 1, 3 * i + 1] + D[3 * i + 2, 3 * i + 2]
        W[i] = trace / 3.0 if trace > 0.0 else 1.0
    p, best, basis, share = np.zeros((len(mu), 3)), np.zeros((len(mu), 3)), np.zeros(len(r), dtype=np.bool_), YIELD
    status, pivots, least = NOT_CERTIFIED, 0, np.inf
    for _ in range(TURNS):
        M, q = yielding(A, r, contact, direction, share * W, p)
        z, outcome, used, found = solve_near(M, q, basis, max_pivots, scale)
        pivots += used
        if outcome != SOLVED:
            status, share = outcome, FALL * share
            continue
        basis, share = found, max(share / FALL, LEAST_YIELD)
        fill_rows(p, 0.0)
        for x in range(len(r)):  # the direction of a λ is zero
            for e in range(3):
                p[contact[x], e] += direction[x, e] * z[x]
        error = natural_residual(A, r, z)
        if error < CLOSER * least:
            least = error
            copy_rows(p, best)
        if least <= AGREED * scale:
            break
    return best, SOLVED if least <= TOLERANCE * scale else status, pivots, least


@compiled
def yielding(
    A: Array, r: Array, contact: Array, direction: Array, softness: Array, p: Array
) -> tuple[Array, Array]:  # fmt: skip
    """Return A and r of `polygon_lcp` for contacts that yield by softness (p⁺ − p) in all directions [m/s].

    softness: [(m/s)/(N·s)] (n)
    p: impulses without yield [N·s] (n, 3)
    """
    M, q = A.copy(), r.copy()
    for x in range(len(r)):
        i = contact[x]
        for e in range(3):
            q[x] -= softness[i] * direction[x, e] * p[i, e]
        for y in range(len(r)):
            if contact[y] == i:
                for e in range(3):
                    M[x, y] += softness[i] * direction[x, e] * direction[y, e]
    return M, q


@compiled
def solve_near(M: Array, q: Array, basis: Array, max_pivots: int, scale: float) -> tuple[Array, int, int, Array]:
    """Solve an LCP by Newton's method for min(z, w) = 0 from a basis, or by Lemke's method: z ≥ 0, status, pivots, basis."""
    n, at = len(q), basis.copy()
    for _ in range(NEWTON_STEPS if basis.any() else 0):
        z, w, regular = basis_solution(M, q, at)
        if not regular:
            break
        least = 0.0
        for i in range(n):
            least = min(least, z[i], w[i])
        if least >= -AGREED * scale:
            return np.maximum(z, 0.0), SOLVED, 0, at
        for i in range(n):
            at[i] = z[i] > 0.0 if at[i] else w[i] < 0.0
    pivots = 0
    for spread in SPREADS:
        z, status, used, at = lemke(M, q, max_pivots, covering(n, spread))
        pivots += used
        if status == SOLVED and natural_residual(M, q, z) <= TOLERANCE * scale:
            return np.maximum(z, 0.0), SOLVED, pivots, at
    return z, NOT_CERTIFIED if status == SOLVED else status, pivots, basis


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
