"""Constraint rows for engines that handle contacts only: closures and welds are eliminated, stops become contacts.

    M⁻¹  →  M⁻¹ − M⁻¹ Gᵀ (G M⁻¹ Gᵀ)⁻¹ G M⁻¹        G v⁺ = −g/dt
In the coordinates y = Lᵀ v with M = L Lᵀ this is a projection along orthonormal directions Q. Rows that depend on earlier ones
are dropped [D15 Alg. 2]. Unlike there, the basis is updated row by row (the Cholesky factor of G M⁻¹ Gᵀ squares the condition
number), and the right side −g/dt closes errors by the end of the step, at most with the speed `FASTEST`.

Modelling error: rows are rigid. Where rows are nearly dependent, as at dead centres of linkages, errors of g are amplified by
up to 1/DEPENDENT. Dependent rows that are dropped carry no impulse.
"""

from typing import NamedTuple

import msgspec
import numpy as np

from idyn.library.kernels import compiled, entry
from idyn.library.records import Indices, Matrix, Vector
from idyn.solvers.linalg import forward
from idyn.types import Array
from sim_harness.engines.engine import ForwardProblem, Rows
from sim_harness.engines.linalg import add, dot, largest

DEPENDENT = 1e-6
"""A row is dropped when its part orthogonal to earlier rows is below this share of its length, in the metric M⁻¹."""

NOTHING = 1e-11  # a vector below this share of its original length is rounding error
FASTEST = 1.0  # largest closing speed of a row [m/s or rad/s]: 1 mm in a step of 1 ms, far more than the error of one step

ROUNDING, SHARE = 1e-6, 1e-2
"""A dependent row contradicts the others when g differs from their combination by more than ROUNDING [m or rad] and by more
than SHARE of the largest g. Consistent rows differ by terms of second order in g."""


class RowFactor(NamedTuple):
    """Orthonormal factor of constraint rows in the coordinates y = Lᵀ v: G L⁻ᵀ = C Q."""

    Q: Matrix  # orthonormal constrained directions (rank, nv)
    C: Matrix  # coefficients of the rows of G in Q (m, rank)
    kept: Indices  # indices of the independent rows; C[kept] is lower triangular (rank)


def without_stops(problem: ForwardProblem) -> ForwardProblem:
    """Return the problem with joint stops as additional contacts: tangent rows 0, μ = 0, gap g. `rows`: bilateral rows."""
    rows = problem.rows
    if rows is None or not rows.stops.any():
        return problem
    on, nv = rows.stops, len(problem.v)
    J = np.zeros((np.count_nonzero(on), 3, nv))
    J[:, 2] = rows.G[on]
    rest = None if on.all() else Rows(G=rows.G[~on], g=rows.g[~on], stops=on[~on])
    return msgspec.structs.replace(
        problem,
        J=np.concatenate([problem.J, J.reshape(-1, nv)]),
        mu=np.concatenate([problem.mu, np.zeros(len(J))]),
        gaps=np.concatenate([problem.gaps, rows.g[on]]),
        rows=rest,
    )


def row_impulses(problem: ForwardProblem, p: Array, bilateral: Array) -> Array | None:
    """Return the impulses of all constraint rows in the order of `problem.rows` (m); None if the problem has no rows.

    p: impulses of the contacts, then of the stops (n + stops, 3)
    bilateral: impulses of the rows that are not stops
    """
    rows = problem.rows
    if rows is None:
        return None
    out = np.empty(len(rows.g))
    out[rows.stops] = p[len(problem.mu) :, 2]
    out[~rows.stops] = bilateral
    return out


@entry(Matrix, Matrix)
def factor_rows(L: Array, G: Array) -> RowFactor:
    """Factor the rows G (m, nv) in order and drop rows that depend on earlier ones [D15 Alg. 2]."""
    X = G.copy()
    for i in range(len(X)):
        forward(L, X[i])
    return orthonormalise(X, DEPENDENT)


