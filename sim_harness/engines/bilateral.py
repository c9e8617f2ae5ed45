"""Constraint rows for engines that know contacts only: closures and welds are eliminated, stops become contacts.

    M⁻¹  →  M⁻¹ − M⁻¹ Gᵀ (G M⁻¹ Gᵀ)⁻¹ G M⁻¹        G v⁺ = −g/dt
Rows that depend on those before them are left out [D15 Alg. 2]; in the coordinates y = Lᵀ v with M = L Lᵀ the rest is a
projection along orthonormal directions Q, by which nothing has to be solved again.

Different from the paper: the orthonormal basis itself is carried on from row to row, at O(nv) for each direction that is there,
instead of the Cholesky factor of G M⁻¹ Gᵀ, which squares the condition number. The right side is −g/dt and not zero: rows
are met at the end of the step to first order, as gaps of contacts are, so what one step leaves open, O(dt²), the next
one closes, and drift stays bounded by that; a row that is far open is closed at `FASTEST`.

Modelling error: rows are rigid. Where they nearly become dependent (dead centres of linkages) errors of g grow by up to
1/DEPENDENT; of dependent rows the later ones carry no impulse.
"""

from typing import NamedTuple

import msgspec
import numpy as np

from idyn.errors import InputError
from idyn.jit.compiled import compiled
from idyn.solvers.linalg import cholesky, forward
from idyn.types import Array
from sim_harness.engines.engine import ForwardProblem, Rows
from sim_harness.engines.vectors import add, dot, largest

DEPENDENT = 1e-6
"""A row is left out when less than this share of its length is new, lengths being those in the metric M⁻¹."""

NOTHING = 1e-11
"""Less than this share of a length is rounding."""

FASTEST = 1.0
"""Speed at which a row is closed at the most [m/s or rad/s]: 1 mm in a step of 1 ms, far more than one step leaves open."""

ROUNDING, SHARE = 1e-6, 1e-2
"""Rows contradict one another when a dependent one is off from what the others make of it by more than this [m or rad], and by
more than this share of the largest g: rows that agree are off by what is of second order in g."""


class Held(NamedTuple):
    """Rows in the coordinates y = Lᵀ v: L⁻¹ Gᵀ = (C Q)ᵀ.

    Q: orthonormal directions that are held (rank, nv)
    C: rows of G in them (m, rank)
    kept: rows that are independent, C[kept] is lower triangular (rank)
    """

    Q: Array
    C: Array
    kept: Array


def without_stops(problem: ForwardProblem) -> ForwardProblem:
    """The same problem with its stops as contacts after the others: without tangents, μ = 0, gap g; `rows` are bilateral."""
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
    """Impulses of all rows of the problem, in its order: those of stops are in p (n + stops, 3), after the contacts' (m)."""
    rows = problem.rows
    if rows is None:
        return None
    out = np.empty(len(rows.g))
    out[rows.stops] = p[len(problem.mu) :, 2]
    out[~rows.stops] = bilateral
    return out


@compiled
def held_rows(L: Array, G: Array) -> Held:
    """[D15 Alg. 2] for the rows G (m, nv): one after the other, those that depend on earlier ones left out."""
    X = G.copy()
    for i in range(len(X)):
        forward(L, X[i])
    return orthonormalise(X, DEPENDENT)


@compiled
def orthonormalise(X: Array, share: float) -> Held:
    """Directions of the rows X (m, nv), X ≈ C Q. share: of its length that has to be new, or a row is left out.

    Gram–Schmidt, done twice: orthogonal to rounding errors.
    """
    m, nv = X.shape
    Q, kept = np.zeros((min(m, nv), nv)), np.zeros(min(m, nv), dtype=np.int64)
    C, longest2, rank = np.zeros((m, len(Q))), 0.0, 0
    for i in range(m):
        longest2 = max(longest2, np.dot(X[i], X[i]))
    for i in range(m):
        x = X[i].copy()
        length2 = dot(0.0, x, x)
        for _ in range(2):  # x ← x − (Q_j · x) Q_j
            for j in range(rank):
                s = dot(0.0, Q[j], x)
                C[i, j] += s
                add(x, -s, Q[j])
        rest2 = dot(0.0, x, x)
        least2 = max(share * share * length2, NOTHING * NOTHING * longest2)  # a plane linkage's third row is all rounding
        if rank < len(Q) and not rest2 <= least2:  # NaN is kept, and seen
            C[i, rank] = np.sqrt(rest2)
            for d in range(nv):
                Q[rank, d] = x[d] / C[i, rank]
            kept[rank] = i
            rank += 1
    return Held(Q[:rank].copy(), C[:, :rank].copy(), kept[:rank].copy())


