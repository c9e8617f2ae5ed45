"""Pivoting on LCPs 0 ≤ z ⟂ w = Y (Yᵀ z) + r ≥ 0, Y n×m with m small; Y Yᵀ is never formed. Expected cost O(m³ + m²n).

`ppm` is the modified Principal Pivoting Method I [ZD Alg. 2; D15 Alg. 1]; `dual_active_set` is a monotone rule for problems
on which PPM cycles. Unlike in the papers, a row that depends on the active rows replaces the active row whose impulse first
becomes zero (the blocking row; without one there is no solution: RAY), ties are broken by the lowest index, and z is refined
at the end.
"""

import numpy as np

from idyn.library.kernels import compiled, stack_array
from idyn.solvers.linalg import backward, copy, dot, fill, forward, magnitude
from idyn.status import CYCLE, PIVOT_LIMIT, RAY, SOLVED
from idyn.types import Array

DEPENDENT = 1e-13
"""A row is dependent if the squared length of its orthogonal part is below this share of its squared length (3e-7 of its
length). The factor is that of a Gram matrix, so below 1e-14 the orthogonal part consists of rounding errors."""

ZERO = 1e-11  # values of w and z down to −ZERO times their scale count as zero. The scale of w is max |r|, that of z is max |z|


@compiled
def append_row(F: Array, Y: Array, active: Array, count: int, j: int, length2: float) -> bool:
    """Add row j of Y to the factor F of the active block. Return False, without adding it, if it depends on the active rows.

    length2: squared length against which dependence is judged
    """
    if count >= F.shape[0]:
        return False
    # the new row of F: F_B f = Y_B Y_j, and the squared length of the orthogonal part of Y_j
    rest = dot(Y[j], Y[j])
    for i in range(count):
        s = dot(Y[active[i]], Y[j])
        for k in range(i):
            s -= F[i, k] * F[count, k]
        s /= F[i, i]
        F[count, i] = s
        rest -= s * s
    # dependent, or active
    if not rest > DEPENDENT * length2:
        return False
    F[count, count] = np.sqrt(rest)
    active[count] = j
    return True


@compiled
def delete_row(F: Array, active: Array, count: int, position: int) -> None:
    """Remove the row at `position` from the factor: shift rows up and restore the triangle by Givens rotations."""
    for i in range(position, count - 1):
        active[i] = active[i + 1]
        for k in range(i + 2):
            F[i, k] = F[i + 1, k]
    for j in range(position, count - 1):
        a, b = F[j, j], F[j, j + 1]
        h = np.hypot(a, b)
        c, s = a / h, b / h
        for i in range(j, count - 1):
            x, y = F[i, j], F[i, j + 1]
            F[i, j] = c * x + s * y
            F[i, j + 1] = c * y - s * x


@compiled
def solve_active(F: Array, count: int, x: Array) -> None:
    """Replace x by (Y_B Y_Bᵀ)⁻¹ x, B: the first `count` active rows."""
    block = F[:count, :count]
    forward(block, x[:count])
    backward(block, x[:count])


@compiled
def _slack(Y: Array, r: Array, active: Array, count: int, z: Array, w: Array) -> None:
    """Fill w = Y (Y_Bᵀ z_B) + r (n)."""
    n, m = Y.shape
    x = stack_array(m)
    fill(x, 0.0)
    for i in range(count):
        for c in range(m):
            x[c] += Y[active[i], c] * z[i]
    for i in range(n):
        s = r[i]
        for c in range(m):
            s += Y[i, c] * x[c]
        w[i] = s


@compiled
def _refine(Y: Array, r: Array, F: Array, active: Array, count: int, z: Array) -> None:
    """Fill z_B = −(Y_B Y_Bᵀ)⁻¹ r_B of the active rows, with one step of iterative refinement."""
    change, w = stack_array(count), stack_array(len(r))
    for i in range(count):
        z[i] = -r[active[i]]
    solve_active(F, count, z)
    _slack(Y, r, active, count, z, w)
    for i in range(count):
        change[i] = -w[active[i]]
    solve_active(F, count, change)
    for i in range(count):
        z[i] += change[i]


@compiled
def _finish(Y: Array, r: Array, active: Array, count: int, z_active: Array) -> tuple[Array, Array]:
    """Return z (n) ≥ 0 and the active set as a mask (n, bool)."""
    n = len(r)
    z, basis = np.zeros(n), np.zeros(n, dtype=np.bool_)
    for i in range(count):
        z[active[i]] = max(z_active[i], 0.0)
        basis[active[i]] = True
    return z, basis


