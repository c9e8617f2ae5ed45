"""No slip, as an LCP: contacts either part or stick, whatever friction that takes  [ZD §4, Alg. 1 and 2; D15 §VI].

    0 ≤ p_N ⟂ N v⁺ + φ/dt ≥ 0,     S v⁺ = 0,     T v⁺ = 0

1. Rank selection: a maximal independent set X of tangential rows, by orthogonalisation with pivoting.
2. Their elimination: Ŷ = Y_N without its part in the span of Y_X, so Q = Ŷ Ŷᵀ.
3. LCP(r, Q) by principal pivoting on Ŷ.
4. p_X so that the rows of X vanish; the other tangential impulses are zero.

Different from the papers: the most independent row is taken next, not the first that is independent enough, and the
orthogonal basis itself is kept instead of the Gram matrix D_XX, which squares the condition number: rows that are
almost dependent (feet almost on one plane) are the normal case here.

When it is wrong: friction is unlimited, so a foot that should slide holds; μ is used only to tell frictionless contacts
(μ = 0) from the others. The rows it drops are violated unless the demand is consistent (mathematics §4).
"""

from collections.abc import Iterator

import numpy as np

from idyn.compiled import compiled
from idyn.laws.law import FACE_ZERO, Conditions, Face, LawSolution, polygon
from idyn.reduction import Reduced
from idyn.solvers.linalg import backward, forward
from idyn.solvers.pivoting import dual_active_set, ppm
from idyn.status import STATUSES
from idyn.types import Array

WELL_CONDITIONED = 1e-3
"""First, a tangential row is kept when more than this share of its length is new. Feet that are not quite on one plane have
rows that differ by less; where the demand is consistent the normals do their work, without kilonewtons that cancel."""

ALL_ROWS = 1e-9
"""The next rung keeps every row that differs by more than rounding errors: the law to the letter."""

HOLDS = 1e-10
"""A closing speed up to this [m/s] is none: round-off of the velocities that rank selection amplifies."""

PRINCIPAL, DUAL = 0, 1


class NoSlip:
    """Settings: max_pivots caps the pivoting of one attempt."""

    name = "no-slip"
    conditions = Conditions.NO_SLIP
    unlimited_friction = True
    directions = polygon(4)
    basis_width = 1

    def __init__(self, max_pivots: int = 1000) -> None:
        self.max_pivots = max_pivots

    def sticking(self, mu: Array) -> Array:
        return mu > 0

    def attempts(self, problem: Reduced, basis: Array | None) -> Iterator[tuple[str, LawSolution]]:
        cold = np.zeros((len(problem.mu), 1), dtype=np.bool_)
        if basis is None:
            yield "cold", self._solve(problem, cold, PRINCIPAL, WELL_CONDITIONED)
        else:
            yield "warm", self._solve(problem, basis, PRINCIPAL, WELL_CONDITIONED)
        yield "all rows", self._solve(problem, cold, PRINCIPAL, ALL_ROWS)
        yield "dual active set", self._solve(problem, cold, DUAL, ALL_ROWS)

    def _solve(self, problem: Reduced, basis: Array, rule: int, rank: float) -> LawSolution:
        p, flags, status, pivots, basis, _ = solve_no_slip(problem.Y, problem.b, problem.mu, basis, rule, rank, self.max_pivots)
        face = Face(flags=flags, directions=self.directions, mu=problem.mu, unlimited=True)
        return LawSolution(p=p, face=face, status=STATUSES[status], iterations=pivots, basis=basis)


