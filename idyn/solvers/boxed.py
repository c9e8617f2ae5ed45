"""Coulomb's law with boxes instead of cones, by Newton's method on the modes of contacts [MATHEMATICS §3.2], in time linear in
the contacts. It starts from given modes or from a few sweeps of projected Gauss–Seidel; more sweeps follow where it cycles."""

from typing import NamedTuple

import numpy as np

from idyn.library.kernels import compiled, stack_array
from idyn.solvers.linalg import axpy, copy, dot, fill, fill_rows, lu_in_place, lu_substitute
from idyn.status import CYCLE, SOLVED
from idyn.types import Array

EPSILON, TOLERANCE = 1e-8, 1e-12  # ε as a share of d; the sum of all residuals of a solution, as a share of the speed
SLACK = (
    1e-6  # speed that may be an error of the first step at new modes, as a share; dependent rows would open and close in turn
)
SWEEPS, STEPS = (4, 16, 64), 12  # sweeps of each start; most steps after it: usual are 2 at the right modes, at most 5 others
WIDTH = 8  # columns of S are a multiple of this, for vector instructions
FREE = 2.0  # mode of a row with u = 0; others have p = mode · slope · p_N, with modes −1 and 1 of rows A and C, 0 of rows N


class Boxed(NamedTuple):
    """Problem u = G Gᵀ p + q in rows N, A, C of each contact: 0 ≤ p_N ⟂ u_N ≥ 0, and |p_A| ≤ slope p_N with p_A = −slope p_N
    sign(u_A) where u_A ≠ 0; the same of C."""

    G: Array  # (3n, m)
    q: Array  # (3n)
    slope: Array  # (n)
    inverse: Array  # 1/‖G_i‖², 0 of rows that are zero (3n)
    d: float  # largest ‖G_i‖², or 1
    speed: float  # unit of u