@compiled
def along(held: Held, values: Array) -> Array:
    """The components t along Q for which the kept rows have these values: C[kept] t = values[kept] (rank)."""
    _, C, kept = held
    t = np.empty(len(kept))
    for j in range(len(kept)):
        s = values[kept[j]]
        for k in range(j):
            s -= C[kept[j], k] * t[k]
        t[j] = s / C[kept[j], j]
    return t


@compiled
def row_forces(held: Held, load: Array) -> Array:
    """Row impulses λ (m) with Q-components `load` of L⁻¹ Gᵀ λ (rank); 0 for rows that were left out."""
    _, C, kept = held
    out = np.zeros(len(C))
    for j in range(len(kept) - 1, -1, -1):
        s = load[j]
        for k in range(j + 1, len(kept)):
            s -= C[kept[k], j] * out[kept[k]]
        out[kept[j]] = s / C[kept[j], j]
    return out


@compiled
def project(Q: Array, x: Array) -> None:
    """x ← x without its components along Q, in place; exactly zero where no more than rounding is left."""
    length2 = dot(0.0, x, x)
    for j in range(len(Q)):
        add(x, -dot(0.0, Q[j], x), Q[j])
    if dot(0.0, x, x) <= NOTHING * NOTHING * length2:
        for d in range(len(x)):
            x[d] = 0.0


@compiled
def closing_speeds(g: Array, dt: float) -> Array:
    """What the rows' G v⁺ are to be: −g/dt, `FASTEST` at the most (m)."""
    out = np.empty(len(g))
    for i in range(len(g)):
        out[i] = -g[i] / dt
        if abs(out[i]) > FASTEST:
            out[i] = FASTEST if out[i] > 0.0 else -FASTEST
    return out


@compiled
def worst_contradiction(held: Held, g: Array) -> tuple[int, float]:
    """The dependent row whose g is furthest off from what the kept rows make of it, and by how much [m or rad]; −1 when all
    agree as well as linearised rows can."""
    against = -along(held, g)
    row, worst = -1, max(ROUNDING, SHARE * largest(g))
    for i in range(len(g)):
        s = dot(g[i], held.C[i], against)
        if not abs(s) <= worst:  # NaN is one, too
            row, worst = i, abs(s)
    return row, worst if row >= 0 else 0.0


@compiled
def meet_rows(held: Held, g: Array, dt: float, y: Array) -> bool:
    """y ← the nearest motion in y = Lᵀ v that meets the rows, in place; whether they agree."""
    row, _ = worst_contradiction(held, g)
    t = along(held, closing_speeds(g, dt))
    project(held.Q, y)
    for j in range(len(t)):
        add(y, t[j], held.Q[j])
    return row < 0


@compiled
def answer_of_rows(held: Held, G: Array, x: Array, rest: Array) -> tuple[Array, float]:
    """Impulses λ of the rows with Gᵀ λ = rest (m), and ‖rest − Gᵀ λ‖∞, inf where it is not finite; x: L⁻¹ rest (nv)"""
    load = np.zeros(len(held.Q))
    for j in range(len(load)):
        load[j] = dot(0.0, held.Q[j], x)
    impulses = row_forces(held, load)
    left = rest.copy()
    for i in range(len(impulses)):
        add(left, -impulses[i], G[i])
    return impulses, largest(left)


@compiled
def no_rows(nv: int) -> Held:
    return Held(np.zeros((0, nv)), np.zeros((0, 0)), np.zeros(0, dtype=np.int64))


def check_rows(M: Array, rows: Rows) -> None:
    """Raises InputError for rows of wrong shapes, that are not finite, or contradict one another; rows that yield contradict
    nothing.

    M: inertia (nv, nv), positive definite
    """
    m = len(rows.g)
    if (
        rows.G.shape != (m, len(M))
        or rows.stops.shape != (m,)
        or not np.isfinite(rows.G).all()
        or not np.isfinite(rows.g).all()
    ):
        raise InputError("rows", f"expected finite G ({m}, {len(M)}), g ({m}) and stops ({m}), got G {rows.G.shape}")
    on = np.flatnonzero(~rows.stops & ~rows.yields)
    L = M.copy()
    cholesky(L)
    row, off = worst_contradiction(held_rows(L, rows.G[on]), rows.g[on])
    if row >= 0:
        raise InputError(
            f"rows[{on[row]}]",
            f"contradicts the rows before it, expected one that they leave free or agree with; it is off by {off:.3g} m or rad",
        )