@compiled
def ppm(Y: Array, r: Array, lengths2: Array, guess: Array, tolerance: float, max_pivots: int) -> tuple[Array, int, int, Array]:
    """Run the modified PPM I from the active set `guess` (n, bool). Return z (n), status, pivots, active set (n, bool).

    lengths2: squared length of each row against which dependence is judged (n)
    tolerance: w ≥ −tolerance counts as satisfied
    """
    n, m = Y.shape
    F, active, anchor, count = stack_array((m, m)), stack_array(m, np.int64), stack_array(m, np.int64), 0
    z, w = stack_array(m), stack_array(n)
    for j in range(n):  # start: the independent rows of the guess
        if guess[j] and append_row(F, Y, active, count, j, lengths2[j]):
            count += 1
    tolerance = max(tolerance, ZERO * magnitude(r))
    anchor_count, horizon, pivots = -1, 1, 0
    while True:
        # w = Q z + r; the most negative slack enters
        _refine(Y, r, F, active, count, z)
        _slack(Y, r, active, count, z, w)
        for i in range(count):
            w[active[i]] = 0.0
        i = -1
        for j in range(n):
            if w[j] < -tolerance and (i < 0 or w[j] < w[i]):
                i = j
        if i >= 0:
            if not append_row(F, Y, active, count, i, lengths2[i]):
                blocking = _blocking(F, Y, active, count, z, i)
                if blocking < 0:
                    return np.zeros(n), RAY, pivots, guess
                delete_row(F, active, count, blocking)
                count -= 1
                append_row(F, Y, active, count, i, lengths2[i])
            count += 1
            pivots += 1
            _refine(Y, r, F, active, count, z)
        # the most negative active impulse leaves
        k, big = -1, 0.0
        for j in range(count):
            big = max(big, abs(z[j]))
        for j in range(count):
            if z[j] < -ZERO * big and (k < 0 or z[j] < z[k]):
                k = j
        if k >= 0:
            delete_row(F, active, count, k)
            count -= 1
            pivots += 1
        if i < 0 and k < 0:
            z_all, basis = _finish(Y, r, active, count, z)
            return z_all, SOLVED, pivots, basis
        if count == anchor_count and _same_set(active, anchor, count):
            return np.zeros(n), CYCLE, pivots, guess
        if pivots >= horizon:  # Brent's cycle detection: the reference basis is replaced at powers of two
            copy(active, anchor)
            anchor_count = count
            horizon = 2 * pivots
        if pivots >= max_pivots:
            return np.zeros(n), PIVOT_LIMIT, pivots, guess


@compiled
def _blocking(F: Array, Y: Array, active: Array, count: int, z: Array, j: int) -> int:
    """Return the position of the active impulse that first becomes zero when the impulse of row j grows; −1 if there is none.
    Row j depends on the active rows."""
    fall = stack_array(count)
    _products(Y, active, count, j, fall)
    solve_active(F, count, fall)
    blocking, step = -1, np.inf
    for i in range(count):
        if fall[i] > ZERO and max(z[i], 0.0) / fall[i] < step:
            step, blocking = max(z[i], 0.0) / fall[i], i
    return blocking


@compiled
def _same_set(a: Array, b: Array, count: int) -> bool:
    for i in range(count):
        found = False
        for j in range(count):
            found = found or a[i] == b[j]
        if not found:
            return False
    return True


@compiled
def _products(Y: Array, active: Array, count: int, j: int, out: Array) -> float:
    """Return Y_j · Y_j; fill `out` with the products of Y_j and the active rows."""
    for i in range(count):
        out[i] = dot(Y[active[i]], Y[j])
    return dot(Y[j], Y[j])


@compiled
def dual_active_set(Y: Array, r: Array, lengths2: Array, tolerance: float, max_pivots: int) -> tuple[Array, int, int, Array]:
    """Run the dual active-set method (Goldfarb–Idnani): z stays ≥ 0 and the objective grows in every step, so no basis repeats.

    Return z (n), status, pivots, active set (n, bool). RAY proves that the problem has no solution.
    """
    n, m = Y.shape
    F, active, count = stack_array((m, m)), stack_array(m, np.int64), 0
    z, w, across, fall = stack_array(m), stack_array(n), stack_array(m), stack_array(m)
    tolerance = max(tolerance, ZERO * magnitude(r))
    pivots = 0
    while True:
        # w = Q z + r; the most negative slack enters
        _refine(Y, r, F, active, count, z)
        for i in range(count):
            z[i] = max(z[i], 0.0)
        _slack(Y, r, active, count, z, w)
        for i in range(count):
            w[active[i]] = 0.0
        j = int(np.argmin(w)) if n > 0 else -1
        if j < 0 or w[j] >= -tolerance:
            z_all, basis = _finish(Y, r, active, count, z)
            return z_all, SOLVED, pivots, basis
        gain = 0.0  # impulse of the entering row, accumulated over steps
        while True:
            pivots += 1
            if pivots >= max_pivots:
                return np.zeros(n), PIVOT_LIMIT, pivots, np.zeros(n, dtype=np.bool_)
            # per unit of z_j: z_B decreases by Q_BB⁻¹ Q_Bj, w_j grows by the Schur complement
            own = _products(Y, active, count, j, across)
            copy(across[:count], fall[:count])
            solve_active(F, count, fall)
            independent = append_row(F, Y, active, count, j, lengths2[j])
            curvature = F[count, count] ** 2 if independent else 0.0
            w_j = r[j] + own * gain
            for i in range(count):
                w_j += across[i] * z[i]
            # step: to w_j = 0, or to the first active impulse that reaches 0
            step, blocking = -w_j / curvature if independent else np.inf, -1
            for i in range(count):
                if fall[i] > ZERO and z[i] / fall[i] < step:
                    step, blocking = z[i] / fall[i], i
            if step == np.inf:
                return np.zeros(n), RAY, pivots, np.zeros(n, dtype=np.bool_)
            for i in range(count):
                z[i] -= step * fall[i]
            gain += step
            if blocking < 0:
                z[count] = gain
                count += 1
                break
            delete_row(F, active, count, blocking)
            for i in range(blocking, count - 1):
                z[i] = z[i + 1]
            count -= 1
