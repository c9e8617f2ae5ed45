"""The complementarity-free convex model: maximal dissipation of kinetic energy, as a QP  [ZD §2.3.4, §6].

    min_p ½ pᵀ D p + pᵀ J_u (v_u⁰ + M_uu⁻¹ M_ua v_a⁺)
    s.t.  D_N p + b_N + φ/dt ≥ 0,   p_N ≥ 0,   p_T in μ p_N × polygon          (no friction rows where μ = ∞)

This is stage I. D is singular as soon as contacts are redundant; stage II of the paper, the smoothest torque among equals,
is the selection step that follows every law. *One-stage* adds ε‖p‖² instead and leaves nothing to select.

When it is wrong: contacts may push while they part (no complementarity), so it predicts more normal force than there is when
feet slide or lift; the energy it dissipates depends on the frame's own motion.
"""

from collections.abc import Iterator

import numpy as np

from idyn.compiled import compiled
from idyn.errors import ConfigError
from idyn.laws.law import Conditions, Face, LawSolution, is_free, polygon
from idyn.reduction import Reduced
from idyn.solvers.qp import check_backend, solve_qp
from idyn.types import Array

ONE_STAGE = 1e-8
"""ε of the one-stage variant relative to the mean diagonal of D_NN. From 1e-8 to 1e-6 the impulses stay within 1e-4 N of the
least-norm ones; below, back ends differ from one another; at 1e-3 active contacts change."""


class Convex:
    """Settings: one_stage; infinite_friction (ID(t)_{QP,∞}, every μ > 0 taken for ∞); edges k of the polygon; QP back end."""

    conditions = Conditions.CONVEX
    basis_width = 0

    def __init__(
        self,
        *,
        one_stage: bool = False,
        infinite_friction: bool = False,
        edges: int = 4,
        circumscribed: bool = False,
        backend: str = "daqp",
    ) -> None:
        if edges < 4 or edges % 2:
            raise ConfigError("law.edges", f"expected an even number ≥ 4, got {edges}")
        check_backend(backend)
        self.name = "convex-one-stage" if one_stage else "convex-infinite" if infinite_friction else "convex"
        self.directions = polygon(edges, circumscribed)
        self._regularisation = ONE_STAGE if one_stage else 0.0
        self._one_stage = one_stage
        self.unlimited_friction = infinite_friction
        self._backend = backend

    def sticking(self, mu: Array) -> Array:
        return np.zeros(len(mu))

    def attempts(self, problem: Reduced, basis: Array | None) -> Iterator[tuple[str, LawSolution]]:
        yield self._backend, self._solve(problem, self._backend)
        for other in ("daqp", "quadprog"):
            if other != self._backend:
                yield other, self._solve(problem, other)

    def _solve(self, problem: Reduced, backend: str) -> LawSolution:
        n = len(problem.mu)
        H, f, A, lower, unit, flags, epsilon = assemble(
            problem.Y,
            problem.b,
            problem.energy,
            problem.mu,
            self.unlimited_friction,
            self.directions,
            self._regularisation,
        )
        solution = solve_qp(H, f, A, lower, backend=backend)
        multipliers = None if solution.multipliers is None else -unit * solution.multipliers[:n]
        face = None
        if not self._one_stage:
            face = Face(flags=flags, directions=self.directions, mu=problem.mu, unlimited=self.unlimited_friction)
        return LawSolution(
            p=unit * solution.x,
            face=face,
            status=solution.status,
            iterations=solution.iterations,
            basis=np.zeros((n, 0), dtype=np.bool_),
            multipliers=multipliers,
            epsilon=epsilon,
        )


@compiled
def assemble(Y, b, energy, mu, unlimited, directions, regularisation):
    """H, f, A, lower of the stage-I program in units of order one, the impulse unit, the face's flags, and ε [1/kg].

    Rows of A: non-penetration (n), then for each contact p_N ≥ 0 where friction is free or absent, and k facets where it is
    not free; with μ > 0 they imply p_N ≥ 0.
    """
    n, k, m = len(mu), len(directions), Y.shape[1]
    d, speed = 0.0, 0.0
    for i in range(n):
        for c in range(m):
            d += Y[3 * i + 2, c] ** 2 / n
        speed = max(speed, abs(b[3 * i + 2]))
        for r in range(3):
            speed = max(speed, abs(energy[3 * i + r]))
    d = d if d > 0.0 else 1.0
    speed = speed if speed > 0.0 else 1.0

    H = np.empty((3 * n, 3 * n))
    for i in range(3 * n):
        for j in range(i + 1):
            s = 0.0
            for c in range(m):
                s += Y[i, c] * Y[j, c]
            H[i, j] = s / d
            H[j, i] = s / d
    count = n
    for i in range(n):
        free = is_free(mu[i], unlimited)
        count += (1 if free or mu[i] == 0.0 else 0) + (0 if free else k)
    A, lower = np.zeros((count, 3 * n)), np.zeros(count)
    flags = np.ones((n, 2 + k), dtype=np.bool_)
    row = n
    for i in range(n):
        flags[i, 1] = False
        for j in range(3 * n):
            A[i, j] = H[3 * i + 2, j]
        lower[i] = -b[3 * i + 2] / speed
        free = is_free(mu[i], unlimited)
        if free or mu[i] == 0.0:
            A[row, 3 * i + 2] = 1.0
            row += 1
        if not free:
            row = facets(A, row, 3 * i, mu[i], directions)
    for i in range(3 * n):
        H[i, i] += regularisation
    return H, energy / speed, A, lower, speed / d, flags, regularisation * d


@compiled
def facets(A: Array, row: int, column: int, mu: float, directions: Array) -> int:
    """Write the k rows `μ p_N·(apothem) − m_j · p_T ≥ 0` of one contact's friction cone; the next free row.

    m_j is the outward normal of the polygon's edge between corners j and j + 1.
    """
    k = len(directions)
    for j in range(k):
        a, c = directions[j], directions[(j + 1) % k]
        normal_s, normal_t = c[1] - a[1], a[0] - c[0]
        A[row, column] = -normal_s
        A[row, column + 1] = -normal_t
        A[row, column + 2] = mu * (normal_s * a[0] + normal_t * a[1])
        row += 1
    return row
