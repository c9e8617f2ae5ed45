"""The operators of the law and of the selection at a basis, see `idyn.differentiation.expansion`."""

from typing import NamedTuple

import numpy as np

from idyn.differentiation.arrays import DIMENSION, FORCES, NONE, PULL, TORQUES, Expansion, P, split
from idyn.differentiation.faces import COLUMNS, EDGE, FACE, FACETS, HELD, NEAR, SMALLEST, STICKING, TURNING, Basis
from idyn.library.kernels import compiled, stack_array
from idyn.selection.few import TIE_BREAK, UNLIMITED
from idyn.solvers.linalg import (
    axpy,
    backward,
    cholesky,
    copy,
    fill,
    fill_rows,
    forward,
    forward_rows,
    magnitude,
    multiply,
    multiply_transposed,
    product,
    product_transposed,
    scale,
)
from idyn.solvers.rows import solve_and_span
from idyn.types import Array


class Span(NamedTuple):
    """Columns of a basis in orthogonal coordinates."""

    factor: Array  # Yᵀ B = L Q₁ᵀ, L transposed, its rows in the order `order` (m, nu)
    order: Array
    moves: Array  # B Q (3n, m): the first `rank` columns move the robot, the others are internal forces
    rank: int  # of L


@compiled
def fill_span(lines: Array, Y: Array, factor: Array, order: Array, Q: Array, moves: Array) -> int:
    """Fill the arrays of a `Span` for columns (contact, S, T, N). Return its rank."""
    fill_rows(factor, 0.0)
    for c in range(len(factor)):
        for r in range(3):
            if lines[c, 1 + r] != 0.0:
                axpy(lines[c, 1 + r], Y[3 * int(lines[c, 0]) + r], factor[c])
    rank = split(factor, order, Q)
    fill_rows(moves, 0.0)
    for c in range(len(factor)):
        for r in range(3):
            if lines[c, 1 + r] != 0.0:
                axpy(lines[c, 1 + r], Q[c], moves[3 * int(lines[c, 0]) + r])
    return rank


class Choice(NamedTuple):
    """How the selection chooses."""

    objective: int  # NONE, FORCES or TORQUES
    kinds: int  # whether contacts slide, see `idyn.differentiation.faces`
    unlimited: bool  # whether friction is unlimited
    gradient: Array  # of the objective by p, times dt² (3n)
    multipliers: Array  # of the tight facets, to be filled (t)


@compiled
def fill_operators(x: Expansion, basis: Basis, choice: Choice, indices: tuple[Array, Array], L: Array, stretch: float) -> None:
    """Fill the operators of an `Expansion`, its codes, the multipliers, and row PULL of its motions for the base.

    indices: of the unactuated and of the actuated velocities; L: Cholesky factor of M_uu; stretch: √(1 + ρ)
    """
    rows, nu = x.Y.shape
    m, tight, u = basis.counts[COLUMNS], basis.counts[FACETS], indices[0]
    factor, order, moves, Q = stack_array((m, nu)), stack_array(nu, np.int64), stack_array((rows, m)), stack_array((m, m))
    rank = fill_span(basis.columns, x.Y, factor, order, Q, moves)
    span = Span(factor, order, moves, rank)
    law, y = x.law[:rows], x.motions[PULL]
    _fill_law(x.Y, basis, span, choice.kinds, law)
    product(x.push, law, x.law[rows:])
    fill(y, 0.0)
    fill(choice.multipliers, 0.0)
    x.marks[DIMENSION] = 0
    if choice.objective != NONE:
        if tight > 0 and m > rank:
            _fill_multipliers(basis, span, choice)
        nu_base = stack_array(nu)
        _base_multipliers(basis, span, choice, nu_base)
        backward(L, nu_base)
        for i in range(nu):
            y[u[i]] = stretch * nu_base[i]
        if tight == 0:
            _choose(x, choice, span, indices[1])
    if choice.objective != NONE and tight > 0 and m > rank:
        count = basis.counts[FACE]
        factor2, order2, Q2 = stack_array((count, nu)), stack_array(nu, np.int64), stack_array((count, count))
        moves2 = stack_array((rows, count))
        rank2 = fill_span(basis.face, x.Y, factor2, order2, Q2, moves2)
        span2 = Span(factor2, order2, moves2, rank2)
        _restrict(x.Y, span2, law)
        _choose(x, choice, span2, indices[1])
    _mark_edges(x, basis, choice.multipliers)