@compiled
def select_rows(Y: Array, mu: Array, rank: float) -> tuple[Array, int, Array, Array]:
    """Maximal independent set of the tangential rows of contacts with friction, the most independent first.

    Returns the row indices X, their number k, an orthonormal basis U (k rows) of their span, and the triangle R with
    Y_X = R U. `rank`: share of a row's length that must be new.
    """
    rows, m = Y.shape
    n = rows // 3
    rest = np.empty((2 * n, m))
    start, own = np.zeros(2 * n), np.zeros(2 * n)  # squared lengths: at first, and of what is still new
    for i in range(n):
        for t in range(2):
            for c in range(m):
                rest[2 * i + t, c] = Y[3 * i + t, c]
                if mu[i] > 0:
                    start[2 * i + t] += Y[3 * i + t, c] ** 2
            own[2 * i + t] = start[2 * i + t]
    X, U, R = np.empty(m, dtype=np.int64), np.zeros((m, m)), np.zeros((m, m))
    k = 0
    while k < m:
        best = 0
        for i in range(2 * n):
            if own[i] > own[best]:
                best = i
        if n == 0 or not own[best] > rank * rank * start[best] or start[best] == 0.0:
            break
        row = 3 * (best // 2) + best % 2
        u = rest[best].copy()
        for j in range(k):  # once more against the basis: rounding errors of the first pass matter for nearly dependent rows
            s = 0.0
            for c in range(m):
                s += U[j, c] * u[c]
            for c in range(m):
                u[c] -= s * U[j, c]
        length = np.sqrt(np.sum(u * u))
        if not length > rank * np.sqrt(start[best]):
            own[best] = 0.0
            continue
        for c in range(m):
            U[k, c] = u[c] / length
        for j in range(k + 1):
            s = 0.0
            for c in range(m):
                s += U[j, c] * Y[row, c]
            R[k, j] = s
        X[k] = row
        k += 1
        own[best] = 0.0
        for i in range(2 * n):
            if own[i] == 0.0:
                continue
            s = 0.0
            for c in range(m):
                s += U[k - 1, c] * rest[i, c]
            own[i] = 0.0
            for c in range(m):
                rest[i, c] -= s * U[k - 1, c]
                own[i] += rest[i, c] * rest[i, c]
    return X, k, U, R


@compiled
def solve_no_slip(Y, b, mu, guess, rule, rank, max_pivots):
    """The four steps. Returns p (3n), the face's flags, status, pivots, basis (n, 1), rank of the rows kept."""
    n, m = len(mu), Y.shape[1]
    X, k, U, R = select_rows(Y, mu, rank)
    triangle = R[:k, :k]
    g = np.empty(k)  # the part of x = Yᵀp that makes the rows of X vanish: U x = g
    for i in range(k):
        g[i] = -b[X[i]]
    forward(triangle, g)
    x = np.zeros(m)
    for i in range(k):
        for c in range(m):
            x[c] += g[i] * U[i, c]

    normal_rows, r, lengths2 = np.empty((n, m)), np.empty(n), np.zeros(n)
    for i in range(n):
        r[i] = b[3 * i + 2]
        for c in range(m):
            y = Y[3 * i + 2, c]
            normal_rows[i, c] = y
            r[i] += y * x[c]
            lengths2[i] += y * y
        for _ in range(2):
            for j in range(k):
                s = 0.0
                for c in range(m):
                    s += U[j, c] * normal_rows[i, c]
                for c in range(m):
                    normal_rows[i, c] -= s * U[j, c]
    if rule == PRINCIPAL:
        z, status, pivots, active = ppm(normal_rows, r, lengths2, guess[:, 0], HOLDS, max_pivots)
    else:
        z, status, pivots, active = dual_active_set(normal_rows, r, lengths2, HOLDS, max_pivots)

    p = np.zeros(3 * n)
    for i in range(n):
        p[3 * i + 2] = z[i]
        for j in range(k):
            for c in range(m):
                g[j] -= U[j, c] * Y[3 * i + 2, c] * z[i]
        for c in range(m):
            x[c] += normal_rows[i, c] * z[i]
    backward(triangle, g)
    for i in range(k):
        p[X[i]] = g[i]

    flags, basis = np.zeros((n, 6), dtype=np.bool_), np.empty((n, 1), dtype=np.bool_)
    for i in range(n):
        w = b[3 * i + 2]
        for c in range(m):
            w += Y[3 * i + 2, c] * x[c]
        flags[i, 0] = w <= FACE_ZERO
        flags[i, 2:] = mu[i] > 0
        basis[i, 0] = active[i]
    return p, flags, status, pivots, basis, k
