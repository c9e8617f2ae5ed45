"""`dissipation`: rigid contact without complementarity, as one convex quadratic program per step  [ZD §2.3.4].

    min ½ v⁺ᵀ M v⁺ + cᵀ p_N  =  min ½ pᵀ D p + bᵀ p + cᵀ p_N + const.          J v⁺ = D p + b
    s.t.  N v⁺ + c ≥ 0,   p_N ≥ 0,   p_T in μ p_N × polygon      c gap speed φ/dt
Among all impulses that prevent penetration and lie in the friction polygons, the engine chooses those with the least kinetic
energy after the step: the model of Drumwright & Shell and of Anitescu, in all degrees of freedom and for given joint torques.

Differences from the textbook: the cost includes the gap speed, as in Anitescu's relaxation. Without it approaching bodies
slow down before they touch. The gap speed of a penetrating contact is at least −recovery, as in `lcp`.

Modelling error: a contact may push while it opens (p_N and N v⁺ + c both positive), so sliding or lifting feet get more
normal force than from rigid Coulomb contact. The polygon is the same as in the engine `lcp`. With redundant contacts D is
singular: v⁺ is unique, the individual impulses are not.
"""

from typing import Annotated

import msgspec
import numpy as np

from controllers.config.loading import Kind, NonNegative
from idyn.library.kernels import entry
from idyn.library.records import Matrix, Vector
from idyn.solvers.linalg import affine, apply_transposed, copy
from idyn.solvers.qp import solve_qp
from idyn.status import Status
from idyn.types import Array
from sim_harness.engines.contact_space import contact_space, no_solution, solution
from sim_harness.engines.engine import ForwardProblem, ForwardSolution, Restitution, gap_speeds
from sim_harness.engines.linalg import SHIFTS, dot, largest

TOLERANCE = 1e-8
"""Largest violation of the optimality conditions of a solved step, relative to the speed of the fastest contact [m/s]."""


class Dissipation(Kind, frozen=True, tag="dissipation"):
    """Rigid contacts without complementarity: least kinetic energy after the step."""

    # number of corners of the friction polygon, ≥ 3; 4 is the paper's pyramid
    edges: Annotated[int, msgspec.Meta(ge=3, le=32)] = 4
    recovery: NonNegative = 0.05  # largest speed at which a penetration is reduced [m/s], ≥ 0; see the engine `lcp`
    restitution: Restitution = 0.0  # ratio of the speeds after and before an impact, see `sim_harness.engines.engine`

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        space = contact_space(problem)
        if not space.regular:
            return no_solution(problem)
        a = space.problem
        c = gap_speeds(a.gaps, a.J[2::3] @ a.v, a.dt, self.recovery, self.restitution)
        return solution(space, *least_energy(space.D, space.b, a.mu, c, self.edges))


def least_energy(D: Array, b: Array, mu: Array, c: Array, edges: int) -> tuple[Array, Status, int, float]:
    """Return impulses (3n), status, iterations and the violation of optimality [m/s].

    The QP is scaled to masses and speeds of order one.
    """
    if not len(b) or not np.isfinite(b).all():
        return np.zeros(len(b)), Status.SOLVED if not len(b) else Status.NON_FINITE, 0, 0.0
    weight = float(np.trace(D))
    mass, speed = len(b) / weight if weight > 0 else 1.0, float(np.abs(b).max()) or 1.0
    H, f = mass * D, b / speed
    A, lower = constraints(H, f, mu, c / speed, edges)
    f[2::3] += c / speed
    best, least, status, iterations = np.zeros(len(b)), np.inf, Status.BACKEND_FAILED, 0
    for shift in SHIFTS:
        answer = solve_qp(H + shift * np.eye(len(b)), f, A, lower)
        iterations += answer.iterations
        if answer.multipliers is None:
            continue
        error = speed * optimality(H, f, A, lower, answer.x, -answer.multipliers)
        if error < least:
            best, least = mass * speed * answer.x, error
        if least <= TOLERANCE * max(1.0, speed):
            return best, Status.SOLVED, iterations, least
        status = Status.NOT_CERTIFIED
    return best, status, iterations, least


@entry(Matrix, Vector, Vector, Vector, int)
def constraints(D: Array, b: Array, mu: Array, c: Array, edges: int) -> tuple[Array, Array]:
    """Return A and l of A p ≥ l: D_N p ≥ −b_N − c, then p_N ≥ 0, then the facets of all friction polygons with finite μ.

    Facets are m_j · p_T ≤ μ cos(π/edges) p_N with m_j halfway between two corners. For μ = 0 they imply p_T = 0.
    """
    n = len(mu)
    size = 2 * n
    for i in range(n):
        size += edges if mu[i] < np.inf else 0
    A, lower = np.zeros((size, 3 * n)), np.zeros(size)
    row = 2 * n
    for i in range(n):
        copy(D[3 * i + 2], A[i])  # D_N p ≥ −b_N − c
        lower[i] = -b[3 * i + 2] - c[i]
        A[n + i, 3 * i + 2] = 1.0  # p_N ≥ 0
        for j in range(edges if mu[i] < np.inf else 0):  # −m_j · p_T + μ cos(π/edges) p_N ≥ 0
            angle = np.pi * (2 * j + 1) / edges
            A[row, 3 * i] = -np.cos(angle)
            A[row, 3 * i + 1] = -np.sin(angle)
            A[row, 3 * i + 2] = mu[i] * np.cos(np.pi / edges)
            row += 1
    return A, lower


@entry(Matrix, Vector, Matrix, Vector, Vector, Vector)
def optimality(H: Array, f: Array, A: Array, lower: Array, x: Array, y: Array) -> float:
    """Return the largest violation of H x + f = Aᵀ y and of 0 ≤ y ⟂ A x − l ≥ 0, the latter as |min(y, A x − l)|."""
    rest, pushed = np.empty(len(x)), np.empty(len(x))
    affine(H, x, f, rest)
    apply_transposed(A, y, pushed)
    worst = largest(rest - pushed)
    for i in range(len(lower)):
        worst = max(worst, abs(min(y[i], dot(-lower[i], A[i], x))))
    return worst