@compiled
def _fill_law(Y: Array, basis: Basis, span: Span, kinds: int, law: Array) -> None:
    """Fill the operator of the law, dp by db."""
    (rows, nu), rank = Y.shape, span.rank
    z = stack_array((rank, rows))
    if kinds == STICKING and rank == nu:
        # W = Bᵀ: dp = −Gᵀ G db, G = L⁻ᵀ (B Q₁)ᵀ
        for k in range(rank - 1, -1, -1):
            for row in range(rows):
                z[k, row] = span.moves[row, k]
            for j in range(k + 1, rank):
                axpy(-span.factor[k, j], z[j], z[k])
            scale(1.0 / span.factor[k, k], z[k])
        product_transposed(z, z, law)
        for row in range(rows):
            scale(-1.0, law[row])
        return
    fill_rows(law, 0.0)
    if kinds != TURNING:
        _constrain(Y, basis, span, z)
        multiply(span.moves, z, 1.0, law)
        return
    # T = Yᵀ H,  S = 1 + T Y
    T, S = np.zeros((nu, rows)), np.zeros((nu, nu))
    for i in range(rows // 3):
        for c in range(2):
            for r in range(2):
                for j in range(nu):
                    T[j, 3 * i + c] += Y[3 * i + r, j] * basis.turning[i, r, c]
    for j in range(nu):
        S[j, j] = 1.0
    multiply(T, Y, 1.0, S)
    cholesky(S)
    # Y S⁻¹, and 1 − Y S⁻¹ T
    Z, soft = Y.copy(), np.eye(rows)
    for row in range(rows):
        forward(S, Z[row])
        backward(S, Z[row])
    multiply(Z, T, -1.0, soft)
    _constrain(Z, basis, span, z)
    # dz = z soft db,  dû = Y S⁻¹ L dz + soft db
    dz, du, loads = np.zeros((rank, rows)), soft.copy(), np.zeros((nu, rows))
    multiply(z, soft, 1.0, dz)
    for j in range(nu):
        for k in range(min(j + 1, rank)):
            axpy(span.factor[k, j], dz[k], loads[span.order[j]])
    multiply(Z, loads, 1.0, du)
    # dp = B Q₁ dz − H dû
    multiply(span.moves, dz, 1.0, law)
    for i in range(rows // 3):
        for r in range(2):
            for c in range(2):
                axpy(-basis.turning[i, r, c], du[3 * i + c], law[3 * i + r])


@compiled
def _constrain(Y: Array, basis: Basis, span: Span, z: Array) -> None:
    """Fill −(W Y L)⁺ W (rank, 3n)."""
    held, count, (rank, rows) = basis.held, basis.counts[HELD], z.shape
    X, Q = stack_array((count, rank)), stack_array((count, count))
    order, w = stack_array(rank, np.int64), stack_array(Y.shape[1])
    for row in range(count):
        fill(w, 0.0)
        for c in range(3):
            if held[row, 1 + c] != 0.0:
                axpy(held[row, 1 + c], Y[3 * int(held[row, 0]) + c], w)
        for k in range(rank):
            s = 0.0
            for j in range(k, len(w)):
                s += span.factor[k, j] * w[span.order[j]]
            X[row, k] = s
    regular = split(X, order, Q)
    solved = stack_array((regular, rows))
    fill_rows(solved, 0.0)
    for row in range(count):
        for k in range(regular):
            for c in range(3):
                solved[k, 3 * int(held[row, 0]) + c] -= Q[row, k] * held[row, 1 + c]
    fill_rows(z, 0.0)
    for k in range(regular - 1, -1, -1):
        for j in range(k + 1, regular):
            axpy(-X[k, j], solved[j], solved[k])
        scale(1.0 / X[k, k], solved[k])
        axpy(1.0, solved[k], z[order[k]])


@compiled
def _fill_multipliers(basis: Basis, span: Span, choice: Choice) -> None:
    """Fill the multipliers of the tight facets: 0 for those that do not restrict the selection."""
    tight, count, rank = basis.tight, basis.counts[FACETS], span.rank
    rows, m = span.moves.shape
    A, b, z, others = np.empty((count, m - rank)), np.empty(m - rank), np.empty(count), np.empty((count, count))
    for k in range(m - rank):
        b[k] = 0.0
        for row in range(rows):
            b[k] += span.moves[row, rank + k] * choice.gradient[row]
        for t in range(count):
            A[t, k] = 0.0
            for c in range(3):
                A[t, k] += tight[t, 1 + c] * span.moves[3 * int(tight[t, 0]) + c, rank + k]
    solve_and_span((A, b), (z, others), 0.0)
    for t in range(count):
        choice.multipliers[t] = z[t]


@compiled
def _base_multipliers(basis: Basis, span: Span, choice: Choice, y: Array) -> None:
    """Fill the multipliers of Yᵀ p in the selection (nu): Bᵀ Y y = Bᵀ (gradient − Σ multiplier · facet)."""
    rest, rank = choice.gradient.copy(), span.rank
    for t in range(basis.counts[FACETS]):
        for c in range(3):
            rest[3 * int(basis.tight[t, 0]) + c] -= choice.multipliers[t] * basis.tight[t, 1 + c]
    fill(y, 0.0)
    for k in range(rank - 1, -1, -1):
        s = 0.0
        for row in range(len(rest)):
            s += span.moves[row, k] * rest[row]
        for j in range(k + 1, rank):
            s -= span.factor[k, j] * y[span.order[j]]
        y[span.order[k]] = s / span.factor[k, k]


@compiled
def _restrict(Y: Array, span: Span, law: Array) -> None:
    """Replace dp of the law by impulses of the face with the same Yᵀ dp."""
    rows, nu = Y.shape
    rank = span.rank
    x, z = np.zeros((nu, rows)), np.zeros((rank, rows))
    multiply_transposed(Y, law, 1.0, x)
    for j in range(rank):
        copy(x[span.order[j]], z[j])
        for k in range(j):
            axpy(-span.factor[k, j], z[k], z[j])
        scale(1.0 / span.factor[j, j], z[j])
    fill_rows(law, 0.0)
    multiply(span.moves, z, 1.0, law)


@compiled
def _choose(x: Expansion, choice: Choice, span: Span, a: Array) -> None:
    """Fill the dimension of the choice, `chosen` and `lever`, and add the choice to `law`."""
    rows, m = span.moves.shape
    law, chosen = x.law[:rows], x.chosen
    d, na, rank = m - span.rank, len(a), span.rank
    x.marks[DIMENSION] = d
    if d == 0:
        return
    for row in range(rows):
        for k in range(d):
            chosen[row, k] = span.moves[row, rank + k]
    if choice.objective == FORCES and choice.kinds == STICKING:  # orthonormal columns: K = 1, and dp is the smallest already
        return
    K, tau, lever2 = stack_array((d, d)), stack_array((na, d)), 0.0
    fill_rows(K, 0.0)
    fill_rows(tau, 0.0)
    for row in range(rows):
        chosen_row = chosen[row]
        for i in range(d):
            axpy(chosen_row[i], chosen_row, K[i])
    if choice.objective == TORQUES:
        for row in range(rows):
            for k in range(na):
                lever = x.J[row, a[k]]
                lever2 = max(lever2, lever * lever)
                axpy(lever, chosen[row], tau[k])
        weight = (UNLIMITED if choice.unlimited else TIE_BREAK) * lever2
        for i in range(d):
            scale(weight, K[i])
        multiply_transposed(tau, tau, 1.0, K)
    cholesky(K)
    forward_rows(K, chosen)
    # law −= A (Aᵀ K A)⁻¹ Aᵀ K law
    moved = stack_array((d, rows))
    fill_rows(moved, 0.0)
    if choice.objective == FORCES:
        multiply_transposed(chosen, law, 1.0, moved)
    else:
        torque = np.zeros((na, rows))
        for row in range(rows):
            for k in range(na):
                if x.J[row, a[k]] != 0.0:
                    axpy(x.J[row, a[k]], law[row], torque[k])
        for k in range(d):
            fill(x.lever[k], 0.0)
            for row in range(rows):
                for j in range(na):
                    x.lever[k, j] += chosen[row, k] * x.J[row, a[j]]
        multiply(x.lever, torque, 1.0, moved)
    for row in range(rows):
        for k in range(d):
            axpy(-chosen[row, k], moved[k], law[row])


@compiled
def _mark_edges(x: Expansion, basis: Basis, multipliers: Array) -> None:
    """Add the code EDGE to contacts with a tight facet that does not restrict the selection."""
    largest = max(SMALLEST, magnitude(x.impulses[P]))
    for t in range(basis.counts[FACETS]):
        if not multipliers[t] > NEAR * largest:
            basis.codes[int(basis.tight[t, 0])] |= EDGE