@compiled
def orthonormalise(X: Array, share: float) -> RowFactor:
    """Factor the rows X ≈ C Q (m, nv) by Gram–Schmidt with reorthogonalisation.

    share: a row is dropped when its part orthogonal to earlier rows is below this share of its length
    """
    m, nv = X.shape
    Q, kept = np.zeros((min(m, nv), nv)), np.zeros(min(m, nv), dtype=np.int64)
    C, longest2, rank = np.zeros((m, len(Q))), 0.0, 0
    for i in range(m):
        longest2 = max(longest2, dot(0.0, X[i], X[i]))
    for i in range(m):
        x = X[i].copy()
        length2 = dot(0.0, x, x)
        for _ in range(2):  # x ← x − (Q_j · x) Q_j
            for j in range(rank):
                s = dot(0.0, Q[j], x)
                C[i, j] += s
                add(x, -s, Q[j])
        rest2 = dot(0.0, x, x)
        least2 = max(share * share * length2, NOTHING * NOTHING * longest2)  # a planar linkage's third row is rounding error
        if rank < len(Q) and not rest2 <= least2:  # NaN rows are kept, so the error shows in the result
            C[i, rank] = np.sqrt(rest2)
            for d in range(nv):
                Q[rank, d] = x[d] / C[i, rank]
            kept[rank] = i
            rank += 1
    return RowFactor(Q[:rank].copy(), C[:, :rank].copy(), kept[:rank].copy())


@compiled
def components(factor: RowFactor, values: Array) -> Array:
    """Solve C[kept] t = values[kept] for t, the components along the directions Q (rank)."""
    _, C, kept = factor
    t = np.empty(len(kept))
    for j in range(len(kept)):
        s = values[kept[j]]
        for k in range(j):
            s -= C[kept[j], k] * t[k]
        t[j] = s / C[kept[j], j]
    return t


@compiled
def row_forces(factor: RowFactor, load: Array) -> Array:
    """Return row impulses λ (m) for which L⁻¹ Gᵀ λ has the components `load` along Q (rank); dropped rows get 0."""
    _, C, kept = factor
    out = np.zeros(len(C))
    for j in range(len(kept) - 1, -1, -1):
        s = load[j]
        for k in range(j + 1, len(kept)):
            s -= C[kept[k], j] * out[kept[k]]
        out[kept[j]] = s / C[kept[j], j]
    return out


@compiled
def project(Q: Array, x: Array) -> None:
    """x ← x − Qᵀ Q x, in place; exactly zero when only rounding error remains."""
    length2 = dot(0.0, x, x)
    for j in range(len(Q)):
        add(x, -dot(0.0, Q[j], x), Q[j])
    if dot(0.0, x, x) <= NOTHING * NOTHING * length2:
        for d in range(len(x)):
            x[d] = 0.0


@entry(RowFactor, Vector)
def worst_contradiction(factor: RowFactor, g: Array) -> tuple[int, float]:
    """Return the dependent row whose g contradicts the independent rows most, and the difference of g [m or rad].

    The row is −1 when all rows agree within the linearisation error.
    """
    negative = -components(factor, g)
    row, worst = -1, max(ROUNDING, SHARE * largest(g))
    for i in range(len(g)):
        s = dot(g[i], factor.C[i], negative)
        if not abs(s) <= worst:  # NaN counts as a contradiction
            row, worst = i, abs(s)
    return row, worst if row >= 0 else 0.0


@compiled
def satisfy_rows(factor: RowFactor, g: Array, dt: float, y: Array) -> bool:
    """Project y = Lᵀ v onto G v = −g/dt, in place, and return whether the rows are consistent."""
    row, _ = worst_contradiction(factor, g)
    t = components(factor, np.clip(-g / dt, -FASTEST, FASTEST))
    # y ← (1 − Qᵀ Q) y + Qᵀ t
    project(factor.Q, y)
    for j in range(len(t)):
        add(y, t[j], factor.Q[j])
    return row < 0


@compiled
def solve_row_impulses(factor: RowFactor, G: Array, x: Array, rest: Array) -> tuple[Array, float]:
    """Solve Gᵀ λ = rest for the row impulses λ (m); return λ and the error ‖rest − Gᵀ λ‖∞, inf when non-finite.

    x: L⁻¹ rest (nv)
    rest: generalised impulse that the rows must supply [N·s, N·m·s] (nv)
    """
    load = np.zeros(len(factor.Q))
    for j in range(len(load)):
        load[j] = dot(0.0, factor.Q[j], x)
    impulses = row_forces(factor, load)
    left = rest.copy()
    for i in range(len(impulses)):
        add(left, -impulses[i], G[i])
    return impulses, largest(left)


@compiled
def no_rows(nv: int) -> RowFactor:
    return RowFactor(np.zeros((0, nv)), np.zeros((0, 0)), np.zeros(0, dtype=np.int64))