@compiled
def solve_boxed(problem: Boxed, mode: Array, warm: bool, p: Array, u: Array) -> tuple[int, int]:
    """Fill p, u and modes of the solution (3n). Return the status, SOLVED or CYCLE, and the number of sweeps and new modes.

    warm: whether to start from the given modes. Modes determine p: of all p that they allow it is the one in the range of the
    free rows, the smallest one where no contact slides.
    """
    (rows, m), iterations, slack, enough = problem.G.shape, -1 if warm else 0, 0.0, 0.0
    Z, S, order = stack_array((rows, m)), stack_array((m, (m + WIDTH - 1) // WIDTH * WIDTH)), stack_array(m, np.int64)
    x, pull, guess, wanted = stack_array(m), stack_array(m), stack_array(rows), stack_array(rows)
    fill(guess, 0.0)
    fill(pull, 0.0)
    for sweeps in SWEEPS:
        if not warm:
            for _ in range(sweeps):
                _sweep(problem, guess, pull)
            _compare(problem, guess, pull, u, 0.0, mode, mode)
            iterations += sweeps
        changed = least = rows + 1
        for _ in range(STEPS):
            if changed > 0:
                iterations, slack, enough = iterations + 1, SLACK * problem.speed, 0.0
                fill(p, 0.0)
                copy(problem.q, u)
                if not _factor(problem, mode, Z, S, order):
                    break
            _step(problem, mode, Z, S, order, p, u, x)
            residual, changed, worst = _compare(problem, p, x, u, slack, mode, wanted)
            if residual <= enough:
                return SOLVED, iterations
            slack, enough = 1e-3 * slack, TOLERANCE * problem.speed  # the first step is never exact
            # all contacts change, or only the worst one if there are not fewer than before
            first, last, least = (0, rows, changed) if changed < least else (3 * worst, 3 * worst + 3, least)
            if changed > 0:
                copy(wanted[first:last], mode[first:last])
        if warm:
            break
    return CYCLE, iterations


@compiled
def _sweep(problem: Boxed, p: Array, x: Array) -> None:
    """Improve p row by row, with x = Gᵀ p."""
    for i in range(len(problem.slope)):
        for r in range(3 * i, 3 * i + 3):
            value, most = p[r] - problem.inverse[r] * (problem.q[r] + dot(problem.G[r], x)), problem.slope[i] * p[3 * i]
            value = max(value, 0.0) if r == 3 * i else min(max(value, -most), most)
            axpy(value - p[r], problem.G[r], x)
            p[r] = value


@compiled
def _factor(problem: Boxed, mode: Array, Z: Array, S: Array, order: Array) -> bool:
    """Fill the free rows z of Z: g, in rows N plus mode · slope times the rows A and C that are not free. Fill S with the
    factors of ε 1 + Σ z gᵀ. Return whether it is regular."""
    G, (m, width), g = problem.G, S.shape, stack_array(S.shape[1])
    fill(g, 0.0)
    fill_rows(S, 0.0)
    for r in range(len(mode)):
        if mode[r] != FREE:
            continue
        copy(G[r], Z[r])
        copy(G[r], g[:m])
        for e in range(r + 1, r + 3 if r % 3 == 0 else r):
            if mode[e] != FREE:
                axpy(mode[e] * problem.slope[r // 3], G[e], Z[r])
        for c in range(m):
            share = Z[r, c]
            for k in range(0, width, WIDTH):
                for e in range(k, k + WIDTH):
                    S[c, e] += share * g[e]
    for c in range(m):
        S[c, c] += EPSILON * problem.d
    return lu_in_place(S, order)


@compiled
def _step(problem: Boxed, mode: Array, Z: Array, S: Array, order: Array, p: Array, u: Array, x: Array) -> None:
    """Take a proximal step from p: p ← p − (u + G Δx)/ε in free rows, with (ε 1 + Σ z gᵀ) Δx = −Σ z u. Fill x = Gᵀ p."""
    load = stack_array(len(x))
    fill(load, 0.0)
    for r in range(len(p)):
        if mode[r] == FREE:
            axpy(-u[r], Z[r], load)
    lu_substitute(S, order, load, x)
    fill(load, 0.0)
    for r in range(len(p)):
        if mode[r] == FREE:
            p[r] -= (u[r] + dot(problem.G[r], x)) / (EPSILON * problem.d)
        else:
            p[r] = mode[r] * problem.slope[r // 3] * p[r - r % 3]
        if p[r] != 0.0:
            axpy(p[r], problem.G[r], load)
    copy(load, x)


@compiled
def _compare(problem: Boxed, p: Array, x: Array, u: Array, slack: float, mode: Array, wanted: Array) -> tuple[float, int, int]:
    """Fill u = G x + q and the modes that p − u/‖G_i‖² has; rows that are not free stay so up to a speed of `slack`. Return the
    sum of the residuals, how many contacts have other modes now, and which of them is the farthest from its own."""
    d, residual, changed, worst, farthest = problem.d, 0.0, 0, 0, 0.0
    for i in range(len(problem.slope)):
        n, most = 3 * i, problem.slope[i] * max(p[3 * i], 0.0)
        for r in range(n, n + 3):
            u[r] = problem.q[r] + dot(problem.G[r], x)
        value = p[n] - problem.inverse[n] * u[n]
        closed = value > (0.0 if mode[n] == FREE else slack / d)
        distance = abs(value) if closed != (mode[n] == FREE) else 0.0
        residual += abs(min(d * p[n], u[n]))
        wanted[n] = FREE if closed else 0.0
        for r in (n + 1, n + 2):
            residual += abs(d * p[r] - min(max(d * p[r] - u[r], -d * most), d * most))
            value, limit = p[r] - problem.inverse[r] * u[r], most if mode[r] == FREE else most - slack / d
            other = FREE if closed and abs(value) < limit else -1.0 if value < 0.0 or problem.slope[i] == 0.0 else 1.0
            if closed and other != mode[r]:
                distance = max(distance, abs(abs(value) - most))
            wanted[r] = other
        changed += distance > 0.0
        if distance > farthest:
            worst, farthest = i, distance
    return residual, changed, worst
